"""Self-distillation without labels: each view predicts what a centred and sharpened slow copy says of the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from isotherm import world
from isotherm.checks import not_negative, positive
from isotherm.losses.loss import full_precision, product
from isotherm.methods.method import Given, Method, MomentumCopy, Network, through
from isotherm.methods.prototypes import prototype_count, swapped_prediction
from isotherm.pairing import unit, unit_views
from isotherm.types import Batch

PROTOTYPES = 65536


class LastLayer(nn.Module):
    """Scores of unit embeddings (N, width): their products with K directions, weight-normalized; `gain` learns the
    lengths, which are one otherwise."""

    def __init__(self, width: int, count: int, gain: bool) -> None:
        super().__init__()
        self.directions = nn.Parameter(nn.Linear(width, count, bias=False).weight.detach())
        self.gain = nn.Parameter(torch.ones(count, 1)) if gain else None

    def forward(self, z: Tensor, frozen: bool = False) -> Tensor:
        weight = unit(self.directions, "the last layer")
        weight = weight if self.gain is None else weight * self.gain
        return product(z, (weight.detach() if frozen else weight).T)


class DINO(Method):
    r"""Every view and small crop predicts the teacher's distribution over the prototypes for the item's other views.

    .. math::
        q_i = \mathrm{softmax}\left(\frac{g_{\theta'}(x_i) - c}{\tau_t}\right), \qquad
        c \leftarrow m c + (1 - m) \frac{1}{n} \sum_i g_{\theta'}(x_i)

    Caron et al. 2021 (DINO, arXiv:2104.14294), Alg. 1 and eq. 4; the loss is `swapped_prediction` with the student's
    temperature. The teacher :math:`\theta'` is a slow copy of network and last layer, which sees the large crops only;
    its momentum rises to `momentum_end` along half a cosine, its temperature :math:`\tau_t` from `teacher_start` in a
    straight line over `teacher_warmup` epochs. The centre c is that of all views of all processes, with
    `center_momentum` m. The last layer stands still for the first `freeze` epochs and has rows of length one, or of any
    length without `norm_last_layer`. `prototypes` are 65536, or a tenth of the items where that is fewer.

    Differs from the authors' code: the teacher's temperature rises with every step instead of every epoch, and a frozen
    last layer has no part in the norm by which gradients are clipped. Their weight decay that grows from 0.04 to 0.4
    belongs to the optimizer and is not here.
    """

    without_small_crops = ""
    compares = True

    def __init__(
        self,
        network: Network,
        given: Given,
        prototypes: int | None = None,
        momentum: float = 0.996,
        momentum_end: float = 1.0,
        student_temperature: float = 0.1,
        teacher_temperature: float = 0.07,
        teacher_start: float = 0.04,
        teacher_warmup: float = 30.0,
        center_momentum: float = 0.9,
        freeze: float = 1.0,
        norm_last_layer: bool = True,
    ) -> None:
        super().__init__(network)
        self.student_temperature = positive("student_temperature", student_temperature)
        self.teacher_temperature = positive("teacher_temperature", teacher_temperature)
        self.teacher_start = positive("teacher_start", teacher_start)
        self.teacher_warmup, self.freeze = (
            not_negative("teacher_warmup", teacher_warmup),
            not_negative("freeze", freeze),
        )
        if not 0 <= center_momentum < 1:
            raise ValueError(f"center_momentum lies in [0, 1), got {center_momentum}.")
        self.center_momentum = center_momentum
        count = prototype_count("DINO", prototypes, PROTOTYPES, given)
        self.last = LastLayer(given.width, count, gain=not norm_last_layer)
        self.slow = MomentumCopy(network, momentum, momentum_end)
        self.slow_last = MomentumCopy(self.last, momentum, momentum_end)
        self.register_buffer("center", torch.zeros(count))
        self.pending: Tensor | None = None

    center: Tensor

    @property
    def sharpness(self) -> float:
        """The teacher's temperature now."""
        part = min(1.0, self.epochs / self.teacher_warmup) if self.teacher_warmup else 1.0
        return self.teacher_start + part * (self.teacher_temperature - self.teacher_start)

    def targets(self, batch: Batch) -> list[Tensor]:
        return through(self.slow, self.large(batch.views))

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        with full_precision(embedded):
            frozen = self.epochs < self.freeze
            scores = [self.last(z, frozen) for z in unit_views(embedded)]
            taught = [self.slow_last(z) for z in unit_views(targets)]
            said = [torch.softmax((score - self.center) / self.sharpness, 1) for score in taught]
            value = swapped_prediction(said, scores, self.student_temperature)
        count = len(taught) * sum(world.counts(len(taught[0]), taught[0].device))
        self.pending = world.total(torch.stack([score.sum(0) for score in taught]).sum(0)) / count
        return value

    @torch.no_grad()
    def after_step(self) -> None:
        assert self.pending is not None
        self.center.lerp_(self.pending.to(self.center.dtype), 1 - self.center_momentum)
        self.slow.follow(self.network, self.progress)
        self.slow_last.follow(self.last, self.progress)
        self.pending = None
