"""How the kernels are launched: one reduction of one block of pairs, and its exact gradient."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from isotherm.engine.device import kernels
from isotherm.engine.device.blocks import (
    PULL_STRIP,
    Blocks,
    add_blocks,
    nearest_warps,
    pull_blocks,
    shares,
)
from isotherm.engine.device.jobs import KINDS, Job
from isotherm.engine.once import once_differentiable
from isotherm.engine.reductions import LOWEST, Expectation, LogSumExp, Total
from isotherm.engine.select import twins
from isotherm.engine.sizes import blocks, strip_height
from isotherm.types import Pairs

LINES = 1 << 26
"""Sums of columns, a line per row block, that are kept at most; beyond, columns take a pass of their own."""
Queries = tuple[Tensor, Tensor, Tensor]
"""Of each query: the upstream gradient, the log of its mass, its value."""


def run(job: Job, pairs: Pairs) -> Tensor:
    """One value per query."""
    functions_ = (*job.reduction.functions, *job.reduction.constants)
    watched = [p for f in functions_ for p in f.parameters]
    candidates = None if pairs.candidates is None else pairs.candidates.contiguous()
    values: Tensor = _Fused.apply(job, pairs.queries.contiguous(), candidates, job.scale, *watched)  # type: ignore[no-untyped-call]
    return values


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, job: Job, queries: Tensor, candidates: Tensor | None, scale: Tensor | None, *watched: Tensor
    ) -> Tensor:
        others = queries if candidates is None else candidates
        value, mass = _nearest(job, queries, others) if job.top_k is not None else add(job, queries, others)
        ctx.job = job
        # the parameters are read again in backward: saved, so that autograd refuses if they have changed meanwhile
        ctx.save_for_backward(queries, candidates, mass, value, *watched)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        job: Job = ctx.job
        queries, candidates, mass, value, *watched = ctx.saved_tensors
        (g,) = upstream
        size = g.abs().amax()  # formed on this scale, where float32 neither overflows nor underflows
        size = size.where((size > 0) & torch.isfinite(size), torch.ones_like(size))
        asking = ((g / size).contiguous(), mass, value)
        if job.top_k is not None:
            dq, dc, learned = _pull_nearest(job, queries, candidates, asking)
        else:
            dq, dc, learned = pull(job, queries, candidates, asking, ctx.needs_input_grad[2])
        gradients = (dq, dc, learned if job.learn else None)
        return (None, *(None if d is None else d * size for d in gradients), *(None for _ in watched))


def _shared(columns: int, rows: int, blocks_: Blocks, device: torch.device) -> tuple[int, int]:
    """The columns of a share, and how many shares there are."""
    parts = shares(triton.cdiv(rows, blocks_.rows), triton.cdiv(columns, blocks_.columns), device)
    share = triton.cdiv(triton.cdiv(columns, parts), blocks_.columns) * blocks_.columns
    return share, triton.cdiv(columns, share)


def add(job: Job, queries: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """The value and the log of the mass of every query."""
    rows = add_blocks(job.precision, job.kind == KINDS[Expectation]).rows
    lines = triton.cdiv(len(queries), rows) * len(others)
    if (job.symmetric or job.mutual) and lines <= LINES:
        return _add_rows(job, queries, others, columns=True)
    value, mass = _add_rows(job, queries, others)
    if job.mutual:
        back, back_mass = _add_rows(job, others, queries, flip=True)
        value, mass = torch.cat([value, back]), torch.cat([mass, back_mass])
    return value, mass


def _add_rows(job: Job, x: Tensor, y: Tensor, columns: bool = False, flip: bool = False) -> tuple[Tensor, Tensor]:
    (n, d), m = x.shape, len(y)
    size = add_blocks(job.precision, job.kind == KINDS[Expectation])
    share, parts = _shared(m, n, size, x.device)
    grid = (triton.cdiv(n, size.rows), parts)
    of_rows = (x.new_full((parts, n), LOWEST), x.new_zeros(parts, n), x.new_zeros(parts, n))
    lines = (grid[0], m) if columns else (1, 1)
    of_columns = (x.new_full(lines, LOWEST), x.new_zeros(lines), x.new_zeros(lines))
    kernels.add_rows[grid](
        x, y, *of_rows, *of_columns, *job.numbers, *job.hidden.tensors(x, flip),
        n, m, d, x.stride(0), y.stride(0), job.hidden.period or 1, share,
        **job.constants, COLUMNS=columns, UPPER=columns and job.symmetric, **size.options, PRECISION=job.precision,
    )  # fmt: skip
    if columns and job.symmetric:
        together = [torch.cat(both) for both in zip(of_rows, of_columns, strict=True)]
        return _combined(job.kind, *together)
    rows = _combined(job.kind, *of_rows)
    if not columns:
        return rows
    value, mass = (torch.cat(both) for both in zip(rows, _combined(job.kind, *of_columns), strict=True))
    return value, mass


def _combined(kind: int, top: Tensor, mass: Tensor, moment: Tensor) -> tuple[Tensor, Tensor]:
    """The value and the log of the mass of each query, from those of parts (part, query)."""
    if kind == KINDS[Total]:
        return moment.sum(0), moment.new_zeros(moment.shape[1])
    highest = top.amax(0)
    shrink = torch.exp(top - highest)
    total = (mass * shrink).sum(0)
    log_mass = highest + total.log()
    return (log_mass, log_mass) if kind == KINDS[LogSumExp] else ((moment * shrink).sum(0) / total, log_mass)


def pull(
    job: Job, queries: Tensor, candidates: Tensor | None, asking: Queries, want_candidates: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The gradients of the queries, of the candidates and of the learnable number."""
    n = len(queries)
    if candidates is None:
        dq, learned = _pull(job, queries, queries, asking, asking)
        return dq, None, learned
    of_queries: Queries = (asking[0][:n], asking[1][:n], asking[2][:n])
    of_candidates: Queries | None = (asking[0][n:], asking[1][n:], asking[2][n:]) if job.mutual else None
    dq, learned = _pull(job, queries, candidates, of_queries, of_candidates, learn_columns=job.mutual)
    if not want_candidates:
        return dq, None, learned
    return dq, _pull(job, candidates, queries, of_candidates, of_queries, flip=True)[0], learned


