"""No negatives at all: BYOL, whose target is a slow copy, and SimSiam, whose target is the network itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from isotherm.losses.loss import Loss
from isotherm.methods.method import Given, Method, Network, PredictsSlowCopy, through
from isotherm.types import Batch


class BYOL(PredictsSlowCopy):
    """Each view's prediction of what a slow copy makes of the others: the sum over the two directions.

    Grill et al. 2020 (arXiv:2006.07733), §3. More than two views: each predicts the mean of the others' directions.
    """

    def __init__(
        self, network: Network, loss: Loss, given: Given, momentum: float = 0.996, momentum_end: float = 1.0
    ) -> None:
        super().__init__(network, predicting(loss, "BYOL"), given.predictor_for("BYOL"), momentum, momentum_end)

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        return len(targets) * each_predicts_the_others(self.loss, embedded, targets)


class SimSiam(Method):
    """Each view's prediction of what the network itself makes of the others, which gets no gradient.

    Chen & He 2021 (arXiv:2011.10566), Alg. 1: the mean over the two directions.
    """

    without_small_crops = ""

    def __init__(self, network: Network, loss: Loss, given: Given) -> None:
        super().__init__(network, predicting(loss, "SimSiam"))
        self.predictor = given.predictor_for("SimSiam")

    def embed(self, batch: Batch) -> list[Tensor]:
        z = through(self.network, batch.views)
        return [*through(self.predictor, z), *(view.detach() for view in self.large(z))]

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        views = (len(embedded) + self.small_crops) // 2
        return each_predicts_the_others(self.loss, embedded[:views], embedded[views:])


def each_predicts_the_others(loss: Loss | None, predictions: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    assert loss is not None
    values = [loss(p, *(t for b, t in enumerate(targets) if b != a)) for a, p in enumerate(predictions)]
    return torch.stack(values).mean()


def predicting(loss: Loss, method: str) -> Loss:
    if not loss.needs_predictor:
        raise ValueError(
            f"{method} predicts one view from another and compares with nobody else: it takes BYOLLoss or "
            f"SimSiamLoss, not {type(loss).__name__}. For that one use --method simclr or mocov3."
        )
    return loss
