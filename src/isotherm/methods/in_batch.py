"""The batch is all there is: SimCLR and every method that differs from it only in its loss."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from isotherm.losses.loss import Loss
from isotherm.methods.method import Method, Network
from isotherm.types import Batch


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
            if int(batch.labels.min()) < 0:
                raise ValueError(f"{type(self.loss).__name__} needs a label for every image; some have none (−1).")
            embedded = [torch.cat(list(embedded)), batch.labels.repeat(len(embedded))]
        value: Tensor = self.loss(*embedded)
        return value
