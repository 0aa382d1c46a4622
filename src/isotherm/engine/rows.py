"""The general way: any function of a query's whole row of similarities, in strips of rows.

Slower than potentials (`isotherm.engine.tiles`), but it takes whatever a user can write: sorting,
ranking, a learned function. Memory is one strip; backward computes each strip again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from isotherm.engine.masks import Mask
from isotherm.engine.once import once_differentiable
from isotherm.engine.reductions import LOWEST
from isotherm.engine.sizes import blocks, strip_height
from isotherm.types import Pairs

RowFunction = Callable[[Tensor, Tensor], Tensor]
"""(positives (r, p), negatives (r, m) with −inf where hidden) ↦ one value per row (r,)."""


def apply_rows(pairs: Pairs, function: RowFunction, *, parameters: Sequence[Tensor] = ()) -> Tensor:
    """`function` of each query's positives and its whole row of negatives, one value per query.

    Hidden entries are −inf, so softmax, sort and top-k see them last; their gradient is dropped, and so is what they
    would add to that of the parameters.
    `parameters` are learnable tensors that `function` uses.
    """
    if pairs.visitors is not None:
        raise ValueError('a function of whole rows needs all candidates at once: use exchange "gather".')
    candidates = pairs.queries if pairs.candidates is None else pairs.candidates
    if pairs.mutual:
        half = len(pairs.queries)
        forth = Pairs(pairs.queries, candidates, pairs.positives[:half], pairs.hidden, pairs.negatives)
        back = Pairs(candidates, pairs.queries, pairs.positives[half:], pairs.hidden.transposed(), pairs.negatives)
        ways = [apply_rows(p, function, parameters=parameters) for p in (forth, back)]
        return torch.cat(ways)
    height = strip_height(pairs.queries.device, len(candidates))
    tensors = (pairs.queries, candidates, pairs.positives, *parameters)
    values: Tensor = _Rows.apply(function, pairs.hidden, height, *tensors)  # type: ignore[no-untyped-call]
    return values


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        function: RowFunction,
        hidden: Mask,
        height: int,
        queries: Tensor,
        candidates: Tensor,
        positives: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        values = queries.new_empty(len(queries))
        for rows in blocks(len(queries), height):
            s = _strip(queries, candidates, hidden, rows)
            values[rows] = function(positives[rows], s)
        ctx.function, ctx.hidden, ctx.height = function, hidden, height
        ctx.save_for_backward(queries, candidates, positives, *parameters)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        queries, candidates, positives, *parameters = ctx.saved_tensors
        dq, dc, dp = torch.zeros_like(queries), torch.zeros_like(candidates), torch.zeros_like(positives)
        learnable = [p for p in parameters if p.requires_grad]
        learned = [torch.zeros_like(p) for p in learnable]
        with torch.autocast(queries.device.type, enabled=False):
            for rows in blocks(len(queries), ctx.height):
                s = _strip(queries, candidates, ctx.hidden, rows)
                p = positives[rows].detach()
                ds, dpositive, *rest = _slopes(ctx.function, p, s, learnable, upstream[rows])
                if not all(part is None or bool(torch.isfinite(part).all()) for part in rest):
                    # 0 · ∞ at hidden entries: their limit from where they are finite
                    _, _, *rest = _slopes(ctx.function, p, s.clamp_min(LOWEST), learnable, upstream[rows])
                if dpositive is not None:
                    dp[rows] = dpositive
                for total, part in zip(learned, rest, strict=True):
                    if part is not None:
                        total.add_(part)
                if ds is not None:
                    ctx.hidden.hide(ds, rows, slice(0, len(candidates)), 0.0)
                    dq[rows] += ds @ candidates
                    dc.addmm_(ds.T, queries[rows])
        gradients = iter(learned)
        return (None, None, None, dq, dc, dp, *(next(gradients) if p.requires_grad else None for p in parameters))


def _slopes(
    function: RowFunction, p: Tensor, s: Tensor, learnable: Sequence[Tensor], upstream: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of a strip's negatives, of its positives, and of the function's parameters."""
    with torch.enable_grad():
        leaves = (s.detach().requires_grad_(), p.detach().requires_grad_())
        values = function(leaves[1], leaves[0])
    return torch.autograd.grad(values, (*leaves, *learnable), upstream, allow_unused=True)


def _strip(queries: Tensor, candidates: Tensor, hidden: Mask, rows: slice) -> Tensor:
    with torch.no_grad():
        s = queries[rows] @ candidates.T
        hidden.hide(s, rows, slice(0, len(candidates)), -math.inf)
    return s