def _pull(
    job: Job,
    x: Tensor,
    y: Tensor,
    of_x: Queries | None,
    of_y: Queries | None,
    learn_columns: bool = False,
    flip: bool = False,
) -> tuple[Tensor, Tensor]:
    (n, d), m = x.shape, len(y)
    size = pull_blocks(job.precision, d)
    share, parts = _shared(m, n, size, x.device)
    learn = 0 if flip else job.learn
    dx, learned = x.new_empty(parts, n, d), x.new_zeros(parts, n if learn else 1)
    nobody = (x.new_zeros(1),) * 3
    kernels.pull_rows[(triton.cdiv(n, size.rows), parts)](
        x, y, dx, learned, *(of_x or nobody), *(of_y or nobody), *job.numbers, *job.hidden.tensors(x, flip),
        n, m, d, x.stride(0), y.stride(0), job.hidden.period or 1, share,
        **job.constants, DETACH=job.detach, FROM_X=of_x is not None, FROM_Y=of_y is not None,
        LEARN=learn, LEARN_Y=learn_columns, BLOCK_D=max(16, triton.next_power_of_2(d)), **size.options,
        PRECISION=job.precision,
    )  # fmt: skip
    return dx.sum(0), learned.sum().reshape(1)


def _nearest(job: Job, queries: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    n = len(queries)
    sums = [queries.new_zeros(n) for _ in range(3)]
    limit = queries.new_empty(n)
    copies = twins(others)
    for rows in blocks(n, strip_height(queries.device, len(others))):
        _limits(job, _strip(queries, others, rows, copies), rows, limit, sums)
    return _combined(job.kind, *(part[None] for part in sums))


def _strip(queries: Tensor, others: Tensor, rows: slice, copies: tuple[Tensor, Tensor] | None) -> Tensor:
    s = queries[rows] @ others.T
    if copies is not None:  # the matrix product rounds equal columns differently
        s[:, copies[0]] = s[:, copies[1]]
    return s


def _limits(job: Job, s: Tensor, rows: slice, limit: Tensor, sums: list[Tensor] | None) -> None:
    """The k-th largest of these rows, and their sums if wanted."""
    width = triton.next_power_of_2(s.shape[1])
    kernels.nearest_strip[(len(s),)](
        s, limit, *(sums or [limit] * 3), *job.numbers, *job.hidden.tensors(s, False),
        rows.start, rows.stop, s.shape[1], job.hidden.period or 1, job.top_k,
        **job.constants, SUMS=sums is not None, BLOCK_N=width, num_warps=nearest_warps(width),
    )  # fmt: skip


def _pull_nearest(
    job: Job, queries: Tensor, candidates: Tensor | None, asking: Queries
) -> tuple[Tensor, Tensor | None, Tensor]:
    others = queries if candidates is None else candidates
    n, m = len(queries), len(others)
    dq, dc, limit = torch.zeros_like(queries), torch.zeros_like(others), queries.new_empty(n)
    copies = twins(others)
    across = triton.cdiv(m, PULL_STRIP.columns)
    learned = queries.new_zeros(n, across)
    for rows in blocks(n, strip_height(queries.device, m)):
        s = _strip(queries, others, rows, copies)
        _limits(job, s, rows, limit, None)  # found anew, so that the choice fits these similarities to the last bit
        kernels.pull_strip[(triton.cdiv(len(s), PULL_STRIP.rows), across)](
            s, limit, learned, *asking, *job.numbers, *job.hidden.tensors(s, False),
            rows.start, rows.stop, m, job.hidden.period or 1,
            **job.constants, DETACH=job.detach, LEARN=job.learn, BLOCK_M=PULL_STRIP.rows, BLOCK_N=PULL_STRIP.columns,
            num_warps=PULL_STRIP.warps,
        )  # fmt: skip
        dq[rows] += s @ others
        dc.addmm_(s.T, queries[rows])
    if candidates is None:
        return dq + dc, None, learned.sum().reshape(1)
    return dq, dc, learned.sum().reshape(1)
