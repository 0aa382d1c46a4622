"""The numbers that describe an embedding. Inputs are (N, D) tensors, normalized inside."""

from isotherm.measures.geometry import (
    BINS,
    Pairwise,
    alignment,
    conditional_entropy,
    effective_rank,
    hardness,
    interclass_uniformity,
    local_separation,
    pairwise,
    prior_distance,
    projections,
    spectrum,
    tolerance,
    uniformity,
)

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
    "spectrum",
    "tolerance",
    "uniformity",
]
