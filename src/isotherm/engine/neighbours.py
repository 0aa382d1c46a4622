"""Who is near whom, in strips of rows: the nearest of each query, and lists of those that are nearest to a set."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from isotherm.engine.masks import Listed, Mask
from isotherm.engine.sizes import blocks, strip_height


def nearest(queries: Tensor, candidates: Tensor) -> Tensor:
    """Which candidate is the most similar to each query, (n,). No gradient."""
    with torch.no_grad():
        height = strip_height(queries.device, len(candidates))
        strips = [(queries[rows] @ candidates.T).argmax(1) for rows in blocks(len(queries), height)]
    return torch.cat(strips)


def nearest_to_sets(
    sets: Sequence[Tensor],
    candidates: Tensor,
    hidden: Mask,
    rows: int,
    top_k: int,
    above: float = -math.inf,
    mean: bool = False,
) -> Listed:
    """For each item the at most `top_k` candidates that score the highest, all `above` a number. No gradient.

    `sets` are the item's embeddings, (n, d) each; a candidate's score is its largest similarity to one of them, or the
    `mean`. What `hidden` hides in the first n rows is not listed. The list is for a matrix of so many `rows`.
    """
    n, m = len(sets[0]), len(candidates)
    columns, counts = [], []
    with torch.no_grad():
        members = [torch.stack(list(sets)).mean(0)] if mean else list(sets)
        for strip in blocks(n, strip_height(candidates.device, m)):
            scores = members[0][strip] @ candidates.T
            for member in members[1:]:
                torch.maximum(scores, member[strip] @ candidates.T, out=scores)
            hidden.hide(scores, strip, slice(0, m), -math.inf)
            values, places = scores.topk(min(top_k, m), dim=1)
            near = values > above
            columns.append(places[near])
            counts.append(near.sum(1))
    ends = torch.cat(counts).cumsum(0)
    return Listed(torch.cat(columns), torch.cat([ends.new_zeros(1), ends]), (rows, m))
