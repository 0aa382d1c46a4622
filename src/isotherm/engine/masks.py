"""Which entries of a similarity tile are not candidates, and how to hide them.

A mask never becomes an N×N object: it is asked tile by tile. Row and column numbers are those of the
whole similarity matrix; `hide` overwrites the entries that do not count with `value`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Mask(Protocol):
    """Entries (i, j) of the similarity matrix that do not count for query i."""

    def hide(self, tile: Tensor, rows: slice, cols: slice, value: float) -> None:
        """Overwrite the hidden entries of `tile`, which holds `rows` × `cols` of the matrix."""

    def hide_rows(self, tile: Tensor, rows: Tensor, value: float) -> None:
        """The same for a tile of whole rows, given by their numbers."""

    def hidden_total(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """For each query the sum of its hidden similarities, in O((n + m)·d)."""

    def transposed(self) -> Mask:
        """The same mask seen from the columns."""


@dataclass(frozen=True)
class Nothing:
    """Every candidate counts: a queue of other items."""

    def hide(self, tile: Tensor, rows: slice, cols: slice, value: float) -> None:
        pass

    def hide_rows(self, tile: Tensor, rows: Tensor, value: float) -> None:
        pass

    def hidden_total(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return queries.new_zeros(len(queries))

    def transposed(self) -> Nothing:
        return self


@dataclass(frozen=True)
class Periodic:
    """Row i and column j are the same item when i ≡ j (mod period): views stacked one after another.

    Those entries lie on diagonals of the tile, so hiding them touches only what is hidden.
    """

    period: int

    def hide(self, tile: Tensor, rows: slice, cols: slice, value: float) -> None:
        height, width = tile.shape
        start = (rows.start - cols.start) % self.period  # the smallest offset ≥ 0 on which i ≡ j
        below = (start + height - 1) // self.period  # how many more diagonals lie below it
        for offset in range(start - below * self.period, width, self.period):
            tile.diagonal(offset).fill_(value)

    def hide_rows(self, tile: Tensor, rows: Tensor, value: float) -> None:
        first = (rows % self.period)[:, None]
        columns = first + torch.arange(0, tile.shape[1], self.period, device=tile.device)
        tile.scatter_(1, columns.where(columns < tile.shape[1], first), value)  # a row's last one may lie outside

    def hidden_total(self, queries: Tensor, candidates: Tensor) -> Tensor:
        items = candidates.reshape(-1, self.period, candidates.shape[1]).sum(0)
        return (queries * items.repeat(len(queries) // self.period, 1)).sum(1)

    def transposed(self) -> Periodic:
        return self


@dataclass(frozen=True, eq=False)
class Same:
    """Row i and column j are the same item when their ids are equal."""

    row_ids: Tensor
    col_ids: Tensor

    def hide(self, tile: Tensor, rows: slice, cols: slice, value: float) -> None:
        tile.masked_fill_(self.row_ids[rows, None] == self.col_ids[None, cols], value)

    def hide_rows(self, tile: Tensor, rows: Tensor, value: float) -> None:
        tile.masked_fill_(self.row_ids[rows, None] == self.col_ids, value)

    def hidden_total(self, queries: Tensor, candidates: Tensor) -> Tensor:
        ids, place = torch.unique(torch.cat([self.row_ids, self.col_ids]), return_inverse=True)
        row_place, col_place = place.split([len(self.row_ids), len(self.col_ids)])
        items = candidates.new_zeros(len(ids), candidates.shape[1]).index_add(0, col_place, candidates)
        return (queries * items[row_place]).sum(1)

    def transposed(self) -> Same:
        return Same(self.col_ids, self.row_ids)


@dataclass(frozen=True, eq=False)
class Unlike:
    """Only other entries with the same label count: hides different labels, and the entry itself."""

    labels: Same
    itself: Mask

    def hide(self, tile: Tensor, rows: slice, cols: slice, value: float) -> None:
        tile.masked_fill_(self.labels.row_ids[rows, None] != self.labels.col_ids[None, cols], value)
        self.itself.hide(tile, rows, cols, value)

    def hide_rows(self, tile: Tensor, rows: Tensor, value: float) -> None:
        tile.masked_fill_(self.labels.row_ids[rows, None] != self.labels.col_ids, value)
        self.itself.hide_rows(tile, rows, value)

    def hidden_total(self, queries: Tensor, candidates: Tensor) -> Tensor:
        like = self.labels.hidden_total(queries, candidates) - self.itself.hidden_total(queries, candidates)
        return queries @ candidates.sum(0) - like

    def transposed(self) -> Unlike:
        return Unlike(self.labels.transposed(), self.itself.transposed())
