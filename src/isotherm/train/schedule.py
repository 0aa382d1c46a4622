"""Learning rates: how they scale with the batch and change with the step. Pure functions of the step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Shape = Literal["constant", "step", "cosine", "linear"]
Scaling = Literal["none", "linear", "sqrt"]


def scaled_rate(lr: float, batch: int, scaling: Scaling) -> float:
    """The peak learning rate for this batch: linear is lr · batch/256 (Goyal et al. 2017), sqrt is lr · √batch.

    SimCLR (arXiv:2002.05709), app. B.1: 0.3 · batch/256 or 0.075 · √batch.
    """
    return lr * {"none": 1.0, "linear": batch / 256, "sqrt": math.sqrt(batch)}[scaling]


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step.

    `warmup` epochs of a straight line from 0, then a constant, half a cosine or a straight line down to `floor`, or
    steps: times `factor` from each of the `milestones` (epochs, counted from 0) on.
    """

    peak: float
    steps: int
    epoch_steps: int
    """How many of the steps an epoch has."""
    shape: Shape = "cosine"
    milestones: Sequence[int] = ()
    factor: float = 0.1
    warmup: float = 0.0
    floor: float = 0.0

    def rate(self, step: int) -> float:
        warm = round(self.warmup * self.epoch_steps)
        if step < warm:
            return self.peak * (step + 1) / warm
        if self.shape == "step":
            return self.peak * self.factor ** sum(step // self.epoch_steps >= m for m in self.milestones)
        along = (step - warm) / max(1, self.steps - warm)
        if self.shape == "cosine":
            return self.floor + (self.peak - self.floor) * (1 + math.cos(math.pi * along)) / 2
        return self.peak - (self.peak - self.floor) * along if self.shape == "linear" else self.peak
