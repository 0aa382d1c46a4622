"""The numbers that describe an embedding.

Inputs are (N, D) tensors or arrays, normalized inside (but `rankme`, `lidar` and `alpha_req`).
"""

from isotherm.measures.geometry import (
    alignment,
    alpha_req,
    conditional_entropy,
    effective_rank,
    hardness,
    interclass_uniformity,
    lidar,
    local_separation,
    prior_distance,
    projections,
    rankme,
    spectrum,
    tolerance,
    uniformity,
)
from isotherm.measures.sweep import BINS, Pairwise, pairwise

__all__ = [
    "BINS",
    "Pairwise",
    "alignment",
    "alpha_req",
    "conditional_entropy",
    "effective_rank",
    "hardness",
    "interclass_uniformity",
    "lidar",
    "local_separation",
    "pairwise",
    "prior_distance",
    "projections",
    "rankme",
    "spectrum",
    "tolerance",
    "uniformity",
]
