"""Whose class an item's nearest neighbour has where a rounded similarity cannot tell: exactly, and fair to ties."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from isotherm.pairing import unit

STRIP = 1 << 22
"""Distances at once (32 MB)."""
EQUAL = 1e-12
"""Squared distances that differ by less than this, as a part of the embedding's squared radius, are equal."""


def agreement(z: Tensor, labels: Tensor, same: Tensor, other: Tensor) -> Tensor:
    """The part of each item's nearest neighbours that is of its class, (N,) in float64; several where they are equal.

    `same` and `other` are the similarities to the nearest of the own class and of another. Where they differ by no more
    than their rounding, all distances of the item are looked at again in float64, about the common mean: so an
    embedding that is nearly one point, or takes few values, gets what its neighbours are and not the order of its rows.
    """
    rounding = torch.finfo(same.dtype).eps * max(8.0, math.sqrt(z.shape[1]))
    result = (same > other).double()
    doubtful = ((same - other).abs() <= rounding).nonzero()[:, 0]
    if not len(doubtful):
        return result
    u = unit(z.double(), "z")
    u = u - u.mean(0)
    squares = u.square().sum(1)
    near = EQUAL * float(squares.max())
    for some in doubtful.split(max(1, STRIP // len(u))):
        distances = torch.addmm(squares[some, None] + squares, u[some], u.T, alpha=-2)
        distances[torch.arange(len(some), device=some.device), some] = math.inf  # no neighbour of itself
        nearest = distances <= distances.amin(1, keepdim=True) + near
        own = nearest & (labels[some, None] == labels)
        result[some] = own.sum(1).double() / nearest.sum(1)
    return result
