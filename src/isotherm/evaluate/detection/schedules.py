"""How a detector is fine-tuned on each kind of set: the papers' schedules, and one of minutes for drawn scenes.

CACR (arXiv:2105.03746), C.2, follows MoCo (He et al. 2020, arXiv:1911.05722): Faster R-CNN R50-C4 for 24,000 steps on
VOC 07+12, Mask R-CNN R50-C4 for 90,000 steps ("1×") on COCO; batches of 16 images, SGD at 0.02 with momentum 0.9 and
weight decay 0.0001, a tenth of the rate twice. Steps, warm-up and sizes that the papers do not print are those of
MoCo's detectron2 configurations (detection/configs) and of detectron2's defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from isotherm.checks import at_least, one_of, positive
from isotherm.data.scenes.drawn import EDGE

Shape = Literal["c4", "fpn"]
BATCH, RATE = 16, 0.02
"""The papers'; another batch has a rate in proportion, unless one is given."""


@dataclass(frozen=True)
class Schedule:
    """Everything that is chosen about a fine-tuning besides the encoder and the seed."""

    shape: Shape
    """c4: the fifth stage works on every region; fpn: a pyramid of all stages, two layers per region."""
    masks: bool
    """Mask R-CNN instead of Faster R-CNN."""
    steps: int
    milestones: tuple[int, ...]
    """Steps after which the rate is a tenth."""
    warmup: int
    """Steps in which the rate grows from a thousandth."""
    edges: tuple[int, ...]
    """Shorter edges of training images, one drawn for each; the last one is the test images'."""
    longest: int
    """Longer edge, at most."""
    flip: bool
    """Mirror half of the training images."""
    batch: int = BATCH
    rate: float = RATE
    momentum: float = 0.9
    weight_decay: float = 1e-4
    """Not of batch normalization."""
    regions: int = 512
    """Of each image that the second stage learns from."""
    proposals: int = 1000
    """Of each image that the first stage hands on, in tests; in training twice as many."""
    width: int = 256
    """Channels of the pyramid; the layers per region are four times as wide."""
    statistics: int = 200
    """Batches that the means and variances of batch normalization are taken over at the end (precise BN)."""


VOC = Schedule("c4", False, 24_000, (18_000, 22_000), 100, tuple(range(480, 801, 32)), 1333, True)
COCO = Schedule("c4", True, 90_000, (60_000, 80_000), 1000, tuple(range(640, 801, 32)), 1333, True)
SCENES = Schedule(
    *("fpn", False, 300, (225, 275), 20, (EDGE,), EDGE, False),
    batch=8, rate=0.02, regions=64, proposals=100, width=64, statistics=20,
)  # fmt: skip
"""Digits are not mirrored."""
SCHEDULES = {"voc": VOC, "coco": COCO, "scenes": SCENES}


def changed(
    schedule: Schedule,
    shape: str | None = None,
    masks: bool | None = None,
    steps: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
) -> Schedule:
    """The schedule with what was typed: milestones and warm-up in proportion to the steps, the rate to the batch."""
    at_least(1, steps=steps, batch=batch)
    if steps is not None:
        part = steps / schedule.steps
        schedule = replace(
            schedule,
            steps=steps,
            milestones=tuple(round(m * part) for m in schedule.milestones),
            warmup=min(schedule.warmup, round(steps / 10)),
            statistics=min(schedule.statistics, steps),
        )
    if batch is not None:
        schedule = replace(schedule, batch=batch, rate=schedule.rate * batch / schedule.batch)
    if rate is not None:
        schedule = replace(schedule, rate=positive("lr", rate))
    if shape is not None:
        one_of("detector", shape, get_args(Shape))
        schedule = replace(schedule, shape=shape)  # type: ignore[arg-type]
    return schedule if masks is None else replace(schedule, masks=masks)


def rate_at(schedule: Schedule, step: int) -> float:
    """The learning rate of a step, counted from 0."""
    rate = schedule.rate * 0.1 ** sum(step >= m for m in schedule.milestones)
    if step < schedule.warmup:
        done = step / schedule.warmup
        rate *= 0.001 * (1 - done) + done
    return rate
