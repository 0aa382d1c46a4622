"""The nearest negatives: which of them count is found in strips of whole rows, and kept as one limit per query.

The forward pass sums over the k largest entries of each row and keeps a limit between the k-th and the next, so that
the backward pass can take the ordinary tiles: an entry counts where it reaches its query's limit. Matrix products of
other shapes, or with another number of threads, round differently; where the two entries tie or lie closer than that,
no limit can tell them apart. These few rows are *close*: both passes take them whole, in the same strips, and find
their k-th largest entry; all that tie with it count. A small matrix is taken whole in both passes altogether: it is
there again sooner than its limits are found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.engine.masks import Mask
from isotherm.engine.scratch import Scratch
from isotherm.engine.select import kth_largest, nearest, twins

FEW = 1 << 16  # entries of a matrix that is taken whole: 128 pairs of two views
ROUNDING = 3.0  # times the precision and the root of the width; why 3: docs/decisions/0003


@dataclass(frozen=True, eq=False)
class Limits:
    """Where each query's nearest negatives end."""

    values: Tensor
    """(n,): the similarity from which on its negatives count; +inf for those that are close"""
    close: Tensor
    """(n,): whether the query is close"""
    all_close: bool
    """Whether all are taken for close, in one strip"""
    twins: tuple[Tensor, Tensor] | None
    """Candidates that are copies of earlier ones, and these"""

    @classmethod
    def empty(cls, queries: Tensor, candidates: Tensor, height: int) -> Limits:
        n, few = len(queries), len(queries) * len(candidates) <= FEW and len(queries) <= height
        close = torch.empty(n, dtype=torch.bool, device=queries.device)
        return cls(queries.new_empty(n), close, few, twins(candidates))

    def close_strips(self, height: int) -> Sequence[slice | Tensor]:
        """The rows that are close."""
        return [slice(0, len(self.close))] if self.all_close else torch.nonzero(self.close)[:, 0].split(height)


class Strips:
    """Strips of whole rows of similarities, −inf where hidden."""

    def __init__(
        self, queries: Tensor, candidates: Tensor, hidden: Mask, top_k: int, limits: Limits, scratch: Scratch
    ) -> None:
        self._queries, self._candidates, self._hidden, self._k = queries, candidates, hidden, top_k
        self._limits, self._scratch = limits, scratch

    def _of(self, queries: Tensor) -> Tensor:
        s = self._scratch.take("s", (len(queries), len(self._candidates)))
        torch.mm(queries, self._candidates.T, out=s)
        if self._limits.twins is not None:  # the matrix product rounds equal columns differently
            copies, originals = self._limits.twins
            s[:, copies] = s[:, originals]
        return s

    def largest(self, rows: slice) -> Tensor:
        """The k largest entries of these rows; sets their limits."""
        limits, s = self._limits, self._of(self._queries[rows])
        self._hidden.hide(s, rows, slice(0, len(self._candidates)), -math.inf)
        values, least, following = nearest(s, self._k)
        gap = least - following
        close = ~(gap >= ROUNDING * torch.finfo(s.dtype).eps * math.sqrt(self._queries.shape[1]))
        limits.close[rows] = close
        limits.values[rows] = (least - gap.clamp(max=1) / 2).masked_fill_(close, math.inf)
        return values

    def whole(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        """The similarities of these rows, and 1 where they count, else 0."""
        s = self._of(self._queries[rows])
        near = self._scratch.take("near", s.shape).copy_(s)
        if isinstance(rows, slice):
            self._hidden.hide(near, rows, slice(0, len(self._candidates)), -math.inf)
        else:
            self._hidden.hide_rows(near, rows, -math.inf)
        return s, near.ge_(kth_largest(near, self._k)[:, None])
