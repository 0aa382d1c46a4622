"""`isotherm robustness`: what pretraining on unequal classes costs (CACR, Tables 2 and 5; DySTreSS, Tables 4 to 7).

Each loss learns once from the whole set and once from a part of it with unequal classes, with the same seeds; both
encoders are then probed on the whole, balanced set. The drop is paired, by seed and by test image.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from isotherm.evaluate.assessment import Note, Table
from isotherm.evaluate.models import Model, open_model
from isotherm.evaluate.paired import Difference, paired
from isotherm.evaluate.targets import Target, open_target
from isotherm.files import Json
from isotherm.probes.extract import count_classes
from isotherm.probes.knn import knn_votes
from isotherm.probes.linear import chosen
from isotherm.train.commandline import parse
from isotherm.train.config import Config, Runtime
from isotherm.train.loop import train
from isotherm.train.modality.images import images_of

REGULAR = "none"
NEIGHBOURS = 20


@dataclass(frozen=True)
class Plan:
    """What is trained, and what it is judged on."""

    out: Path
    settings: tuple[str, ...] = ()
    """Of every run, as `isotherm train` takes them."""
    losses: tuple[str, ...] = ("NTXentLoss",)
    imbalances: tuple[str, ...] = ("linear", "exponential")
    seeds: tuple[int, ...] = (0, 1, 2)
    on: str | None = None
    """The balanced set that is probed; None: that which was learnt from, whole."""
    probe: Literal["linear", "knn"] = "linear"
    equal: bool = False
    """Whether the regular runs learn from as few images as the unequal ones: then only the inequality differs."""

    def check(self) -> None:
        if not (self.losses and self.imbalances and self.seeds):
            raise ValueError("robustness needs at least one loss, one imbalance and one seed.")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"each seed is one run: {', '.join(map(str, self.seeds))} names one twice.")
        if REGULAR in self.imbalances:
            raise ValueError(f"'{REGULAR}' is what the others are compared with; name imbalances only.")


@dataclass(frozen=True, eq=False)
class Row:
    """One loss under one imbalance."""

    loss: str
    imbalance: str
    regular: tuple[float, ...]
    """Accuracy per seed."""
    unequal: tuple[float, ...]
    drop: Difference | None
    images: tuple[int, int]
    """How many images were learnt from: regular, unequal."""
    lost: Tensor = field(repr=False)
    """Per seed and test image: right after regular pretraining, and not after the other."""
    against_first: Difference | None = None
    """How much more it loses than the first loss does; None for that one itself."""


@dataclass(frozen=True, eq=False)
class Robustness:
    """The drops of all losses."""

    on: str
    probe: str
    rows: tuple[Row, ...]

    def tables(self) -> list[Table]:
        heads = ("loss", "pretrained on", "images", "regular", "unequal", "drop (95 %)", "more than the first (95 %)")
        rows = [
            (
                row.loss,
                row.imbalance,
                f"{row.images[0]:,} → {row.images[1]:,}",
                f"{100 * _mean(row.regular):.2f}",
                f"{100 * _mean(row.unequal):.2f}",
                _told(row.drop, _mean(row.regular) - _mean(row.unequal)),
                "" if row.against_first is None else _told(row.against_first, row.against_first.value),
            )
            for row in self.rows
        ]
        return [Table(heads, tuple(rows))]

    def lines(self) -> list[str]:
        seeds = len(self.rows[0].regular)
        return [
            f"Accuracy (%) of the {self.probe} probe on {self.on}, whole and balanced, mean of {seeds} seeds. Drops "
            "are paired by seed and test image; those whose interval excludes 0 are decided (*)."
        ]

    def as_dict(self) -> Json:
        return {
            "on": self.on,
            "probe": self.probe,
            "rows": [
                {
                    "loss": row.loss,
                    "imbalance": row.imbalance,
                    "images": list(row.images),
                    "regular": list(row.regular),
                    "unequal": list(row.unequal),
                    "drop": None if row.drop is None else row.drop.as_dict(),
                    "against_first": None if row.against_first is None else row.against_first.as_dict(),
                }
                for row in self.rows
            ],
        }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _told(difference: Difference | None, value: float) -> str:
    return f"{100 * value:+.2f}" if difference is None else f"{difference}{' *' if difference.decided else ''}"


def run_robustness(plan: Plan, note: Note = lambda stage, detail: None) -> Robustness:
    """Train what is not trained yet, probe all of it, and pair it."""
    plan.check()
    arms = Arms(plan, note)
    rows: list[Row] = []
    for imbalance in plan.imbalances:
        for loss in plan.losses:
            pairs = [arms.pair(loss, imbalance, seed) for seed in plan.seeds]
            regular, unequal = (torch.stack([pair[side] for pair in pairs]) for side in (0, 1))
            lost = regular - unequal
            drop = paired(lost.mean(1).tolist(), lost.mean(0))
            first = next((r for r in rows if r.imbalance == imbalance), None)
            more = None if first is None else lost - first.lost
            sizes = arms.sizes[imbalance]
            against = None if more is None else paired(more.mean(1).tolist(), more.mean(0))
            means = tuple(regular.mean(1).tolist()), tuple(unequal.mean(1).tolist())
            rows.append(Row(loss, imbalance, *means, drop, sizes, lost, against))
    return Robustness(arms.on or "", plan.probe, tuple(rows))


class Arms:
    """The runs of a plan: each is trained once, probed once."""

    def __init__(self, plan: Plan, note: Note) -> None:
        self.plan, self.note = plan, note
        self.on = plan.on
        self.options: Mapping[str, Any] = {}
        """Of the data, where it is the runs' own."""
        self.sizes: dict[str, tuple[int, int]] = {}
        self._right: dict[Path, Tensor] = {}
        self._targets: dict[tuple[int, int], Target] = {}

    def pair(self, loss: str, imbalance: str, seed: int) -> tuple[Tensor, Tensor]:
        """Which test images are right after regular and after unequal pretraining: 1 and 0."""
        unequal, regular = {"imbalance": imbalance}, {"imbalance": REGULAR}
        if imbalance not in self.sizes:  # neither the loss nor the seed changes how many there are
            configs = [self._parsed(loss, seed, more, self.plan.out)[0] for more in (regular, unequal)]
            whole, part = (len(images_of(config, config.split)) for config in configs)
            self.sizes[imbalance] = (part if self.plan.equal else whole), part
            if self.on is None:
                self.on = configs[0].data
                self.options = {
                    k: v for k, v in configs[0].data_options.items() if k != "code"
                }  # ours, not the source's
                if configs[0].randbit or configs[0].digits:
                    raise ValueError("robustness is probed on plain images; leave --randbit and --digits out.")
        if self.plan.equal:
            regular["images"] = str(self.sizes[imbalance][1])
        return self.right(loss, seed, regular), self.right(loss, seed, unequal)

    def right(self, loss: str, seed: int, more: Mapping[str, str]) -> Tensor:
        """Of one run, which is trained or continued if need be."""
        name = "-".join([loss, *(f"{k}-{v}" for k, v in more.items()), f"seed-{seed}"])
        plain = re.sub(r"[^\w.-]+", "-", name)
        digest = hashlib.sha256(loss.encode()).hexdigest()[:8]  # x/y.py:L and x-y.py:L are two losses
        out = self.plan.out / "runs" / (plain if plain == name else f"{plain}-{digest}")
        if out not in self._right:
            self.note(f"training {name}", "")
            config, place, _ = self._parsed(loss, seed, more, out)
            train(config, place)
            self.note(f"probing {name}", "")
            self._right[out] = self._probed(open_model(str(out)))
        return self._right[out]

    def _parsed(self, loss: str, seed: int, more: Mapping[str, str], out: Path) -> tuple[Config, Runtime, bool]:
        words = [
            *self.plan.settings,
            "--loss",
            loss,
            "--seed",
            str(seed),
            "--out",
            str(out),
            "--resume",
            "--quiet",
            "true",
        ]
        return parse([*words, *(word for key, value in more.items() for word in (f"--{key}", value))])

    def _probed(self, model: Model) -> Tensor:
        key = model.channels, model.size
        if key not in self._targets:
            assert self.on is not None
            self._targets[key] = open_target(self.on, model, options=self.options)
        target = self._targets[key]
        x, asked = target.features(model, "train"), target.features(model, "test")
        labels, classes = target.train.labels, len(target.train.classes) or None
        total = count_classes(labels, target.test.labels, classes)
        if self.plan.probe == "knn":
            logits = knn_votes(x, labels, asked, min(NEIGHBOURS, len(x)), total)
        else:
            logits = chosen(x, labels, total, None, 0.1, 0)[0](asked)
        return (logits.argmax(1) == target.test.labels).double()
