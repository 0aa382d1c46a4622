"""Is an array with more columns than rows transposed? Asked where it may be, said where it is evident."""

from __future__ import annotations

import torch
from torch import Tensor

from isotherm.report import Finding

WIDEST = 16_384
"""No embedding has more dimensions than that."""
WIDTHS = (16, 48, 50, 100, 200, 300, 1000)
"""Widths that encoders have, besides the multiples of 32."""
ONE = 1e-3
"""How far from 1 the length of a normalized vector may be, in half precision too."""


def transposed(z: Tensor, total: int) -> Finding | None:
    """What is to be said of finite rows, of `total` in the file, that are fewer than their columns.

    A few items with many dimensions are no fault. But where every column has length 1 and the rows have not, the
    columns were normalized; and where the rows are as many as an embedding has dimensions, the columns are not, and
    their lengths differ less than those of the rows, as items' do, the columns are the items.
    """
    d = z.shape[1]
    if d <= total:
        return None
    shape = f"There are more columns than rows ({total:,} × {d:,})"
    evidence = _evidence(z, total)
    if evidence:
        return Finding(
            "bad",
            f"{shape}, and the columns look like the items: the array is transposed. Rows must be items: save its "
            "transpose.",
            evidence,
        )
    return Finding("look", f"{shape}. Rows must be items: is the array transposed?", "d > n")


def _evidence(z: Tensor, n: int) -> str:
    """Why the columns are taken for the items; empty if they are not."""
    d = z.shape[1]
    rows, columns = (torch.linalg.vector_norm(z.double(), dim=dim) for dim in (1, 0))
    if _all_one(columns) and not _all_one(rows):
        return "every column has length 1, and the rows have not"
    if _is_width(n) and not _is_width(d) and _spread(columns) < _spread(rows) and not _standardized(z):
        return f"{n:,} is a usual width, {d:,} is none, and the columns differ less in length than the rows"
    return ""


def _is_width(k: int) -> bool:
    return k <= WIDEST and (k % 32 == 0 or k in WIDTHS)


def _all_one(lengths: Tensor) -> bool:
    return bool((lengths - 1).abs().max() < ONE)


def _spread(lengths: Tensor) -> float:
    """The standard deviation as a part of the mean."""
    return float(lengths.std() / lengths.mean())


def _standardized(z: Tensor) -> bool:
    """Whether every column was brought to mean 0, which makes lengths alike whatever the columns are."""
    means, deviations = z.double().mean(0), z.double().std(0)
    return bool((means.abs() <= ONE * deviations).all())
