"""Swapping assignments between views: each view predicts which prototypes the others belong to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from isotherm import world
from isotherm.checks import at_least, not_negative, positive
from isotherm.losses.loss import full_precision, product
from isotherm.methods.method import Given, Method, Network
from isotherm.methods.prototypes import prototype_count, sinkhorn, swapped_prediction
from isotherm.pairing import unit, unit_views
from isotherm.types import Batch

PROTOTYPES = 3000


class SwAV(Method):
    """Every view and small crop predicts the codes of the item's other views among trained prototypes on the sphere.

    Caron et al. 2020 (SwAV, arXiv:2006.09882), Alg. 1: codes by `sinkhorn`, loss by `swapped_prediction`. Prototypes
    have length one after each step, and stand still for the first `freeze` epochs (authors' code: 313 steps, an epoch
    of ImageNet at batch 4096). `prototypes` are 3000, or a tenth of the items where these are fewer than 30,000.

    `queue` past embeddings of every view take part in the codes, for batches that are small beside the prototypes
    (authors: 3840 at batch 256). It begins to fill after `queue_start` epochs and is used from the moment it is full.
    Differs from the authors' code: the queue is that of all processes together and of any length, so that they compute
    what one process would.
    """

    without_small_crops = ""
    compares = True

    def __init__(
        self,
        network: Network,
        given: Given,
        prototypes: int | None = None,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        iterations: int = 3,
        freeze: float = 1.0,
        queue: int = 0,
        queue_start: float = 15.0,
    ) -> None:
        super().__init__(network)
        at_least(1, iterations=iterations)
        at_least(0, queue=queue)
        self.temperature, self.epsilon = positive("temperature", temperature), positive("epsilon", epsilon)
        self.freeze, self.queue_start = not_negative("freeze", freeze), not_negative("queue_start", queue_start)
        self.iterations = iterations
        count = prototype_count("SwAV", prototypes, PROTOTYPES, given)
        start = nn.Linear(given.width, count, bias=False).weight.detach()
        self.prototypes = nn.Parameter(unit(start, "prototypes"))
        self.register_buffer("queue", torch.zeros(given.views, queue, given.width))
        self.register_buffer("queued", torch.zeros((), dtype=torch.long))
        self.filled = 0
        self.register_load_state_dict_post_hook(SwAV.recount)  # type: ignore[no-untyped-call]
        self.pending: Tensor | None = None

    def recount(self, _: object = None) -> None:
        """How many went through the queue, as a number that no device must be asked for."""
        self.filled = int(self.queued)

    queue: Tensor
    queued: Tensor
    """How many embeddings of each view have gone through the queue."""

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        with full_precision(embedded):
            prototypes = self.prototypes.detach() if self.epochs < self.freeze else self.prototypes
            z = unit_views(embedded)
            scores = [product(view, prototypes.T) for view in z]
            codes = [self._codes(t, score.detach()) for t, score in enumerate(self.large(scores))]
            value = swapped_prediction(codes, scores, self.temperature)
        if self.queue.shape[1] and self.epochs >= self.queue_start:
            self.pending = world.gather(torch.stack([view.detach() for view in self.large(z)], 1))
        return value

    def _codes(self, view: int, scores: Tensor) -> Tensor:
        """The codes of a view, with this process's share of its queue beside it."""
        length = self.queue.shape[1]
        if not length or self.filled < length:
            return sinkhorn(scores, self.epsilon, self.iterations)
        past = self.queue[view].tensor_split(world.size())[world.rank()].to(scores.dtype)
        together = torch.cat([past @ self.prototypes.detach().T, scores])
        return sinkhorn(together, self.epsilon, self.iterations)[len(past) :]

    @torch.no_grad()
    def after_step(self) -> None:
        self.prototypes.copy_(unit(self.prototypes, "prototypes"))
        if self.pending is None:
            return
        length = self.queue.shape[1]
        fresh = self.pending.transpose(0, 1)[:, -length:].to(self.queue.dtype)
        places = (self.queued + torch.arange(fresh.shape[1], device=fresh.device)) % length
        self.queue[:, places] = fresh
        self.filled += fresh.shape[1]
        self.queued.fill_(self.filled)
        self.pending = None
