"""Differences between two models that were asked the same: paired, with the interval that they lie in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.checks import FEWEST_SEEDS
from isotherm.files import Json
from isotherm.probes.scores import NORMAL_QUANTILE


@dataclass(frozen=True)
class Difference:
    """How much larger one number is than another, with its 95 % interval."""

    value: float
    interval: tuple[float, float]
    over: str
    """What the interval is over: seeds, items, or both."""
    enough: bool = True
    """Whether there are items, or seeds enough to tell of their spread."""

    @property
    def decided(self) -> bool:
        """Whether 0 is outside, and not by the agreement of two seeds."""
        return self.enough and (self.interval[0] > 0 or self.interval[1] < 0)

    def as_dict(self) -> Json:
        return {"value": self.value, "interval": list(self.interval), "over": self.over}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"


def paired(by_seed: Sequence[float], items: Tensor | None = None) -> Difference | None:
    r"""The mean of paired differences and its interval; None where nothing says how sure it is.

    `by_seed` is one difference per seed (the same draw, the same training seed for both), `items` one per item that
    was asked, averaged over the seeds. Both kinds of chance add up:

    .. math:: \bar d \pm \sqrt{(t_{k-1} s_k/\sqrt k)^2 + (z\, s_n/\sqrt n)^2}

    with Student's :math:`t` over the :math:`k` seeds and the normal :math:`z` over the :math:`n` items. One seed gives
    the items' part alone, no items the seeds' part alone.
    """
    from scipy.stats import t  # noqa: PLC0415 - slow to import, and needed only here

    values = torch.tensor(list(by_seed), dtype=torch.float64)
    k, n = len(values), 0 if items is None else len(items)
    squares, over = [], []
    if k > 1:
        squares.append((float(t.ppf(0.975, k - 1)) * float(values.std()) / math.sqrt(k)) ** 2)
        over.append(f"{k} seeds")
    if items is not None and n > 1:
        squares.append((NORMAL_QUANTILE * float(items.double().std()) / math.sqrt(n)) ** 2)
        over.append(f"{n:,} items")
    if not squares:
        return None
    mean, half = float(values.mean()), math.sqrt(sum(squares))
    enough = k >= FEWEST_SEEDS or (items is not None and n > 1)
    return Difference(mean, (mean - half, mean + half), " and ".join(over), enough)
