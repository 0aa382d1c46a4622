"""Which entries of a similarity tile are not candidates, and how to hide them.

A mask never becomes an N×N object: it is asked tile by tile. Row and column numbers are those of the
whole similarity matrix; `hide` overwrites the entries that do not count with `value`.

Where candidates of other processes visit (`Pairs.visitors`), a mask is of one's own candidates and `away` gives that
of a visitor's: an item is nowhere else, but a label may be.
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
    elsewhere: tuple[Tensor, ...] = ()
    """The ids of the columns of every process, where they may be equal to those here."""

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


@dataclass(frozen=True, eq=False)
class Listed:
    """Row i does not count the columns that are listed for it. Rows `period` apart have one list: views of an item."""

    columns: Tensor
    """Those of the first row, then those of the second, …"""
    starts: Tensor
    """(period + 1,): where in `columns` each row's begin, and where the last one's end."""
    shape: tuple[int, int]
    """Rows and columns of the matrix."""

    @property
    def counts(self) -> Tensor:
        """How many are listed for each row, (rows,)."""
        counts = self.starts.diff()
        return counts.repeat(self.shape[0] // len(counts))

    def within(self, rows: slice | Tensor, cols: slice) -> tuple[Tensor, Tensor]:
        """The listed entries of a tile, numbered as they are in it."""
        if isinstance(rows, slice):
            rows = torch.arange(rows.start, rows.stop, device=self.columns.device)
        lists = rows % (len(self.starts) - 1)
        first, counts = self.starts[lists], self.starts[lists + 1] - self.starts[lists]
        each = torch.arange(int(counts.sum()), device=self.columns.device)
        place = each + (first - counts.cumsum(0) + counts).repeat_interleave(counts)
        row = torch.arange(len(lists), device=self.columns.device).repeat_interleave(counts)
        column = self.columns[place] - cols.start
        inside = (column >= 0) & (column < cols.stop - cols.start)
        return row[inside], column[inside]

    def hide(self, tile: Tensor, rows: slice, cols: slice, value: float) -> None:
        tile[self.within(rows, cols)] = value

    def hide_rows(self, tile: Tensor, rows: Tensor, value: float) -> None:
        tile[self.within(rows, slice(0, tile.shape[1]))] = value

    def hidden_total(self, queries: Tensor, candidates: Tensor) -> Tensor:
        row, column = self.within(slice(0, self.shape[0]), slice(0, self.shape[1]))
        totals = torch.zeros_like(queries).index_add(0, row, candidates[column])
        return (queries * totals).sum(1)

    def transposed(self) -> Listed:
        row, column = self.within(slice(0, self.shape[0]), slice(0, self.shape[1]))
        counts = column.bincount(minlength=self.shape[1])
        starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return Listed(row[column.argsort(stable=True)], starts, (self.shape[1], self.shape[0]))


@dataclass(frozen=True, eq=False)
class Only:
    """Nothing counts but the entries that are listed."""

    listed: Listed

    def hide(self, tile: Tensor, rows: slice, cols: slice, value: float) -> None:
        self._hide_others(tile, self.listed.within(rows, cols), value)

    def hide_rows(self, tile: Tensor, rows: Tensor, value: float) -> None:
        self._hide_others(tile, self.listed.within(rows, slice(0, tile.shape[1])), value)

    def _hide_others(self, tile: Tensor, at: tuple[Tensor, Tensor], value: float) -> None:
        kept = tile[at]
        tile.fill_(value)[at] = kept

    def hidden_total(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return queries @ candidates.sum(0) - self.listed.hidden_total(queries, candidates)

    def transposed(self) -> Only:
        return Only(self.listed.transposed())


@dataclass(frozen=True, eq=False)
class Either:
    """What one of two masks hides; none is hidden by both."""

    first: Mask
    second: Mask

    def hide(self, tile: Tensor, rows: slice, cols: slice, value: float) -> None:
        self.first.hide(tile, rows, cols, value)
        self.second.hide(tile, rows, cols, value)

    def hide_rows(self, tile: Tensor, rows: Tensor, value: float) -> None:
        self.first.hide_rows(tile, rows, value)
        self.second.hide_rows(tile, rows, value)

    def hidden_total(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return self.first.hidden_total(queries, candidates) + self.second.hidden_total(queries, candidates)

    def transposed(self) -> Either:
        return Either(self.first.transposed(), self.second.transposed())


def away(mask: Mask, rank: int) -> Mask:
    """The mask of the candidates that visit from process `rank`."""
    if isinstance(mask, Unlike):
        labels = away(mask.labels, rank)
        assert isinstance(labels, Same)
        return Unlike(labels, away(mask.itself, rank))
    if isinstance(mask, Same) and mask.elsewhere:
        return Same(mask.row_ids, mask.elsewhere[rank])
    if isinstance(mask, Nothing | Periodic | Same):
        return Nothing()
    raise ValueError(f"{type(mask).__name__} is a mask of whole rows, which visiting candidates do not make up.")
