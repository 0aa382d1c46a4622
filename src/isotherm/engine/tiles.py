"""The engine: sums over each query's negatives, tile by tile, with exact gradients.

The similarity matrix is never an object. Forward keeps one or two numbers per query; backward computes
every tile again and forms its gradient while it is in cache. In a symmetric matrix each tile above the
diagonal serves its rows and its columns, in both directions: two thirds of the arithmetic of the dense way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from isotherm.engine.elementwise import Linear
from isotherm.engine.masks import Mask
from isotherm.engine.once import once_differentiable
from isotherm.engine.reductions import Gradient, Hide, Reduction, Side, Sums, Total
from isotherm.engine.scratch import Scratch
from isotherm.engine.select import kth_largest, twins
from isotherm.engine.sizes import blocks, strip_height, tile_edge
from isotherm.types import Pairs

SAMPLED = 9  # similarities at which both passes must find a function's values equal
EXPONENT_LIMIT = {torch.float32: 50.0, torch.float64: 300.0}
"""Largest |E| for which Σ e^E and its inverse stay normal numbers for any plausible batch."""


@dataclass(frozen=True)
class Tile:
    rows: slice
    cols: slice
    summed: tuple[Side, ...]
    """The sides whose queries read this tile in the forward pass."""
    pulled: tuple[Side, ...]
    """The sides whose gradient flows through this tile."""
    on_diagonal: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything about one evaluation that is not a tensor of the graph."""

    reductions: tuple[Reduction, ...]
    hidden: Mask
    symmetric: bool
    mutual: bool
    top_k: int | None
    tile: int
    """The edge of a tile; with `top_k`, the height of a strip of whole rows."""
    fixed: bool
    twins: tuple[Tensor, Tensor] | None = None
    """With `top_k`: candidates that are copies, and what they are copies of."""

    def tiles(self, n: int, m: int) -> Iterator[Tile]:
        if self.top_k is not None:  # whole rows, so that a row's threshold is known when it is summed
            for rows in blocks(n, self.tile):
                yield Tile(rows, slice(0, m), ((1, rows),), ((1, rows),))
            return
        for rows in blocks(n, self.tile):
            for cols in blocks(m, self.tile):
                below = cols.start < rows.start
                if self.symmetric and rows == cols:
                    yield Tile(rows, cols, ((1, rows),), ((1, rows), (0, cols)), on_diagonal=True)
                elif self.symmetric and not below:
                    yield Tile(rows, cols, ((1, rows), (0, cols)), ((1, rows), (0, cols)))
                elif self.mutual:
                    queries = slice(n + cols.start, n + cols.stop)
                    yield Tile(rows, cols, ((1, rows), (0, queries)), ((1, rows), (0, queries)))
                elif not self.symmetric:
                    yield Tile(rows, cols, ((1, rows),), ((1, rows),))

    def parameters(self) -> tuple[Tensor, ...]:
        """What gets a gradient besides the embeddings."""
        return tuple(p for r in self.reductions for f in r.functions for p in f.parameters)

    def constants(self) -> tuple[Tensor, ...]:
        """What both passes read and gets no gradient."""
        return tuple(p for r in self.reductions for f in r.constants for p in f.parameters)

    def sampled(self, like: Tensor) -> list[Tensor]:
        """Some values of the functions that somebody else wrote, whose bound nobody knows.

        What they read besides their parameters has no version that autograd could check.
        """
        given = [f for r in self.reductions for f in (*r.functions, *r.constants) if math.isinf(f.bound)]
        if not given:
            return []
        s = torch.linspace(-1, 1, SAMPLED, dtype=like.dtype, device=like.device)
        with torch.no_grad(), torch.autocast(like.device.type, enabled=False):
            return [f(s).nan_to_num() for f in given]  # NaN is unequal to itself


