"""A slow copy of the network makes the keys: MoCo v2 with its queue, MoCo v3 with its predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from isotherm import world
from isotherm.losses.loss import Loss, full_precision
from isotherm.methods.method import Given, Method, MomentumCopy, Network, PredictsSlowCopy, push, takes, through
from isotherm.pairing import one_way, queued, unit
from isotherm.temperature import Constant
from isotherm.types import Batch, Pairs
from isotherm.waiting import brought

OVER = 4
"""How many keys of an item a queue may hold before that is said."""


class MoCoV2(Method):
    """A query looks for the slow copy's key of its other view, among a queue of past keys.

    MoCo v2 (arXiv:2003.04297): view 0 asks, view 1 answers. CACR's Algorithm 3 (arXiv:2105.03746, app. C.2) is
    `every_view` (each view asks in turn, the keys of all others are its positives) with `intra_batch` (the other
    queries of the batch are negatives too, and carry gradient) and ``CACRLoss(detach_weights="positive")``. CACR's CMC
    with K = 4 is `every_view` with `pairwise`: a query looks for each of its keys by itself (CMC, arXiv:1906.05849,
    eq. 8), the other keys being no rivals.

    Small crops ask too, and look for every key; with `intra_batch` their negatives are the queries of the views.

    The queue starts as random directions, takes batches of any size, and never holds the keys it is compared with.
    `shuffle` sends each key image through another process, so that BN cannot tell who belongs together.
    """

    def __init__(
        self,
        network: Network,
        loss: Loss,
        given: Given,
        queue: int = 65536,
        momentum: float = 0.999,
        every_view: bool = False,
        intra_batch: bool = False,
        shuffle: bool = True,
        pairwise: bool = False,
    ) -> None:
        super().__init__(network, takes(loss, "MoCo v2", "its queue"))
        if queue < 1:
            raise ValueError(f"the queue holds 1 key or more, got {queue}.")
        self.items = given.items
        self.seed, self.every_view, self.intra_batch, self.shuffle = given.seed, every_view, intra_batch, shuffle
        self.pairwise = pairwise
        self.slow = MomentumCopy(network, momentum)
        start = torch.randn(queue, given.width, generator=torch.Generator().manual_seed(given.seed))
        self.register_buffer("queue", unit(start, "queue"))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))
        self.pending: Tensor | None = None

    queue: Tensor
    place: Tensor
    without_small_crops = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """A queue many times as long as the data: most of its negatives are old keys of the same items."""
        if not self.items or len(self.queue) <= OVER * self.items:
            return ()
        fitting = 1 << (self.items.bit_length() - 1)
        return (
            f"the queue of {len(self.queue):,} keys is {len(self.queue) / self.items:.0f} times the {self.items:,} "
            f"items: it keeps many old keys of each. --method.queue {fitting} holds about one.",
        )

    def embed(self, batch: Batch) -> list[Tensor]:
        large = self.large(batch.views)
        return through(self.network, [*(large if self.every_view else large[:1]), *batch.views[len(large) :]])

    def targets(self, batch: Batch) -> list[Tensor]:
        large = self.large(batch.views)
        answering = large if self.every_view else large[1:]
        if world.size() == 1 or not self.shuffle:
            return through(self.slow, answering)
        return self._elsewhere(answering)

    def _elsewhere(self, views: Sequence[Tensor]) -> list[Tensor]:
        """Keys of images that were shuffled over the processes and brought back in order."""
        n, device = len(views[0]), views[0].device
        counts = world.counts(n, device)
        order = brought(torch.randperm(sum(counts), generator=torch.Generator().manual_seed(self.step)), device)
        share = order.tensor_split(world.size())[world.rank()]
        start = sum(counts[: world.rank()])
        returned = []
        for keys in through(self.slow, [world.gather(view)[share] for view in views]):
            everyone = world.gather(keys)
            back = torch.empty_like(everyone)
            back[order] = everyone
            returned.append(back[start : start + n])
        return returned

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        assert self.loss is not None
        with full_precision(embedded):
            keys = [k.to(torch.promote_types(k.dtype, torch.float32)) for k in targets]
            blocks = list(self._blocks(embedded, keys))
            value = self.loss.of(blocks)
        self.pending = world.gather(keys[-1])
        return value

    def _blocks(self, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> list[Pairs]:
        blocks = []
        large = self.large(queries)
        once = keys if self.every_view else [*large, *keys]
        shown = tuple(unit(view.detach(), "views") for view in once) if self.small_crops else ()
        for a, query in enumerate(queries):
            positives = [k for b, k in enumerate(keys) if b != a] if self.every_view else keys
            is_small = a >= len(large)
            among = large if self.intra_batch and is_small else ()
            for partners in [[k] for k in positives] if self.pairwise else [positives]:
                (pairs,) = queued([query, *partners], self.queue, self.intra_batch and not is_small, among)
                blocks.append(replace(pairs, query_views=(a,), item_views=shown if is_small else ()))
        return blocks

    @torch.no_grad()
    def after_step(self) -> None:
        assert self.pending is not None
        self.slow.follow(self.network)
        push(self.queue, self.place, unit(self.pending, "keys"))
        self.pending = None


class MoCoV3(PredictsSlowCopy):
    r"""A prediction looks for the slow copy's keys of its other views, among the keys of the batch.

    MoCo v3 (arXiv:2104.02057), Alg. 1: every view asks in turn, and the loss is
    :math:`2\tau\,(\mathcal{L}^{1 \to 2} + \mathcal{L}^{2 \to 1})`. `scale` replaces :math:`2\tau`; it is 1 for a loss
    without one constant temperature (CACR's, a learnable or similarity-dependent one). With CACR's loss this is its
    MoCo v3 setting (arXiv:2105.03746, app. C.2).
    """

    def __init__(
        self,
        network: Network,
        loss: Loss,
        given: Given,
        momentum: float = 0.99,
        momentum_end: float = 1.0,
        scale: float | None = None,
    ) -> None:
        compares = takes(loss, "MoCo v3", "the keys of its batch")
        super().__init__(network, compares, given.predictor_for("MoCo v3"), momentum, momentum_end)
        self.scale = scale

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        assert self.loss is not None
        with full_precision(embedded):
            blocks = []
            for a, query in enumerate(embedded):
                (pairs,) = one_way(query, *(k for b, k in enumerate(targets) if b != a))
                item_views = pairs.partners if a >= len(targets) else ()
                blocks.append(replace(pairs, query_views=(a,), item_views=item_views))
            return len(targets) * self._scale() * self.loss.of(blocks)

    def _scale(self) -> float:
        if self.scale is not None:
            return self.scale
        temperature = getattr(self.loss, "temperature", None)
        if isinstance(temperature, Constant):
            temperature = temperature.value
        return 2 * float(temperature) if isinstance(temperature, int | float) else 1.0
