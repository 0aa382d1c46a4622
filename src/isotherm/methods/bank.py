"""Instance discrimination with a memory bank: the setting of Wang & Liu."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from isotherm import world
from isotherm.losses.loss import Loss, full_precision
from isotherm.methods.method import Given, Method, Network, takes
from isotherm.pairing import banked, unit
from isotherm.types import Batch


class MemoryBank(Method):
    r"""Each image's embedding looks for its own past among those of all images.

    .. math:: M_i \leftarrow \frac{m M_i + (1 - m) z_i}{\|m M_i + (1 - m) z_i\|}

    Wu et al. 2018 (arXiv:1805.01978); Wang & Liu 2021 (arXiv:2012.09740), §5.1. The bank starts as random directions
    and is written after the step. `negatives` draws that many entries for each step instead of using them all; the
    hard losses take the nearest themselves (4095 of them in the paper: ``--loss.top_k 4095``).
    """

    fewest_views = 1

    def __init__(
        self, network: Network, loss: Loss, given: Given, momentum: float = 0.5, negatives: int | None = None
    ) -> None:
        super().__init__(network, takes(loss, "a memory bank", "its bank's entries"))
        if not 0 <= momentum < 1:
            raise ValueError(f"the bank's momentum lies in [0, 1), got {momentum}.")
        if negatives is not None and negatives < 1:
            raise ValueError(f"a query needs 1 negative or more, got {negatives}.")
        self.seed, self.momentum, self.negatives = given.seed, momentum, negatives
        start = torch.randn(given.items, given.width, generator=torch.Generator().manual_seed(given.seed))
        self.register_buffer("bank", unit(start, "bank"))
        self.pending: tuple[Tensor, Tensor] | None = None

    bank: Tensor

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        assert self.loss is not None
        (z,) = embedded
        with full_precision(embedded):
            value = self.loss.of(banked(z, batch.indices, self.bank, self._drawn(batch.indices)))
        self.pending = (world.gather(z.detach()), world.gather(batch.indices))
        return value

    def _drawn(self, indices: Tensor) -> Tensor | None:
        """The entries that serve as negatives in this step: the same on every process, none of the batch's own."""
        if self.negatives is None:
            return None
        others = torch.ones(len(self.bank), dtype=torch.bool)
        others[world.gather(indices).cpu()] = False
        free = others.nonzero()[:, 0]
        if len(free) < self.negatives:
            raise ValueError(
                f"{self.negatives} negatives are asked for; the bank has {len(free)} entries outside the batch."
            )
        chance = torch.Generator().manual_seed((self.seed * 1_000_003 + self.step) % (1 << 63))
        return free[torch.randperm(len(free), generator=chance)[: self.negatives]].to(indices.device)

    @torch.no_grad()
    def after_step(self) -> None:
        assert self.pending is not None
        z, indices = self.pending
        fresh = unit(z, "embeddings").to(self.bank.dtype)
        self.bank[indices] = unit(torch.lerp(fresh, self.bank[indices], self.momentum), "bank")
        self.pending = None

    def check_views(self, views: int) -> None:
        if views != 1:
            raise ValueError(f"a memory bank compares one view of each image with the bank; got {views} views.")
