"""What a suite says about a model: a value per set, probe and seed, and which items were right; kept as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotherm import __version__
from isotherm.evaluate.assessment import Table
from isotherm.evaluate.suite import TITLES
from isotherm.files import Json, text_of
from isotherm.inspect.health import Health


@dataclass(frozen=True)
class Measured:
    """One probe on one set: a value per seed, and which test items were right."""

    set: str
    probe: str
    metric: str
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    asked: str
    """What tells one choice of test items from another."""
    right: tuple[str, ...] = ()
    """Per seed, a bit per test item, packed; empty where items are not right or wrong by themselves."""
    weights: str = ""
    """What an item counts where not all count the same: float32."""
    n: int = 0
    notes: tuple[str, ...] = ()
    shots: int | None = None
    """Training images per class; None: all."""
    epochs: int | None = None
    """Of fine-tuning."""

    def __post_init__(self) -> None:
        numbers = all(isinstance(v, float | int) for v in self.values) and all(isinstance(s, int) for s in self.seeds)
        if not self.values or len(self.values) != len(self.seeds) or not numbers or self.metric not in TITLES:
            raise ValueError("a value for each seed, by a metric that is known, is wanted")
        if self.right and (len(self.right) != len(self.values) or self.n > 8 * min(map(len, self.right))):
            raise ValueError("a bit for each test item is wanted, for each seed")

    def like(self, other: Measured) -> bool:
        """Whether the two can be compared: of the same items, asked alike."""
        same = all(getattr(self, name) == getattr(other, name) for name in ("metric", "seeds", "shots", "epochs"))
        return same and same_items(self.asked, other.asked)

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    def items(self) -> Tensor | None:
        """What each item adds to the value, per seed: (seeds, n)."""
        if not self.right:
            return None
        bits = [np.unpackbits(np.frombuffer(base64.b64decode(r), np.uint8), count=self.n) for r in self.right]
        right = torch.from_numpy(np.stack(bits)).double()
        if self.weights:
            right = right * torch.from_numpy(np.frombuffer(base64.b64decode(self.weights), np.float32).copy()).double()
        return right

    def as_dict(self) -> Json:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}

    @staticmethod
    def packed(right: Sequence[Tensor]) -> tuple[str, ...]:
        """Which items were right, as `right` holds it."""
        return tuple(base64.b64encode(np.packbits(r.numpy()).tobytes()).decode() for r in right)

    @staticmethod
    def weighed(weights: Tensor) -> str:
        """What items count, as `weights` holds it."""
        return base64.b64encode(weights.float().numpy().tobytes()).decode()

    @classmethod
    def from_dict(cls, said: Json) -> Measured:
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in said.items()}
        return cls(**given)


def same_items(one: str, other: str) -> bool:
    """Whether two were asked of the same items, as far as both say: pixels of other sizes cannot be held together."""
    parts = [[part.partition("@")[::2] for part in asked.split("-")] for asked in (one, other)]
    if len(parts[0]) != len(parts[1]):
        return False
    for (items, shown), (others, shown_there) in zip(*parts, strict=True):
        size, _, pixels = shown.partition("=")
        size_there, _, pixels_there = shown_there.partition("=")
        if items != others or (size == size_there and pixels != pixels_there):
            return False
    return True


@dataclass(frozen=True)
class Suited:
    """What a suite says about a model: what was measured, and which sets were skipped, and why."""

    suite: str
    model: str
    measured: tuple[Measured, ...]
    skipped: tuple[tuple[str, str], ...]
    unfinished: str = ""
    notes: tuple[str, ...] = ()

    @property
    def health(self) -> Health | None:
        return None

    def tables(self) -> list[Table]:
        probes = list(dict.fromkeys(m.probe for m in self.measured))
        by = {(m.set, m.probe): m for m in self.measured}
        rows = []
        for name in dict.fromkeys(m.set for m in self.measured):
            cells = [_cell(by.get((name, probe))) for probe in probes]
            metric = next(m.metric for m in self.measured if m.set == name)
            rows.append((name, TITLES[metric], *cells))
        if rows:
            means = [[m.mean for m in self.measured if m.probe == probe] for probe in probes]
            rows.append(("mean", f"{len(rows)} sets", *(f"{100 * sum(m) / len(m):.2f}" for m in means)))
        return [Table(("set", "metric", *probes), tuple(rows))]

    def lines(self) -> list[str]:
        lines = [*self.notes, *(f"{m.set}, {m.probe}: {note}" for m in self.measured for note in m.notes)]
        if self.skipped:
            lines.append(f"{len(self.skipped)} sets skipped: {', '.join(name for name, _ in self.skipped)}")
        return lines + [f"{name}: {why}" for name, why in self.skipped]

    def as_dict(self) -> Json:
        return {
            "isotherm": __version__,
            "suite": self.suite,
            "model": self.model,
            "unfinished": self.unfinished,
            "notes": list(self.notes),
            "measured": [m.as_dict() for m in self.measured],
            "skipped": [list(each) for each in self.skipped],
        }


def _cell(measured: Measured | None) -> str:
    if measured is None:
        return "–"
    spread = "" if len(measured.values) < 2 else f" ± {100 * float(np.std(measured.values, ddof=1)):.2f}"
    return f"{100 * measured.mean:.2f}{spread}"


def read_suited(path: Path) -> Suited:
    """What `--json` wrote."""
    try:
        said = json.loads(text_of(path))
        measured = tuple(Measured.from_dict(m) for m in said["measured"])
        skipped = tuple((str(a), str(b)) for a, b in said["skipped"])
        return Suited(said["suite"], said["model"], measured, skipped, said["unfinished"], tuple(said["notes"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no result of `isotherm evaluate --suite … --json`.") from error
