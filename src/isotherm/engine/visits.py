"""Sums over candidates that visit from other processes, block by block, with exact gradients.

A process keeps its own rows and is shown everyone else's in turn (`Pairs.visitors`). The sums of blocks are joined as
they come; backward is shown the blocks again, with the sums over all of them, and what it adds to a block's gradient
travels home with it. Nothing of the size of the whole batch is ever here.

Where only the nearest negatives count, a first round finds each query's k-th largest similarity (k numbers per query
are kept for it); the sums and their gradient then take the same tiles, so that the same entries reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from isotherm.engine.limits import Limits
from isotherm.engine.once import once_differentiable
from isotherm.engine.reductions import Expectation, Gradient, Reduction, Sums, Total
from isotherm.engine.scratch import Scratch
from isotherm.engine.tiles import (
    Plan,
    Slopes,
    add_tiles,
    largest_in_tiles,
    plan_of,
    pull_tiles,
    refuse_changed,
    size_of,
)
from isotherm.types import Pairs, Visitors


class Part(NamedTuple):
    """One reduction over some of the candidates: its value for each query, and the logarithm of its mass."""

    value: Tensor
    log_mass: Tensor


class Way(Protocol):
    """How the sums of one block are computed. `rank` is whose candidates they are; None: one's own."""

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """What is summed."""

    @property
    def fixed(self) -> bool:
        """Whether e^E is summed as it is (`isotherm.engine.reductions`)."""

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """What gets a gradient besides the embeddings."""

    @property
    def constants(self) -> tuple[Tensor, ...]:
        """What both passes read and gets no gradient."""

    def prepare(self, visitors: Visitors, queries: Tensor, others: Tensor, rows: Tensor) -> None:
        """Whatever must be known of all blocks before the first is added."""

    def add(self, rank: int | None, queries: Tensor, others: Tensor) -> list[Part]:
        """Every reduction over this block."""

    def pull(self, rank: int | None, queries: Tensor, others: Tensor, asking: Sequence[Gradient], to: Slopes) -> None:
        """Add this block's gradients, given what each query says of all blocks."""

    def refuse_changed(self, like: Tensor) -> None:
        """Refuse functions that are not what they were in the forward pass."""


class Tiles:
    """By torch's own operations."""

    def __init__(self, plan: Plan, like: Tensor) -> None:
        self.plan, self.reductions, self.fixed = plan, plan.reductions, plan.fixed
        self.parameters, self.constants = plan.parameters(), plan.constants()
        self._sampled, self._scratch = plan.sampled(like), Scratch(like)
        self._limits: Limits | None = None

    def prepare(self, visitors: Visitors, queries: Tensor, others: Tensor, rows: Tensor) -> None:
        if self.plan.top_k is None:
            return
        values = queries.new_full((len(queries), self.plan.top_k), -torch.inf)

        def see(rank: int | None, block: Tensor) -> None:
            largest_in_tiles(self._for(rank), queries, block, values, self._scratch)

        see(None, others)
        visitors.visit(rows, see)
        nobody = torch.zeros_like(values[:, -1], dtype=torch.bool)
        self._limits = Limits(values[:, -1].clone(), nobody, all_close=False, twins=None)

    def add(self, rank: int | None, queries: Tensor, others: Tensor) -> list[Part]:
        sums = [Sums.start(len(queries), queries, self.plan.fixed) for _ in self.reductions]
        add_tiles(self._for(rank), queries, others, sums, self._scratch, self._limits)
        return [Part(r.value(total), total.log_mass) for r, total in zip(self.reductions, sums, strict=True)]

    def pull(self, rank: int | None, queries: Tensor, others: Tensor, asking: Sequence[Gradient], to: Slopes) -> None:
        pull_tiles(self._for(rank), queries, others, asking, to, self._scratch, self._limits)

    def refuse_changed(self, like: Tensor) -> None:
        refuse_changed(self._sampled, self.plan, like)

    def _for(self, rank: int | None) -> Plan:
        return self.plan if rank is None else self.plan.visited(rank)


def by_tiles(pairs: Pairs, reductions: tuple[Reduction, ...], top_k: int | None = None) -> Tiles:
    plan = plan_of(pairs, reductions, top_k)
    if top_k is not None:  # whether an entry counts for its row says nothing of its column
        plan = replace(plan, symmetric=False)
    return Tiles(plan, pairs.queries)


def visited(pairs: Pairs, way: Way) -> tuple[Tensor, ...]:
    """Each reduction over the negatives of every query, here and on all other processes."""
    assert pairs.visitors is not None
    values: tuple[Tensor, ...] = _Visited.apply(  # type: ignore[no-untyped-call]
        way, pairs.visitors, pairs.queries, pairs.candidates, pairs.visitors.rows, *way.parameters
    )
    return values


def joined(reduction: Reduction, a: Part, b: Part) -> Part:
    """A reduction over two blocks, from those over each."""
    if isinstance(reduction, Total):
        return Part(a.value + b.value, a.log_mass)
    mass = torch.logaddexp(a.log_mass, b.log_mass)
    if not isinstance(reduction, Expectation):
        return Part(mass, mass)
    shares = [torch.where(p.log_mass > -torch.inf, p.value * torch.exp(p.log_mass - mass), 0.0) for p in (a, b)]
    return Part(shares[0] + shares[1], mass)


class _Visited(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        way: Way,
        visitors: Visitors,
        queries: Tensor,
        candidates: Tensor | None,
        rows: Tensor,
        *parameters: Tensor,
    ) -> tuple[Tensor, ...]:
        others = queries if candidates is None else candidates
        way.prepare(visitors, queries, others, rows)
        parts = way.add(None, queries, others)

        def see(rank: int, block: Tensor) -> None:
            theirs = way.add(rank, queries, block)
            parts[:] = [joined(r, a, b) for r, a, b in zip(way.reductions, parts, theirs, strict=True)]

        visitors.visit(rows, see)
        values, masses = zip(*parts, strict=True)
        ctx.way, ctx.visitors = way, visitors
        ctx.save_for_backward(queries, candidates, rows, *masses, *values, *parameters, *way.constants)
        return tuple(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        way: Way = ctx.way
        queries, candidates, rows, *rest = ctx.saved_tensors
        way.refuse_changed(queries)
        k = len(way.reductions)
        scale = ctx.visitors.largest(size_of(upstream))  # one for all: gradients of a block come from everywhere
        asking = [
            Gradient(g / scale, mass, value, way.fixed)
            for g, mass, value in zip(upstream, rest[:k], rest[k : 2 * k], strict=True)
        ]
        _, _, want_queries, want_candidates, want_rows, *_ = ctx.needs_input_grad
        dq = torch.zeros_like(queries) if want_queries else None
        dc = dq if candidates is None else torch.zeros_like(candidates) if want_candidates else None
        dp: list[Tensor | None] = [None] * len(way.parameters)
        with torch.autocast(queries.device.type, enabled=False):
            way.pull(None, queries, queries if candidates is None else candidates, asking, (dq, dc, dp))
            if want_rows:
                dr = ctx.visitors.carry(
                    rows, lambda rank, block, d: way.pull(rank, queries, block, asking, (dq, d, dp))
                )
            else:
                dr = None
                ctx.visitors.visit(rows, lambda rank, block: way.pull(rank, queries, block, asking, (dq, None, dp)))
        gradients = (dq, None if candidates is None else dc, dr, *dp)
        return (None, None, *(None if d is None else d * scale for d in gradients))
