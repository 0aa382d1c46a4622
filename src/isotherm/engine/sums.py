"""What losses ask for: sums over each query's negatives. Here it is decided how they are computed."""

from __future__ import annotations

import torch
from torch import Tensor

from isotherm.engine.elementwise import Linear
from isotherm.engine.fused import fused
from isotherm.engine.masks import Nothing, Periodic, Same
from isotherm.engine.reductions import Reduction, Total
from isotherm.engine.tiles import tiled
from isotherm.engine.visits import by_tiles, visited
from isotherm.types import Pairs


def reduce(pairs: Pairs, *reductions: Reduction, top_k: int | None = None) -> tuple[Tensor, ...]:
    """Each reduction over the negatives of every query: one vector a reduction.

    `top_k` keeps only the k nearest negatives of each query (all of those tied with the k-th, as copies of one
    candidate are); the choice is a constant for the gradient.
    """
    reductions = tuple(reductions)
    if top_k is None and all(_needs_no_matrix(pairs, r) for r in reductions):
        return tuple(_linear_total(pairs, r) for r in reductions)  # type: ignore[arg-type]
    if top_k is not None and pairs.mutual:
        return _both_ways(pairs, reductions, top_k)
    values = fused(pairs, reductions, top_k)
    if values is not None:
        return values
    if pairs.visitors is not None:
        return visited(pairs, by_tiles(pairs, reductions, top_k))
    return tiled(pairs, reductions, top_k)


def _both_ways(pairs: Pairs, reductions: tuple[Reduction, ...], top_k: int) -> tuple[Tensor, ...]:
    """Rows, then columns, each as rows of its own matrix."""
    assert pairs.candidates is not None
    forth = Pairs(pairs.queries, pairs.candidates, pairs.positives, pairs.hidden, pairs.negatives)
    back = Pairs(pairs.candidates, pairs.queries, pairs.positives, pairs.hidden.transposed(), pairs.negatives)
    ways = [reduce(p, *reductions, top_k=top_k) for p in (forth, back)]
    return tuple(torch.cat(parts) for parts in zip(*ways, strict=True))


def _needs_no_matrix(pairs: Pairs, reduction: Reduction) -> bool:
    """Whether it is a sum of something linear, of whose hidden part this process knows all."""
    if not (isinstance(reduction, Total) and isinstance(reduction.of, Linear)):
        return False
    hidden = reduction.where or pairs.hidden
    at_home = isinstance(hidden, Nothing | Periodic) or (isinstance(hidden, Same) and not hidden.elsewhere)
    return pairs.visitors is None or at_home


def _linear_total(pairs: Pairs, total: Total) -> Tensor:
    """A linear sum needs no matrix: Σ_j s_ij = z_i · Σ_j z_j, less what is hidden."""
    hidden = total.where or pairs.hidden
    candidates = pairs.queries if pairs.candidates is None else pairs.candidates
    everything = candidates.sum(0)
    if pairs.visitors is not None:
        mine = pairs.visitors.rows.sum(0)
        everything = everything + (pairs.visitors.total(mine) - mine)
    sums = pairs.queries @ everything - hidden.hidden_total(pairs.queries, candidates)
    if pairs.mutual:
        back = hidden.transposed().hidden_total(candidates, pairs.queries)
        sums = torch.cat([sums, candidates @ pairs.queries.sum(0) - back])
    return total.of(sums)
