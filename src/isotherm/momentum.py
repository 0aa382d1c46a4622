"""Keys of the past for a loop of one's own: a queue of them, and the slow copy of the network that makes them."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from isotherm import world
from isotherm.checks import at_least
from isotherm.pairing import unit


class Queue(nn.Module):
    """The last keys, unit rows (size, width), as negatives: ``loss(q, k, negatives=queue.keys)``, ``queue.push(k)``.

    MoCo (arXiv:1911.05722, Alg. 1): first in, first out, any number at a time. It starts full, of random directions
    that are a function of `seed`: until `size` keys were pushed, some negatives are nobody's. `filled` says how many
    rows are keys by now; ``queue.keys`` has all rows. Its state is in its `state_dict`, so that a run that is loaded
    goes on with the negatives it had. Several processes push everyone's keys, and all hold the same.
    """

    def __init__(self, size: int, width: int, seed: int = 0) -> None:
        super().__init__()
        at_least(1, size=size, width=width)
        start = torch.randn(size, width, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("rows", unit(start, "queue"))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))
        self.register_buffer("pushed", torch.zeros((), dtype=torch.long))

    rows: Tensor
    place: Tensor
    pushed: Tensor

    @property
    def keys(self) -> Tensor:
        """The negatives as they are now: a copy, which backward may read after the next `push`."""
        return self.rows.clone()

    @property
    def filled(self) -> int:
        """How many of its rows are keys; the others are still random directions."""
        return min(int(self.pushed), len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    @torch.no_grad()
    def push(self, keys: Tensor) -> None:
        """Take these keys (N, width) of this step in, after the loss was computed; the oldest go."""
        if keys.ndim != 2 or keys.shape[1] != self.rows.shape[1]:
            raise ValueError(f"keys must have shape (N, {self.rows.shape[1]}), got {tuple(keys.shape)}.")
        everyone = world.gather(unit(keys.detach(), "keys"))
        push(self.rows, self.place, everyone)
        self.pushed += len(everyone)

    def extra_repr(self) -> str:
        return f"size={len(self.rows)}, width={self.rows.shape[1]}, filled={self.filled}"


def push(queue: Tensor, place: Tensor, rows: Tensor) -> None:
    """Write unit rows into a queue, first in first out, from `place` on; of more rows than it holds, the last."""
    rows = rows[-len(queue) :]
    queue[(place + torch.arange(len(rows), device=rows.device)) % len(queue)] = rows.to(queue.dtype)
    place += len(rows)
    place %= len(queue)


class MomentumCopy(nn.Module):
    """A copy of a network that follows it slowly: θ' ← m θ' + (1 − m) θ. Its BN counts its own batches.

    `momentum` may rise to `end` along half a cosine (BYOL, arXiv:2006.07733, §3; MoCo v3's code).
    """

    def __init__(self, network: nn.Module, momentum: float, end: float | None = None) -> None:
        super().__init__()
        for name, value in {"momentum": momentum, "momentum_end": momentum if end is None else end}.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name} lies between 0 and 1, got {value}.")
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.momentum, self.end = momentum, momentum if end is None else end

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            z: Tensor = self.network(x)
        return z

    @torch.no_grad()
    def follow(self, network: nn.Module, progress: float = 0.0) -> None:
        m = self.end - (self.end - self.momentum) * (1 + math.cos(math.pi * progress)) / 2
        slow: list[Tensor] = list(self.network.parameters())
        fast: list[Tensor] = list(network.parameters())
        torch._foreach_lerp_(slow, fast, 1 - m)
