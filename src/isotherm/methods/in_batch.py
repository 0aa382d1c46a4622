"""The batch is all there is: SimCLR and every method that differs from it only in its loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from isotherm.losses.loss import Loss, full_precision
from isotherm.methods.method import Method, Network
from isotherm.pairing import one_way
from isotherm.types import Batch
from isotherm.waiting import may_wait, spoilt


class InBatch(Method):
    """Every view through one network; the loss compares them as it sees fit.

    SimCLR (arXiv:2002.05709) with NT-Xent, CMC with its loss, CACR with K + 1 views, Barlow Twins, VICReg, W-MSE,
    Zero-CL, ARB, SigLIP, and with `SupConLoss` supervised contrastive learning.
    """

    def __init__(self, network: Network, loss: Loss) -> None:
        if loss.needs_predictor:
            name = type(loss).__name__
            able = sorted(("byol", "simsiam"), key=lambda method: method not in name.lower())  # its own first
            raise ValueError(
                f"{name} without a predictor or a slow copy makes all embeddings equal; use --method "
                f"{' or '.join(able)}."
            )
        super().__init__(network, loss)

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        assert self.loss is not None
        if self.loss.takes_labels:
            labels, together = batch.labels, torch.cat(list(embedded))
            if not may_wait():
                together = spoilt(together, (labels < 0).any())
            elif int(labels.min()) < 0:
                raise ValueError(f"{type(self.loss).__name__} needs a label for every image; some have none (−1).")
            embedded = [together, labels.repeat(len(embedded))]
        if self.small_crops:
            large = self.large(embedded)
            return with_small_crops(self.loss, large, embedded[len(large) :])
        value: Tensor = self.loss(*embedded)
        return value

    @property
    def without_small_crops(self) -> str:
        assert self.loss is not None
        return f"takes {type(self.loss).__name__}, whose positives come from labels" if self.loss.takes_labels else ""


def with_small_crops(loss: Loss, large: Sequence[Tensor], small: Sequence[Tensor]) -> Tensor:
    """The views among themselves, as the loss pairs them; each small crop looks for its item's views among all views.

    Every view and small crop asks and counts alike, and looks for the views one by one if the loss has them two by two.
    A loss that compares no items takes every pair of which one is large.
    """
    if loss.without_negatives:
        partners = [(a, b) for i, a in enumerate(large) for b in (*large[i + 1 :], *small)]
        return torch.stack([loss(a, b) for a, b in partners]).mean()
    with full_precision(large):
        blocks = loss.pair(large)
        for i, query in enumerate(small):
            for wanted in [[view] for view in large] if loss.two_by_two else [list(large)]:
                (pairs,) = one_way(query, *wanted)
                blocks.append(replace(pairs, query_views=(len(large) + i,), item_views=pairs.partners))
        return loss.of(blocks)
