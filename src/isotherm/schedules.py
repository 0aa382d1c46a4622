"""Temperatures that change over the epochs of training; `isotherm.temperature` has them by name.

All are of Kukleva et al. 2023 (arXiv:2303.13664), who propose the cosine and compare it with the others.
Use: ``loss.temperature = schedule.at(epoch)``, or `isotherm train --loss.temperature '{name: CosineSchedule, …}'`.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from isotherm.checks import at_least, positive


def temperature_range(tau_min: float, tau_max: float) -> None:
    if positive("tau_min", tau_min) > positive("tau_max", tau_max):
        raise ValueError(f"tau_min must not exceed tau_max, got {tau_min} and {tau_max}.")


@dataclass(frozen=True)
class Schedule:
    """A temperature between tau_min and tau_max for each epoch."""

    tau_min: float = 0.1
    tau_max: float = 1.0

    def __post_init__(self) -> None:
        temperature_range(self.tau_min, self.tau_max)

    def at(self, epoch: float) -> float:
        """The temperature of this epoch."""
        return self.tau_min + (self.tau_max - self.tau_min) * self._height(epoch)

    def _height(self, epoch: float) -> float:
        """How far up from tau_min (0) to tau_max (1)."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Periodic(Schedule):
    """One that comes round every `period` epochs."""

    period: float = 400.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("period", self.period)


@dataclass(frozen=True)
class CosineSchedule(_Periodic):
    r"""A temperature that swings between τ₊ and τ₋ over the epochs of training.

    .. math:: \tau(e) = \tau_- + \tfrac12 (\tau_+ - \tau_-)\,(1 + \cos(2 \pi e / T))

    Kukleva et al. 2023 (arXiv:2303.13664), the baseline of DySTreSS's long-tail Tables 4 and 5. Starts at τ₊,
    and is at τ₋ after half a period T. The authors' code counts half periods: its ``t_max`` of 200 is T = 400.
    """

    def _height(self, epoch: float) -> float:
        return (1 + math.cos(2 * math.pi * epoch / self.period)) / 2


@dataclass(frozen=True)
class LinearSchedule(_Periodic):
    r"""A temperature that goes in straight lines from τ₊ to τ₋ and back over the epochs.

    .. math:: \tau(e) = \tau_- + (\tau_+ - \tau_-)\,\left|1 - 2\,(e/T \bmod 1)\right|

    Kukleva et al. 2023 (arXiv:2303.13664), among the alternatives to the cosine ("oscil"), with its
    turning points.
    """

    def _height(self, epoch: float) -> float:
        return abs(1 - 2 * (epoch / self.period % 1))


@dataclass(frozen=True)
class StepSchedule(_Periodic):
    r"""A temperature that is τ₋ for half a period of epochs, then τ₊ for the other half.

    .. math:: \tau(e) = \tau_- \text{ where } e/T \bmod 1 < \tfrac12, \text{ else } \tau_+

    Kukleva et al. 2023 (arXiv:2303.13664), among the alternatives to the cosine ("step"): from low to
    high and back, every T/2 = 200 epochs.
    """

    def _height(self, epoch: float) -> float:
        return float(epoch / self.period % 1 >= 0.5)


@dataclass(frozen=True)
class RandomSchedule(Schedule):
    r"""A temperature that is drawn for every epoch anew, all between τ₋ and τ₊ alike.

    .. math:: \tau(e) \sim \mathcal{U}(\tau_-, \tau_+)

    Kukleva et al. 2023 (arXiv:2303.13664), among the alternatives to the cosine ("rand"). The paper does
    not say how often it draws; here once per epoch, the same for the same `seed` and epoch.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, seed=self.seed)

    def _height(self, epoch: float) -> float:
        return random.Random(f"{self.seed} {math.floor(epoch)}").random()
