"""Sums over rows of similarities that are never stored: potentials in tiles, exact gradients."""

from isotherm.engine.elementwise import Elementwise, Gaussian, Linear, OnDevice, Ratio, Scaled, Smooth
from isotherm.engine.masks import Mask, Nothing, Periodic, Same, Unlike
from isotherm.engine.reductions import Expectation, LogSumExp, Total
from isotherm.engine.rows import apply_rows
from isotherm.engine.select import kth_largest
from isotherm.engine.sizes import tile_size
from isotherm.engine.sums import reduce

__all__ = [
    "Elementwise",
    "Expectation",
    "Gaussian",
    "Linear",
    "LogSumExp",
    "Mask",
    "Nothing",
    "OnDevice",
    "Periodic",
    "Ratio",
    "Same",
    "Scaled",
    "Smooth",
    "Total",
    "Unlike",
    "apply_rows",
    "kth_largest",
    "reduce",
    "tile_size",
]
