"""The numbers that describe an embedding. Inputs are (N, D) tensors, normalized inside (but `rankme`)."""

from isotherm.measures.geometry import (
    alignment,
    conditional_entropy,
    effective_rank,
    hardness,
    interclass_uniformity,
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
    "conditional_entropy",
    "effective_rank",
    "hardness",
    "interclass_uniformity",
    "local_separation",
    "pairwise",
    "prior_distance",
    "projections",
    "rankme",
    "spectrum",
    "tolerance",
    "uniformity",
]
