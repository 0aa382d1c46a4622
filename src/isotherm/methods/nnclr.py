"""The positive is the nearest neighbour of the other view, among the embeddings of past batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from isotherm import world
from isotherm.engine import nearest
from isotherm.losses.loss import Loss, full_precision
from isotherm.methods.method import Given, Method, Network, push, takes, through
from isotherm.pairing import one_way, unit
from isotherm.types import Batch


class NNCLR(Method):
    r"""What a view's nearest neighbour looks for, among the predictions of the batch, is the item's other view.

    .. math::
        \mathcal{L}_i = -\log \frac{e^{\mathrm{NN}(z_i, Q) \cdot p_i^+ / \tau}}
            {\sum_{k} e^{\mathrm{NN}(z_i, Q) \cdot p_k^+ / \tau}},
        \qquad \mathrm{NN}(z, Q) = \operatorname*{arg\,min}_{q \in Q} \|z - q\|_2

    Dwibedi et al. 2021 (NNCLR, arXiv:2104.14548), §3, with the predictor and the symmetric mean of its Alg. 1;
    τ = 0.1 and 98,304 embeddings in the support set Q in the paper. :math:`p_i^+` is the prediction of the other view;
    neighbours get no gradient. After the step the embeddings of view 0 join the queue, first in first out.

    Differs from the paper: Q begins empty, not with random directions: as long as it is not full, neighbours are looked
    for among what it holds, and in the first step every embedding is its own. More than two views: each asks for all
    others. Any loss that takes negatives can judge.
    """

    def __init__(self, network: Network, loss: Loss, given: Given, queue: int = 98304) -> None:
        super().__init__(network, takes(loss, "NNCLR", "the predictions of its batch"))
        if queue < 1:
            raise ValueError(f"the queue holds 1 embedding or more, got {queue}.")
        self.items = given.items
        self.predictor = given.predictor_for("NNCLR")
        self.register_buffer("queue", torch.zeros(queue, given.width))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))
        self.register_buffer("held", torch.zeros((), dtype=torch.long))
        self.filled = 0
        self.register_load_state_dict_post_hook(NNCLR.recount)  # type: ignore[no-untyped-call]
        self.pending: Tensor | None = None

    def recount(self, _: object = None) -> None:
        """How many the queue holds, as a number that no device must be asked for."""
        self.filled = int(self.held)

    queue: Tensor
    place: Tensor
    held: Tensor
    """How many embeddings are in the queue."""

    @property
    def notes(self) -> tuple[str, ...]:
        """A queue longer than the data holds older embeddings of each item, which are then its nearest neighbours."""
        if not self.items or len(self.queue) <= self.items:
            return ()
        fitting = 1 << max(0, (self.items // 2).bit_length() - 1)
        return (
            f"the queue of {len(self.queue):,} embeddings is longer than the {self.items:,} items: the nearest "
            f"neighbour of one is mostly its own past. --method.queue {fitting} holds others.",
        )

    def embed(self, batch: Batch) -> list[Tensor]:
        z = through(self.network, batch.views)
        return [*through(self.predictor, z), *(view.detach() for view in z)]

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        assert self.loss is not None
        views = len(embedded) // 2
        predictions, z = embedded[:views], embedded[views:]
        blocks = []
        with full_precision(embedded):
            for a, view in enumerate(z):
                others = [p for b, p in enumerate(predictions) if b != a]
                (pairs,) = one_way(self.neighbours(view).to(torch.promote_types(view.dtype, torch.float32)), *others)
                blocks.append(replace(pairs, query_views=(a,)))
            value = self.loss.of(blocks)
        self.pending = world.gather(z[0])
        return value

    def neighbours(self, z: Tensor) -> Tensor:
        """The most similar embedding in the queue for each of these, or itself while the queue is empty."""
        z = unit(z, "embeddings")
        held = self.queue[: self.filled].to(z.dtype)
        return held[nearest(z, held)] if len(held) else z

    @torch.no_grad()
    def after_step(self) -> None:
        assert self.pending is not None
        push(self.queue, self.place, unit(self.pending, "embeddings"))
        self.filled = min(self.filled + len(self.pending), len(self.queue))
        self.held.fill_(self.filled)
        self.pending = None
