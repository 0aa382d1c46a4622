"""The plain path: sums over each query's negatives, tile by tile, with exact gradients.

The similarity matrix is never an object. Forward keeps one or two numbers per query; backward computes
every tile again and forms its gradient while it is in cache. In a symmetric matrix each tile above the
diagonal serves its rows and its columns, in both directions: two thirds of the arithmetic of the dense way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from isotherm.engine.limits import Limits, Strips
from isotherm.engine.masks import Mask, away
from isotherm.engine.once import once_differentiable
from isotherm.engine.reductions import Gradient, Hide, Reduction, Side, Sums
from isotherm.engine.scratch import Scratch
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
    """The edge of a tile."""
    strip: int
    """The height of a strip of whole rows, which `top_k` needs."""
    fixed: bool

    def tiles(self, n: int, m: int) -> Iterator[Tile]:
        for rows in blocks(n, self.tile):
            for cols in blocks(m, self.tile):
                below = cols.start < rows.start
                row_side, column_side = Side(1, rows), Side(0, cols)
                if self.symmetric and rows == cols:
                    yield Tile(rows, cols, (row_side,), (row_side, column_side), on_diagonal=True)
                elif self.symmetric and not below:
                    yield Tile(rows, cols, (row_side, column_side), (row_side, column_side))
                elif self.mutual:
                    both = (row_side, Side(0, slice(n + cols.start, n + cols.stop)))
                    yield Tile(rows, cols, both, both)
                elif not self.symmetric:
                    yield Tile(rows, cols, (row_side,), (row_side,))

    def visited(self, rank: int) -> Plan:
        """The same for the candidates that visit from process `rank`."""
        reductions = tuple(r if r.where is None else replace(r, where=away(r.where, rank)) for r in self.reductions)  # type: ignore[type-var]
        return replace(self, symmetric=False, hidden=away(self.hidden, rank), reductions=reductions)

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


def plan_of(pairs: Pairs, reductions: tuple[Reduction, ...], top_k: int | None = None) -> Plan:
    device, columns = pairs.queries.device, len(pairs.queries if pairs.candidates is None else pairs.candidates)
    bound = max(r.exponent_bound for r in reductions)
    return Plan(
        reductions,
        pairs.hidden,
        symmetric=pairs.candidates is None,
        mutual=pairs.mutual,
        top_k=top_k,
        tile=tile_edge(device, max(len(pairs.queries), columns)),
        strip=strip_height(device, columns),
        fixed=bound <= EXPONENT_LIMIT.get(pairs.queries.dtype, 0.0),
    )


def tiled(pairs: Pairs, reductions: tuple[Reduction, ...], top_k: int | None = None) -> tuple[Tensor, ...]:
    """Each reduction over the negatives of every query, by torch's own operations on tiles."""
    plan = plan_of(pairs, reductions, top_k)
    tensors = (pairs.queries, pairs.candidates, *plan.parameters())
    values: tuple[Tensor, ...] = _Reduce.apply(plan, *tensors)  # type: ignore[no-untyped-call]
    return values


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
        limits = None
        if plan.top_k is not None:
            limits = Limits.empty(queries, others, plan.strip)
            strips = Strips(queries, others, plan.hidden, plan.top_k, limits, scratch)
            for rows in [] if limits.all_close else blocks(n, plan.strip):
                _add(plan, strips.largest(rows), (Side(1, rows),), [_hide(None)] * len(sums), sums, scratch)
            for close in limits.close_strips(plan.strip):
                s, near = strips.whole(close)
                again = [Sums.start(len(s), queries, plan.fixed) for _ in sums]
                _add(plan, s, (Side(1, slice(0, len(s))),), [_hide(near == 0)] * len(sums), again, scratch)
                for total, part in zip(sums, again, strict=True):
                    total.put(close, part)
        else:
            add_tiles(plan, queries, others, sums, scratch)
        values = tuple(r.value(total) for r, total in zip(plan.reductions, sums, strict=True))
        masses = [total.log_mass for total in sums]
        ctx.plan, ctx.limits, ctx.sampled = plan, limits, plan.sampled(queries)
        # backward reads the parameters again: saved, so that autograd refuses if they have changed meanwhile
        ctx.save_for_backward(queries, candidates, *masses, *values, *parameters, *plan.constants())
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        queries, candidates, *rest = ctx.saved_tensors
        refuse_changed(ctx.sampled, plan, queries)
        k = len(plan.reductions)
        scale = size_of(upstream)
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
            if ctx.limits is None or not ctx.limits.all_close:
                pull_tiles(plan, queries, others, gradients, (dq, dc, dp), scratch, ctx.limits)
            if ctx.limits is not None:
                assert plan.top_k is not None
                strips = Strips(queries, others, plan.hidden, plan.top_k, ctx.limits, scratch)
                for rows in ctx.limits.close_strips(plan.strip):
                    s, near = strips.whole(rows)
                    hides = [_hide(None)] * k
                    ds = _pulled(plan, s, (Side(1, rows, near),), hides, False, gradients, dp, scratch)
                    if dq is not None and isinstance(rows, slice):
                        dq[rows].addmm_(ds, others)
                    elif dq is not None:
                        dq.index_add_(0, rows, ds @ others)
                    if dc is not None:
                        dc.addmm_(ds.T, queries[rows])
        for part in {id(d): d for d in (dq, dc) if d is not None}.values():
            part.mul_(scale)
        return (None, dq, None if candidates is None else dc, *(None if d is None else d * scale for d in dp))


