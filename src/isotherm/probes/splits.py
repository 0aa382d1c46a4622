"""Which items a probe is fitted on and which are kept back: drawn class by class, the same for the same seed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotherm.checks import at_least

Split = tuple[Tensor, Tensor]
"""The indices to fit on and the indices to ask, each in ascending order."""


def held_out_split(labels: Tensor, held_out: float, seed: int) -> Split:
    """All but a share of every class, and that share, but at least one item in both.

    A class with a single item is not held out.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out is a share between 0 and 1, got {held_out}.")
    counts = torch.bincount(labels)
    share = (counts * held_out).round().long().clamp_min(1).minimum((counts - 1).clamp_min(0))
    if not bool(share.any()):
        raise ValueError(
            "every class has a single training item: none can be held out to choose the regularisation. Give one."
        )
    held, kept = _first_of_each_class(labels, share, seed)
    return kept, held


def few_shot_split(labels: Tensor, per_class: int, seed: int) -> Split:
    """So many items of every class that there is, and the rest. Fewer per class are part of more."""
    at_least(1, per_class=per_class)
    counts = torch.bincount(labels)
    short = torch.nonzero((counts > 0) & (counts < per_class))[:, 0].tolist()
    if short:
        raise ValueError(
            f"class {short[0]} has {int(counts[short[0]])} training items, cannot draw {per_class}. "
            "Use fewer per class."
        )
    return _first_of_each_class(labels, torch.full_like(counts, per_class), seed)


def folds(indices: Tensor, labels: Tensor, count: int, seed: int) -> list[Split]:
    """Stratified folds of these indices, as scikit-learn draws them: SentEval's numbers depend on which they are."""
    from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415 - slow to import, and needed only here

    splitter = StratifiedKFold(count, shuffle=True, random_state=seed)
    pairs = splitter.split(np.zeros(len(indices)), labels[indices].numpy())
    return [(indices[torch.from_numpy(fit)], indices[torch.from_numpy(ask)]) for fit, ask in pairs]


def _first_of_each_class(labels: Tensor, wanted: Tensor, seed: int) -> Split:
    """The first `wanted[c]` items of every class c in one seeded order of all, and the rest."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(labels.device)
    counts = torch.bincount(labels)
    by_class = order[torch.argsort(labels[order], stable=True)]
    position = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[labels[by_class]]
    first = position < wanted[labels[by_class]]
    return by_class[first].sort().values, by_class[~first].sort().values
