"""Sums over rows of similarities that are never stored: potentials in tiles, exact gradients."""

from isotherm.engine.elementwise import (
    Elementwise,
    Gaussian,
    Linear,
    OnDevice,
    Ratio,
    Scaled,
    Smooth,
    Softplus,
    softplus,
)
from isotherm.engine.masks import Either, Listed, Mask, Nothing, Only, Periodic, Same, Unlike
from isotherm.engine.neighbours import nearest, nearest_to_sets
from isotherm.engine.reductions import Expectation, LogSumExp, Total
from isotherm.engine.rows import apply_rows
from isotherm.engine.select import kth_largest
from isotherm.engine.sizes import tile_size
from isotherm.engine.sums import reduce

__all__ = [
    "Either",
    "Elementwise",
    "Expectation",
    "Gaussian",
    "Linear",
    "Listed",
    "LogSumExp",
    "Mask",
    "Nothing",
    "OnDevice",
    "Only",
    "Periodic",
    "Ratio",
    "Same",
    "Scaled",
    "Smooth",
    "Softplus",
    "Total",
    "Unlike",
    "apply_rows",
    "kth_largest",
    "nearest",
    "nearest_to_sets",
    "reduce",
    "softplus",
    "tile_size",
]