Slopes = tuple[Tensor | None, Tensor | None, list[Tensor | None]]
"""The gradients of the queries, of the candidates and of the parameters, to be added to; None: not wanted."""


def add_tiles(
    plan: Plan,
    queries: Tensor,
    others: Tensor,
    sums: Sequence[Sums],
    scratch: Scratch,
    limits: Limits | None = None,
) -> None:
    """Add every tile to the sums; of its rows what reaches their limits, if there are any."""
    for tile in plan.tiles(len(queries), len(others)):
        s = _similarities(queries, others, tile, scratch)
        hides = _hides(plan, tile)
        if limits is not None:
            far = _hide(s < limits.values[tile.rows, None])
            hides = [_both(hide, far) for hide in hides]
        _add(plan, s, tile.summed, hides, sums, scratch)


def largest_in_tiles(plan: Plan, queries: Tensor, others: Tensor, values: Tensor, scratch: Scratch) -> None:
    """Keep the largest similarities of each row in `values`, (n, k), as many as there is room for."""
    for tile in plan.tiles(len(queries), len(others)):
        s = _similarities(queries, others, tile, scratch)
        plan.hidden.hide(s, tile.rows, tile.cols, -math.inf)
        values[tile.rows] = torch.cat([values[tile.rows], s], 1).topk(values.shape[1], dim=1).values


def pull_tiles(
    plan: Plan,
    queries: Tensor,
    others: Tensor,
    gradients: Sequence[Gradient],
    slopes: Slopes,
    scratch: Scratch,
    limits: Limits | None = None,
) -> None:
    """Add the gradient of every tile to the slopes."""
    dq, dc, dp = slopes
    for tile in plan.tiles(len(queries), len(others)):
        s = _similarities(queries, others, tile, scratch)
        sides = tile.pulled if limits is None else _near(s, tile.pulled, limits, scratch)
        ds = _pulled(plan, s, sides, _hides(plan, tile), tile.on_diagonal, gradients, dp, scratch)
        if dq is not None:
            dq[tile.rows].addmm_(ds, others[tile.cols])
        if dc is not None and not tile.on_diagonal:
            dc[tile.cols].addmm_(ds.T, queries[tile.rows])


def size_of(upstream: Sequence[Tensor]) -> Tensor:
    """The scale of the largest, on which gradients are formed: there float32 neither overflows nor underflows."""
    scale = torch.stack([g.abs().amax() for g in upstream]).amax()
    return scale.where((scale > 0) & torch.isfinite(scale), torch.ones_like(scale))


def refuse_changed(sampled: Sequence[Tensor], plan: Plan, like: Tensor) -> None:
    """Refuse functions that are not what they were in the forward pass."""
    if not all(map(torch.equal, sampled, plan.sampled(like))):
        raise RuntimeError(
            "a temperature or potential has changed between forward and backward, which computes similarities "
            "again: change it after backward()."
        )


def _add(
    plan: Plan, s: Tensor, sides: Sequence[Side], hides: Sequence[Hide], sums: Sequence[Sums], scratch: Scratch
) -> None:
    """Add a tile to the sums of every reduction."""
    for i, (reduction, total, hide) in enumerate(zip(plan.reductions, sums, hides, strict=True)):
        own = _own(s, scratch, last=i + 1 == len(sums))
        reduction.add(total, own, sides, hide, plan.fixed, scratch)


def _pulled(
    plan: Plan,
    s: Tensor,
    sides: Sequence[Side],
    hides: Sequence[Hide],
    on_diagonal: bool,
    gradients: Sequence[Gradient],
    dp: list[Tensor | None],
    scratch: Scratch,
) -> Tensor:
    """The gradient of a tile's similarities, which may overwrite them; that of the parameters is added to `dp`."""
    k, place = len(plan.reductions), 0
    ds: Tensor | None = None
    for i, (reduction, gradient, hide) in enumerate(zip(plan.reductions, gradients, hides, strict=True)):
        own = _own(s, scratch, last=i + 1 == k)
        for grad, pull in reduction.pull(own, sides, hide, gradient, scratch):
            part, slopes = pull(grad)
            if ds is not None:
                ds.add_(part)
            else:
                ds = part if k == 1 else scratch.take("ds", s.shape).copy_(part)
            for j, slope in enumerate(slopes, start=place):
                if slope is not None:  # a diagonal tile holds every pair twice
                    once = slope / 2 if on_diagonal else slope
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


def _hides(plan: Plan, tile: Tile) -> Sequence[Hide]:
    """For each reduction, how to hide what does not count in this tile."""

    def hide_with(mask: Mask) -> Hide:
        return lambda x, value: mask.hide(x, tile.rows, tile.cols, value)

    return [hide_with(r.where or plan.hidden) for r in plan.reductions]


def _hide(entries: Tensor | None) -> Hide:
    """Hides these entries; None: nothing."""

    def hide(x: Tensor, value: float) -> None:
        if entries is not None:
            x.masked_fill_(entries, value)

    return hide


def _both(first: Hide, second: Hide) -> Hide:
    """What one of the two hides."""

    def hide(x: Tensor, value: float) -> None:
        first(x, value)
        second(x, value)

    return hide


def _near(s: Tensor, sides: Sequence[Side], limits: Limits, scratch: Scratch) -> list[Side]:
    """The sides of a tile, with what counts for each of them."""
    return [
        Side(dim, at, torch.ge(s, limits.values[at].unsqueeze(dim), out=scratch.take(f"near {dim}", s.shape)))
        for dim, at, _ in sides
    ]
