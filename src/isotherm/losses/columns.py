"""A loss of columns of embeddings, such as sentences, their paraphrases and hard negatives: who asks, who answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from isotherm import world
from isotherm.losses.loss import Loss, full_precision, uncompiled
from isotherm.pairing import one_way

Pairing = Literal["cross_view", "own"]
"""``cross_view``: column 0 looks for its own row in column 1, whatever pairing the loss prefers; further columns are
hard negatives of every row. ``own``: every column is a view of its row, and the loss pairs them as it always does."""


@uncompiled
def contrast(loss: Loss, views: Sequence[Tensor], hard: Sequence[Tensor], pairing: Pairing, symmetric: bool) -> Tensor:
    """The loss of the views of a batch; `hard` are columns of hard negatives."""
    if len(views) < 2:
        raise ValueError(f"a row and its positive are needed, got {len(views)} column. Give the positives as another.")
    if len(views[0]) < 2 and world.size() == 1:
        raise ValueError(
            "the batch holds 1 row, which has no negative. Use a larger batch; if this was the rest of the data in a "
            "trainer of Hugging Face's, set dataloader_drop_last=True."
        )
    if hard and loss.without_negatives:
        raise ValueError(
            f"{type(loss).__name__} {loss.without_negatives} and can use no hard negatives, got {len(hard)} columns of "
            'them. Give it two columns, or pairing="own" if every column is a view of its row.'
        )
    if pairing == "own" or loss.without_negatives:
        value: Tensor = loss(*views)
        return value
    with full_precision(views):  # a trainer may have put us under autocast
        blocks = one_way(*views, further=torch.cat(list(hard)) if hard else None)
        for a in range(1, len(views) if symmetric else 1):
            blocks += one_way(views[a], *views[:a], *views[a + 1 :])
        return loss.of(blocks)
