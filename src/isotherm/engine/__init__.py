"""Sums over rows of similarities that are never stored: potentials in tiles, exact gradients."""

from isotherm.engine.elementwise import Elementwise, Gaussian, Linear, Scaled, Smooth, Softplus, softplus
from isotherm.engine.masks import Mask, Nothing, Periodic, Same, Unlike
from isotherm.engine.reductions import Expectation, LogSumExp, Total
from isotherm.engine.rows import apply_rows
from isotherm.engine.select import kth_largest
from isotherm.engine.tiles import reduce, tile_size

__all__ = [
    "Elementwise",
    "Expectation",
    "Gaussian",
    "Linear",
    "LogSumExp",
    "Mask",
    "Nothing",
    "Periodic",
    "Same",
    "Scaled",
    "Smooth",
    "Softplus",
    "Total",
    "Unlike",
    "apply_rows",
    "kth_largest",
    "reduce",
    "softplus",
    "tile_size",
]
