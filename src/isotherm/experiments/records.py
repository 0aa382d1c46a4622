"""The records of a study: one per run, and the questions claims and figures ask of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Record:
    """What came out of one run."""

    arm: str
    varied: Mapping[str, Any]
    seed: int
    key: str
    measures: Mapping[str, Any]
    seconds: float
    config: Mapping[str, Any]
    folder: Path

    def monitored(self) -> list[dict[str, Any]]:
        """What was seen during training, a line per epoch."""
        path = self.folder / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if "loss_mean" in line]

    def as_dict(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "arm": self.arm,
            "varied": dict(self.varied),
            "seed": self.seed,
            "measures": dict(self.measures),
            "seconds": self.seconds,
            "config": dict(self.config),
            "folder": self.folder.name,
        }


class Records:
    """All of them."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def arms(self) -> list[str]:
        return list(dict.fromkeys(r.arm for r in self.records))

    def where(self, **varied: Any) -> Records:
        """Those with these values of what was varied."""
        return Records(r for r in self.records if all(r.varied.get(k) == v for k, v in varied.items()))

    def along(self, arm: str, over: str, measure: str, seed: int | None = None) -> tuple[Floats, Floats, Floats]:
        """What was varied, ascending; the measure's mean and its standard deviation over seeds (0 for one)."""
        by: dict[float, list[float]] = {}
        for r in self.records:
            if r.arm == arm and over in r.varied and measure in r.measures and (seed is None or r.seed == seed):
                by.setdefault(float(r.varied[over]), []).append(float(r.measures[measure]))
        x = np.array(sorted(by))
        means = np.array([np.mean(by[v]) for v in x])
        deviations = np.array([np.std(by[v], ddof=1) if len(by[v]) > 1 else 0.0 for v in x])
        return x, means, deviations

    def seeds(self, arm: str) -> list[int]:
        return sorted({r.seed for r in self.records if r.arm == arm})

    def one(self, arm: str, varied: Mapping[str, Any], seed: int = 0) -> Record | None:
        """A single run."""
        for r in self.records:
            if r.arm == arm and r.seed == seed and all(r.varied.get(k) == v for k, v in varied.items()):
                return r
        return None

    def by_seed(self, arm: str, measure: str, varied: Mapping[str, Any] | None = None) -> dict[int, float]:
        """A measure at a point, for every seed (the mean where several runs are meant)."""
        wanted = varied or {}
        found: dict[int, list[float]] = {}
        for r in self.records:
            if r.arm == arm and measure in r.measures and all(r.varied.get(k) == v for k, v in wanted.items()):
                found.setdefault(r.seed, []).append(float(r.measures[measure]))
        return {seed: float(np.mean(values)) for seed, values in found.items()}

    def mean(self, arm: str, measure: str, varied: Mapping[str, Any] | None = None) -> tuple[float, float, int]:
        """Mean, standard deviation and number of runs at a point."""
        values = list(self.by_seed(arm, measure, varied).values())
        if not values:
            return math.nan, math.nan, 0
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values)


def read(folder: Path) -> Records:
    """The records a study's folder holds."""
    path = folder / "records.jsonl"
    if not path.exists():
        raise ValueError(f"{folder} holds no study: it has no records.jsonl. `isotherm study NAME --out {folder}`.")
    made = []
    names = ("arm", "varied", "seed", "key", "measures", "seconds", "config")
    try:
        for line in path.read_text().splitlines():
            r = json.loads(line)
            made.append(Record(**{name: r[name] for name in names}, folder=folder / "runs" / r["folder"]))
    except (ValueError, KeyError, TypeError):
        made = []
    if not made:
        raise ValueError(f"{path} is damaged or empty; the command that made the study writes it again.")
    return Records(made)