def reduce(pairs: Pairs, *reductions: Reduction, top_k: int | None = None) -> tuple[Tensor, ...]:
    """Each reduction over the negatives of every query: one vector a reduction.

    `top_k` keeps only the k nearest negatives of each query (all of those tied with the k-th, as copies of one
    candidate are); the choice is a constant for the gradient.
    """
    reductions = tuple(reductions)
    if top_k is None:
        easy = [isinstance(r, Total) and isinstance(r.of, Linear) for r in reductions]
        if all(easy):
            return tuple(_linear_total(pairs, r) for r in reductions)  # type: ignore[arg-type]
    if top_k is not None and pairs.mutual:
        return _both_ways(pairs, reductions, top_k)
    candidates = pairs.candidates
    if candidates is None and top_k is not None:
        candidates = pairs.queries
    bound = max(r.exponent_bound for r in reductions)
    plan = Plan(
        reductions,
        pairs.hidden,
        symmetric=candidates is None,
        mutual=pairs.mutual,
        top_k=top_k,
        tile=_tile(pairs.queries, candidates, top_k),
        fixed=bound <= EXPONENT_LIMIT.get(pairs.queries.dtype, 0.0),
        twins=None if top_k is None or candidates is None else twins(candidates.detach()),
    )
    tensors = (pairs.queries, candidates, *plan.parameters())
    values: tuple[Tensor, ...] = _Reduce.apply(plan, *tensors)  # type: ignore[no-untyped-call]
    return values


def _tile(queries: Tensor, candidates: Tensor | None, top_k: int | None) -> int:
    columns = len(queries if candidates is None else candidates)
    if top_k is not None:
        return strip_height(queries.device, columns)
    return tile_edge(queries.device, max(len(queries), columns))


def _both_ways(pairs: Pairs, reductions: tuple[Reduction, ...], top_k: int) -> tuple[Tensor, ...]:
    """Rows, then columns, each as rows of its own matrix."""
    assert pairs.candidates is not None
    forth = Pairs(pairs.queries, pairs.candidates, pairs.positives, pairs.hidden, pairs.negatives)
    back = Pairs(pairs.candidates, pairs.queries, pairs.positives, pairs.hidden.transposed(), pairs.negatives)
    ways = [reduce(p, *reductions, top_k=top_k) for p in (forth, back)]
    return tuple(torch.cat(parts) for parts in zip(*ways, strict=True))


def _linear_total(pairs: Pairs, total: Total) -> Tensor:
    """A linear sum needs no matrix: Σ_j s_ij = z_i · Σ_j z_j, less what is hidden."""
    hidden = total.where or pairs.hidden
    candidates = pairs.queries if pairs.candidates is None else pairs.candidates
    sums = pairs.queries @ candidates.sum(0) - hidden.hidden_total(pairs.queries, candidates)
    if pairs.mutual:
        back = hidden.transposed().hidden_total(candidates, pairs.queries)
        sums = torch.cat([sums, candidates @ pairs.queries.sum(0) - back])
    return total.of(sums)


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, plan: Plan, queries: Tensor, candidates: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        others = queries if candidates is None else candidates
        n, m = len(queries), len(others)
        size = n + m if plan.mutual else n
        sums = [Sums.start(size, queries, plan.fixed) for _ in plan.reductions]
        scratch = Scratch(queries)
        for tile in plan.tiles(n, m):
            s = _similarities(queries, others, tile, scratch)
            hides = _hides(plan, tile, s, scratch)
            for i, (reduction, total, hide) in enumerate(zip(plan.reductions, sums, hides, strict=True)):
                own = _own(s, scratch, last=i + 1 == len(sums))
                reduction.add(total, own, tile.summed, hide, plan.fixed, scratch)
        values = tuple(r.value(total) for r, total in zip(plan.reductions, sums, strict=True))
        masses = [total.log_mass for total in sums]
        ctx.plan, ctx.sampled = plan, plan.sampled(queries)
        # backward reads the parameters again: saved, so that autograd refuses if they have changed meanwhile
        ctx.save_for_backward(queries, candidates, *masses, *values, *parameters, *plan.constants())
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        queries, candidates, *rest = ctx.saved_tensors
        if not all(map(torch.equal, ctx.sampled, plan.sampled(queries))):
            raise RuntimeError(
                "a temperature or potential has changed between forward and backward, which computes similarities "
                "again: change it after backward()."
            )
        k = len(plan.reductions)
        # formed on the scale of the largest, where float32 neither overflows nor underflows
        scale = torch.stack([g.abs().amax() for g in upstream]).amax()
        scale = scale.where((scale > 0) & torch.isfinite(scale), torch.ones_like(scale))
        gradients = [
            Gradient(g / scale, mass, value, plan.fixed)
            for g, mass, value in zip(upstream, rest[:k], rest[k : 2 * k], strict=True)
        ]
        others = queries if candidates is None else candidates
        want_queries, want_candidates = ctx.needs_input_grad[1:3]
        dq = torch.zeros_like(queries) if want_queries else None
        dc = dq if candidates is None else torch.zeros_like(others) if want_candidates else None
        dp: list[Tensor | None] = [None] * len(plan.parameters())
        scratch = Scratch(queries)
        with torch.autocast(queries.device.type, enabled=False):
            for tile in plan.tiles(len(queries), len(others)):
                s = _similarities(queries, others, tile, scratch)
                ds = _pulled(plan, tile, s, gradients, dp, scratch)
                if dq is not None:
                    dq[tile.rows].addmm_(ds, others[tile.cols])
                if dc is not None and not tile.on_diagonal:
                    dc[tile.cols].addmm_(ds.T, queries[tile.rows])
        for part in {id(d): d for d in (dq, dc) if d is not None}.values():
            part.mul_(scale)
        return (None, dq, None if candidates is None else dc, *(None if d is None else d * scale for d in dp))


