"""The exact largest entries of every row, without sorting the row."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

LAYERS = 16
"""Entries of a column that `largest_values` folds a row into."""
WHOLE_ROWS = 32
"""Rows that are searched whole at once: their keys take twice the memory of the rows."""
_LOW = (1 << 32) - 1


def kth_largest(rows: Tensor, k: int) -> Tensor:
    """The k-th largest value of each row (k = 1: the maximum). Ties are not broken.

    On the CPU numpy's vectorised partition is several times faster than `torch.topk`.
    """
    if k == 1:
        return rows.amax(1)
    if rows.device.type == "cpu":
        place = rows.shape[1] - k
        return torch.from_numpy(np.partition(rows.detach().numpy(), place, axis=1)[:, place].copy())
    return rows.topk(k, dim=1, sorted=False).values.amin(1)


def nearest(rows: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k largest entries of each row (rows, k) in no order; the least of them; and the one that follows it, or −inf.

    The entries of a row may be in another order afterwards.
    """
    place = rows.shape[1] - k
    if place and (rows.device.type != "cpu" or 4 * (k + 1) <= rows.shape[1] // LAYERS):
        ordered = largest_values(rows, k + 1)
        return ordered[:, :k], ordered[:, k - 1], ordered[:, k]
    _part(rows, place)
    following = rows[:, :place].amax(1) if place else rows.new_full((len(rows),), -torch.inf)
    return rows[:, place:], rows[:, place], following


def _part(rows: Tensor, place: int) -> None:
    """Reorder each row so that none before `place` is larger than any after it."""
    if rows.device.type != "cpu":
        rows.copy_(rows.sort(1).values)
        return
    shares = np.array_split(rows.detach().numpy(), min(torch.get_num_threads(), len(rows)))
    if len(shares) == 1:
        shares[0].partition(place, axis=1)
    else:  # numpy lets go of the interpreter while it parts
        with ThreadPoolExecutor(len(shares)) as threads:
            list(threads.map(lambda share: share.partition(place, axis=1), shares))


def twins(rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """The rows that are exact copies of an earlier one, and the earlier one of each; None if there are none.

    By a sum of whole numbers over each row's bits, which is the same for copies wherever they stand; equal sums are
    looked at.
    """
    by_row = _sum_of_bits(rows) if len(rows) <= 4096 else torch.cat([_sum_of_bits(part) for part in rows.split(4096)])
    ordered = by_row.sort().values
    if not bool((ordered[1:] == ordered[:-1]).any()):  # the usual case, at the least cost
        return None
    sums, place = torch.unique(by_row, return_inverse=True)
    each = torch.arange(len(rows), device=rows.device)
    first = each.new_full((len(sums),), len(rows)).scatter_reduce(0, place, each, "amin")[place]
    copies = torch.nonzero((first != each) & (rows == rows[first]).all(1))[:, 0]
    return (copies, first[copies]) if len(copies) else None


def _sum_of_bits(rows: Tensor) -> Tensor:
    """A whole number for each row, from its bits alone."""
    words = (rows + 0.0).view(torch.int32)  # −0 is 0
    return (words * _weights(words.shape[1], rows.device)).sum(1, dtype=torch.int64)


@functools.lru_cache(maxsize=8)
def _weights(count: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        numbers = torch.randint(1 << 30, (count,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
        return numbers.to(device)


def largest_values(rows: Tensor, k: int) -> Tensor:
    """The k largest values of each row, the largest first."""
    if rows.shape[1] // LAYERS < 4 * k:
        return rows.topk(k, dim=1).values
    return rows.gather(1, _folded(rows, k, LAYERS)).sort(dim=1, descending=True).values


def largest(rows: Tensor, k: int, layers: int = 1) -> tuple[Tensor, Tensor]:
    """The k largest values of each row of float32 and their indices; equal ones by ascending index.

    With `layers` above 1, folded: more than k columns of so many entries must fit in a row.
    """
    if layers == 1:
        return _whole(rows, k)
    indices = _folded(rows, k + 1, layers)
    keys = order_keys(rows.gather(1, indices), indices).sort(dim=1, descending=True).values
    indices = _LOW - (keys & _LOW)
    values = rows.gather(1, indices)
    # Where the k-th and the next are equal, there may be more of them, at lower indices: these rows are searched whole.
    again = torch.nonzero(values[:, k - 1] == values[:, k])[:, 0]
    values, indices = values[:, :k], indices[:, :k]
    if len(again):
        values[again], indices[again] = _whole(rows[again], k)
    return values, indices


def order_keys(values: Tensor, indices: Tensor) -> Tensor:
    """One int64 for a float32 and its index, larger for larger values and, among equal ones, for lower indices.

    The bits of a float are ordered like integers, those of negative ones the other way round.
    """
    bits = (values + 0.0).view(torch.int32)  # −0 is 0
    return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() << 32) | (_LOW - indices)


def _folded(rows: Tensor, k: int, layers: int) -> Tensor:
    """The indices of the k largest entries of each row, in no order; ties are broken anyhow.

    The row is folded into columns of `layers` entries; what is left over is looked at as it is. The k largest entries
    of the columns lie in the k columns with the largest maxima: an entry of any other column has k above it, one in
    each of these. So two selections among few replace one among all, in less than half the time of `torch.topk`
    (50,000 entries, k = 200).
    """
    width = rows.shape[1] // layers
    columns = rows[:, : layers * width].unflatten(1, (layers, width))
    column = _partition(columns.amax(1), k)
    candidates = columns.gather(2, column[:, None].expand(-1, layers, -1)).flatten(1)
    best = _partition(torch.cat([candidates, rows[:, layers * width :]], 1), k)
    layer = torch.div(best, k, rounding_mode="floor")
    folded = width * layer + column.gather(1, best - k * layer)
    return torch.where(layer < layers, folded, best + layers * (width - k))


def _partition(rows: Tensor, k: int) -> Tensor:
    """Where the k largest entries of each row are, in no order.

    On the CPU numpy's vectorised partition is several times faster than `torch.topk`.
    """
    if rows.device.type == "cpu":
        place = rows.shape[1] - k
        return torch.from_numpy(np.argpartition(rows.numpy(), place, axis=1)[:, place:])
    return rows.topk(k, dim=1, sorted=False).indices


def _whole(rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    places = torch.arange(rows.shape[1], device=rows.device)
    strips = [order_keys(strip, places.expand_as(strip)).topk(k, dim=1).values for strip in rows.split(WHOLE_ROWS)]
    indices = _LOW - (torch.cat(strips) & _LOW)
    return rows.gather(1, indices), indices
