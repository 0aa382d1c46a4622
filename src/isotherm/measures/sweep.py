"""Everything about all pairs of items in one pass: each tile of similarities is computed once and read by all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isotherm.checks import positive
from isotherm.measures.arrays import takes_arrays
from isotherm.measures.ties import agreement
from isotherm.pairing import unit

BINS = 256
"""Of a histogram of similarities, from −1 to 1."""
BLOCK = 1024
"""Rows and columns of a tile where many measures read it."""


@dataclass(frozen=True, eq=False)
class Pairwise:
    """What all pairs of different items say together."""

    uniformity: float
    conditional_entropy: float
    """With the t of the uniformity."""
    mean_similarity: float
    histogram: Tensor
    """(BINS,): how many pairs have a similarity in each of the equal bins from −1 to 1."""
    same_class: Tensor | None
    """(BINS,): those of them whose items share a class."""
    nearest: Tensor
    """(N,): the similarity of each item to the nearest other one."""
    nearest_same: Tensor | None
    """(N,): … to the nearest of its own class; −inf where there is none."""
    nearest_other: Tensor | None
    """(N,): … to the nearest of another class; −inf where there is none."""
    agreement: Tensor | None
    """(N,): the part of its nearest items that is of its class; there are several only where they are equally near."""


@takes_arrays
@torch.no_grad()
def pairwise(z: Tensor, labels: Tensor | None = None, t: float = 2.0) -> Pairwise:
    """Uniformity, conditional entropy, histograms and nearest neighbours in one pass over all pairs of items.

    Exact, and in the memory of a few tiles: each tile of similarities above the diagonal is computed once and read by
    every measure while it is in cache. Items are sorted by class first, so that only tiles on the border of a class
    need a mask.
    """
    z = unit(z, "z")
    n = len(z)
    if n < 2:
        raise ValueError(f"at least 2 embeddings are needed, got {n}.")
    order, classes = None, None
    if labels is not None:
        place = torch.unique(one_label_each(labels, z), return_inverse=True)[1]
        order = place.argsort(stable=True)
        z, classes = z[order], place[order]
    most = -math.log(torch.finfo(z.dtype).tiny) / 4
    if positive("t", t) > most:
        raise ValueError(
            f"pairwise takes t up to {most:.0f}, got {t:g}: beyond, opposite items have a weight of zero in {z.dtype}. "
            "uniformity(z, t) and conditional_entropy(z, t) take any."
        )
    sweep = _sweep(z, classes, 2 * t)
    mass, moment = sweep.mass, sweep.moment
    apart, together = sweep.counts
    same, different = sweep.nearest
    if order is not None:
        back = order.argsort()
        same, different, z, classes = same[back], different[back], z[back], place
    return Pairwise(
        uniformity=min(0.0, float((mass.sum() / (n * (n - 1))).log())),
        conditional_entropy=float((mass.log() - moment / mass).mean()),
        mean_similarity=min(1.0, float((z.double().sum(0).square().sum() - n) / (n * (n - 1)))),
        histogram=(apart + together) // 2,
        same_class=together // 2 if labels is not None else None,
        nearest=torch.maximum(same, different).clamp_max(1),
        nearest_same=same if labels is not None else None,
        nearest_other=different if labels is not None else None,
        agreement=agreement(z, classes, same, different) if classes is not None else None,
    )


def _sweep(z: Tensor, classes: Tensor | None, scale: float) -> Sweep:
    """All tiles above the diagonal, dealt to as many workers as torch has threads.

    A tile is many short operations. Shared by threads, each would end in a barrier, and on a busy machine the waiting
    took ten times the work; so each worker has its own tiles and computes alone.
    """
    blocks = [slice(start, min(start + BLOCK, len(z))) for start in range(0, len(z), BLOCK)]
    tiles = list(itertools.combinations_with_replacement(blocks, 2))
    threads = torch.get_num_threads()
    workers = min(threads, len(tiles)) if z.device.type == "cpu" else 1
    sweeps = [Sweep(z, classes, scale) for _ in range(workers)]
    if workers == 1:
        return sweeps[0].run(tiles)
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(lambda w: sweeps[w].run(tiles[w::workers]), range(workers)))
    finally:
        torch.set_num_threads(threads)
    first, *others = sweeps
    for other in others:
        first.merge(other)
    return first


class Sweep:
    """The sums of `pairwise`, filled tile by tile; similarities count once in each direction."""

    def __init__(self, z: Tensor, classes: Tensor | None, scale: float) -> None:
        self.z, self.classes, self.scale = z, classes, scale
        self.mass, self.moment = z.new_zeros(2, len(z), dtype=torch.float64)  # Σ e^E, Σ E e^E with E = scale·(s − 1)
        self.counts = torch.zeros(2, BINS, dtype=torch.int64)  # of different classes, of the same
        self.nearest = z.new_full((2, len(z)), -math.inf)  # of the same class, of another
        self._scratch = z.new_empty(3, min(BLOCK, len(z)) ** 2)
        self._bins = torch.empty(min(BLOCK, len(z)) ** 2, dtype=torch.uint8, device=z.device)
        self._bounds = None if classes is None else classes.cpu().numpy()

    @torch.no_grad()  # of this thread
    def run(self, tiles: Sequence[tuple[slice, slice]]) -> Sweep:
        for rows, cols in tiles:
            self.add(rows, cols)
        return self

    def merge(self, other: Sweep) -> None:
        self.mass += other.mass
        self.moment += other.moment
        self.counts += other.counts
        torch.maximum(self.nearest, other.nearest, out=self.nearest)

    def add(self, rows: slice, cols: slice) -> None:
        diagonal = rows == cols
        height, width = rows.stop - rows.start, cols.stop - cols.start
        s, e, product = (buffer[: height * width].view(height, width) for buffer in self._scratch)
        torch.mm(self.z[rows], self.z[cols].T, out=s)
        if diagonal:
            s.fill_diagonal_(-2.0)  # below every similarity: an item is no neighbour of itself
        bins = self._bins[: height * width].view(height, width)
        bins.copy_(torch.mul(s, BINS / 2, out=product).add_(BINS / 2).clamp_(0, BINS - 1))
        sides = ((1, rows),) if diagonal else ((1, rows), (0, cols))
        self._neighbours(s, bins, rows, cols, sides)
        torch.sub(s, 1, out=s).mul_(self.scale)
        torch.exp(s, out=e)
        if diagonal:
            e.fill_diagonal_(0.0)
            self.counts[0, 0] -= height
        torch.mul(e, s, out=product)
        for dim, at in sides:
            self.mass[at] += e.sum(dim)
            self.moment[at] += product.sum(dim)

    def _neighbours(
        self, s: Tensor, bins: Tensor, rows: slice, cols: slice, sides: tuple[tuple[int, slice], ...]
    ) -> None:
        """Histograms and nearest neighbours, each pair under its kind."""
        if self._bounds is None or self._bounds[rows.stop - 1] < self._bounds[cols.start]:
            kinds = [(0, s)]
            self.counts[0] += len(sides) * _counted(bins)
        elif self._bounds[rows.start] == self._bounds[cols.stop - 1] and rows != cols:
            kinds = [(1, s)]
            self.counts[1] += len(sides) * _counted(bins)
        else:
            assert self.classes is not None
            same = self.classes[rows, None] == self.classes[None, cols]
            others = s.masked_fill(same, -math.inf)
            if rows == cols:
                same.fill_diagonal_(False)
            together = _counted(bins[same])
            self.counts[1] += len(sides) * together
            self.counts[0] += len(sides) * (_counted(bins) - together)
            kinds = [(0, others), (1, s.masked_fill(~same, -math.inf))]
        for kind, values in kinds:
            for dim, at in sides:
                result = self.nearest[1 - kind, at]
                torch.maximum(result, values.amax(dim), out=result)


def _counted(bins: Tensor) -> Tensor:
    """How often each of the BINS bytes occurs."""
    flat = bins.reshape(-1)
    if flat.device.type != "cpu":
        return torch.bincount(flat, minlength=BINS).cpu()
    if len(flat) < 1 << 16 or len(flat) % 2:
        return torch.from_numpy(np.bincount(flat.numpy(), minlength=BINS))
    # two neighbours at once, as one number of 16 bits: half as many steps
    table = np.bincount(flat.numpy().view(np.uint16), minlength=BINS * BINS).reshape(BINS, BINS)
    return torch.from_numpy(table.sum(0) + table.sum(1))


def one_label_each(labels: Tensor, z: Tensor) -> Tensor:
    """The labels beside the embeddings, if there is one each."""
    labels = torch.as_tensor(labels, device=z.device)
    if labels.shape != (len(z),):
        raise ValueError(f"labels must hold one label per embedding, shape ({len(z)},); got {tuple(labels.shape)}.")
    return labels