def _pulled(
    plan: Plan, tile: Tile, s: Tensor, gradients: Sequence[Gradient], dp: list[Tensor | None], scratch: Scratch
) -> Tensor:
    """The gradient of a tile's similarities, which may overwrite them; that of the parameters is added to `dp`."""
    hides = _hides(plan, tile, s, scratch)
    k, place = len(plan.reductions), 0
    ds: Tensor | None = None
    for i, (reduction, gradient, hide) in enumerate(zip(plan.reductions, gradients, hides, strict=True)):
        own = _own(s, scratch, last=i + 1 == k)
        for grad, pull in reduction.pull(own, tile.pulled, hide, gradient, scratch):
            part, slopes = pull(grad)
            if ds is not None:
                ds.add_(part)
            else:
                ds = part if k == 1 else scratch.take("ds", s.shape).copy_(part)
            for j, slope in enumerate(slopes, start=place):
                if slope is not None:  # a diagonal tile holds every pair twice
                    once = slope / 2 if tile.on_diagonal else slope
                    dp[j] = once if dp[j] is None else dp[j] + once  # type: ignore[operator]
            place += len(slopes)
    assert ds is not None
    return ds


def _similarities(queries: Tensor, others: Tensor, tile: Tile, scratch: Scratch) -> Tensor:
    left, right = queries[tile.rows], others[tile.cols]
    return torch.mm(left, right.T, out=scratch.take("s", (len(left), len(right))))


def _own(s: Tensor, scratch: Scratch, last: bool) -> Tensor:
    """The similarities for one reduction to overwrite: a copy, or for the last one the tile itself."""
    return s if last else scratch.take("own", s.shape).copy_(s)


def _hides(plan: Plan, tile: Tile, s: Tensor, scratch: Scratch) -> Sequence[Hide]:
    """For each reduction, how to hide what does not count in this tile.

    With `top_k`: also everything below the row's k-th largest similarity. Both passes find it themselves, so that the
    choice fits the similarities at hand to the last bit, whatever the matrix product did this time.
    """
    near: Tensor | None = None
    if plan.top_k is not None:
        near = scratch.take("near", s.shape).copy_(s)
        if plan.twins is not None:  # the matrix product rounds equal columns differently
            copies, originals = plan.twins
            near[:, copies] = near[:, originals]
        plan.hidden.hide(near, tile.rows, tile.cols, -math.inf)
        near.ge_(kth_largest(near, plan.top_k)[:, None])  # 1 where it counts, else 0

    def hide_with(mask: Mask) -> Hide:
        def hide(x: Tensor, value: float) -> None:
            if near is None:
                mask.hide(x, tile.rows, tile.cols, value)
            elif value == 0:
                x.mul_(near)
            else:
                x.masked_fill_(near == 0, value)

        return hide

    return [hide_with(r.where or plan.hidden) for r in plan.reductions]
