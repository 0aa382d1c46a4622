"""Temperatures that change over the epochs of training; `isotherm.temperature` has them by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isotherm.checks import positive


def temperature_range(tau_min: float, tau_max: float) -> None:
    if positive("tau_min", tau_min) > positive("tau_max", tau_max):
        raise ValueError(f"tau_min must not exceed tau_max, got {tau_min} and {tau_max}.")


@dataclass(frozen=True)
class CosineSchedule:
    r"""A temperature that swings between τ₊ and τ₋ over the epochs of training.

    .. math:: \tau(e) = \tau_- + \tfrac12 (\tau_+ - \tau_-)\,(1 + \cos(2 \pi e / T))

    Kukleva et al. 2023 (arXiv:2303.13664), the baseline of DySTreSS's long-tail Tables 4 and 5.
    Use: ``loss.temperature = schedule.at(epoch)``.
    """

    tau_min: float = 0.1
    tau_max: float = 1.0
    period: float = 400.0

    def __post_init__(self) -> None:
        temperature_range(self.tau_min, self.tau_max)
        positive("period", self.period)

    def at(self, epoch: float) -> float:
        """The temperature of this epoch; starts at tau_max."""
        swing = 1 + math.cos(2 * math.pi * epoch / self.period)
        return self.tau_min + (self.tau_max - self.tau_min) / 2 * swing
