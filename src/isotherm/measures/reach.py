r"""How many negatives a query's repulsion really reaches at each temperature, and which temperatures that speaks for.

At temperature τ a query divides its repulsion among its negatives in the shares :math:`r_{ij} \propto e^{s_{ij}/\tau}`
(Wang & Liu 2021, arXiv:2012.09740, eq. 5). :math:`e^{H(r_i)}` is how many negatives that amounts to, had they equal
shares; it grows with τ, from one to all of them. We look at it as a part of all negatives,

.. math:: \text{reach}(\tau) = \exp\Big(\mathbb{E}_i\, H(r_i)\Big) / m,

which hardly depends on how many there are, if they are hundreds: for similarities that are normal with standard
deviation σ it is :math:`e^{-\sigma^2/2\tau^2}`. So a range of τ found on a file holds for a batch or a queue, too.

The recommended range keeps the reach between `LOW` and `HIGH`. Below, a few neighbours receive nearly all the force;
above, easy negatives count almost like hard ones, and the loss approaches the simple one, which trains far worse
(Wang & Liu, Table 1). Where between, reasoning does not say: the bounds are those that were best to train at, chosen on
CIFAR-10 and tried on two other sets (docs/decisions/0034; ``isotherm study recommended``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotherm.measures.measure import as_measure
from isotherm.pairing import unit
from isotherm.temperature import scaled
from isotherm.types import TemperatureLike

Floats = NDArray[np.float64]

LOW, HIGH = 0.02, 0.15
"""The part of the negatives that a query's repulsion should reach."""
QUERIES = 128
FEWEST = 200
"""Negatives below which so small a part of them means little: with 200 instead of 10,000 the τ of 2 % comes out a
quarter too low, with 100 by half (embeddings of CIFAR-100)."""
COLDEST, HOTTEST = 1e-3, 1e2
"""Where temperatures are looked for."""
BINS = 80
CACHED = 1 << 20
"""Similarities worked on at a time."""


class Queries:
    """Similarities of a seeded sample of items to all other ones."""

    def __init__(self, z: Tensor, labels: Tensor | None = None, seed: int = 0) -> None:
        z = unit(z, "z")
        n = len(z)
        count = min(n, max(32, min(QUERIES, (1 << 24) // n)))
        chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:count].to(z.device)
        self.s = without(z[chosen] @ z.T, chosen)
        self.same = None if labels is None else without(labels[chosen, None] == labels, chosen)

    @property
    def few(self) -> bool:
        """Whether there are too few negatives to speak of a part of them."""
        return self.s.shape[1] < FEWEST

    @torch.no_grad()
    def shares(self, temperature: TemperatureLike) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """r over the negatives and its entropy H(r), for a few queries at a time, while they are in cache."""
        energy_of = scaled(temperature)
        step = max(1, CACHED // self.s.shape[1])
        for start in range(0, len(self.s), step):
            at = slice(start, start + step)
            energy = energy_of(self.s[at])
            top = energy.logsumexp(1, keepdim=True)
            shares = (energy - top).exp_()
            yield at, shares, top[:, 0] - energy.mul_(shares).sum(1)

    def reach(self, temperature: TemperatureLike) -> float:
        """The part of the negatives that the repulsion amounts to."""
        return self._part(torch.cat([entropy for _, _, entropy in self.shares(temperature)]))

    def _part(self, entropy: Tensor) -> float:
        return float(entropy.double().mean().exp()) / self.s.shape[1]

    def at(self, temperature: float) -> tuple[float, float]:
        """The reach, and the part of the repulsion on the query's own class (0 without labels)."""
        entropies, own = [], 0.0
        for at, shares, entropy in self.shares(temperature):
            entropies.append(entropy)
            if self.same is not None:
                own += float((shares * self.same[at]).sum())
        return self._part(torch.cat(entropies)), own / len(self.s)

    def profile(self, temperature: float) -> Floats:
        """The part of the repulsion that falls on each bin of similarities."""
        total: Floats = np.zeros(BINS)
        for at, shares, _ in self.shares(temperature):
            place = self.s[at].add(1).mul_(BINS / 2).clamp_(0, BINS - 1).to(torch.int64).flatten()
            total += np.bincount(place.cpu().numpy(), weights=shares.flatten().cpu().numpy(), minlength=BINS)
        return np.asarray(total / total.sum())

    def temperature_of(self, reach: float) -> float | None:
        """The τ with this reach, by bisection: the reach grows with τ. None where every τ reaches further."""
        low, high = COLDEST, HOTTEST
        if self.reach(low) >= reach or self.reach(high) <= reach:
            return None
        while high / low > 1.002:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.reach(middle) < reach else (low, middle)
        return math.sqrt(low * high)


def without(rows: Tensor, itself: Tensor) -> Tensor:
    """Each row without one of its columns: the last column takes its place."""
    rows = rows.clone()
    rows[torch.arange(len(rows), device=rows.device), itself] = rows[:, -1]
    return rows[:, :-1].contiguous()


@as_measure("recommended temperature", ("recommended",))
def recommended_temperature(subject: Any) -> Any:
    """The middle (geometric) of the temperatures that `inspect` recommends for a loss on this embedding."""
    queries = Queries(subject.embeddings, seed=subject.seed)
    low, high = queries.temperature_of(LOW), queries.temperature_of(HIGH)
    return None if low is None or high is None or queries.few else math.sqrt(low * high)
