"""The records of a study: one per run, and the questions claims and figures ask of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isotherm.experiments.study import Settings, Where

if TYPE_CHECKING:
    from isotherm.train.config import Config

Floats = NDArray[np.float64]
RECORDS = "records.jsonl"
EMBEDDING = "embedding.npz"
"""What a finished run keeps of its embeddings, for maps and histograms."""


@dataclass(frozen=True)
class Measured:
    """What a finished run has in its folder."""

    measures: Settings
    groups: tuple[str, ...]
    """Groups of measures that were taken."""
    seconds: float
    versions: Mapping[str, str]

    @classmethod
    def of(cls, stored: Settings) -> Measured:
        """From what measured.json holds."""
        versions = stored.get("versions", {})
        return cls(stored["measures"], tuple(stored["groups"]), float(stored["seconds"]), versions)

    def as_dict(self) -> Settings:
        """What measured.json holds."""
        return {
            "measures": dict(self.measures),
            "groups": list(self.groups),
            "seconds": self.seconds,
            "versions": dict(self.versions),
        }


@dataclass(frozen=True)
class Record:
    """What came out of one run."""

    arm: str
    varied: Settings
    seed: int
    key: str
    measures: Settings
    seconds: float
    settings: Settings
    """Of the run, as they were stored: perhaps by the names of an earlier version."""
    folder: Path

    @cached_property
    def config(self) -> Config:
        """The settings by today's names."""
        from isotherm.train.config import Config
        from isotherm.train.layers import FORMER

        known = {f.name for f in fields(Config)}
        settings = {FORMER.get(name, name): value for name, value in self.settings.items()}
        return Config(**{name: value for name, value in settings.items() if name in known})

    @property
    def embedding(self) -> Path:
        return self.folder / EMBEDDING

    def monitored(self) -> list[Settings]:
        """What was seen during training, a line per epoch."""
        path = self.folder / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if "loss_mean" in line]

    def as_json(self) -> str:
        """A line of records.jsonl."""
        stored = {
            "key": self.key,
            "arm": self.arm,
            "varied": dict(self.varied),
            "seed": self.seed,
            "measures": dict(self.measures),
            "seconds": self.seconds,
            "config": dict(self.settings),
            "folder": self.folder.name,
        }
        return json.dumps(stored)

    @classmethod
    def from_json(cls, line: str, runs: Path) -> Record:
        """From a line of records.jsonl, whose runs lie in this folder."""
        r = json.loads(line)
        same = {name: r[name] for name in ("arm", "varied", "seed", "key", "measures", "seconds")}
        return cls(**same, settings=r["config"], folder=runs / r["folder"])

    def is_at(self, where: Where | str) -> bool:
        if isinstance(where, str):
            return self.arm == where
        return self.arm == where.arm and all(self.varied.get(k) == v for k, v in where.varied.items())


class Records:
    """All of them. Where one arm is meant as a whole, its name will do."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def arms(self) -> list[str]:
        return list(dict.fromkeys(r.arm for r in self.records))

    def where(self, **varied: Any) -> Records:
        """Those with these values of what was varied, of all arms."""
        return Records(r for r in self.records if all(r.varied.get(k) == v for k, v in varied.items()))

    def at(self, where: Where | str) -> Records:
        """Those of one arm, at these values."""
        return Records(r for r in self.records if r.is_at(where))

    def along(
        self, where: Where | str, over: str, measure: str, seed: int | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """What was varied, ascending; the measure's mean and its standard deviation over seeds (0 for one)."""
        by: dict[float, list[float]] = {}
        for r in self.at(where):
            if over in r.varied and measure in r.measures and (seed is None or r.seed == seed):
                by.setdefault(float(r.varied[over]), []).append(float(r.measures[measure]))
        x = np.array(sorted(by))
        means = np.array([np.mean(by[v]) for v in x])
        deviations = np.array([np.std(by[v], ddof=1) if len(by[v]) > 1 else 0.0 for v in x])
        return x, means, deviations

    def seeds(self, arm: str) -> list[int]:
        return sorted({r.seed for r in self.at(arm)})

    def one(self, where: Where | str, seed: int = 0) -> Record | None:
        """A single run."""
        return next((r for r in self.at(where) if r.seed == seed), None)

    def by_seed(self, where: Where | str, measure: str) -> dict[int, float]:
        """A measure at a point, for every seed (the mean where several runs are meant)."""
        values: dict[int, list[float]] = {}
        for r in self.at(where):
            if measure in r.measures:
                values.setdefault(r.seed, []).append(float(r.measures[measure]))
        return {seed: float(np.mean(each)) for seed, each in values.items()}

    def mean(self, where: Where | str, measure: str) -> tuple[float, float, int]:
        """Mean, standard deviation and number of runs at a point."""
        values = list(self.by_seed(where, measure).values())
        if not values:
            return math.nan, math.nan, 0
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values)


def read(folder: Path) -> Records:
    """The records a study's folder holds."""
    path = folder / RECORDS
    if not path.exists():
        raise ValueError(f"{folder} holds no study: it has no {RECORDS}. `isotherm study NAME --out {folder}`.")
    try:
        records = [Record.from_json(line, folder / "runs") for line in path.read_text().splitlines()]
    except (ValueError, KeyError, TypeError):
        records = []
    if not records:
        raise ValueError(f"{path} is damaged or empty; the command that made the study writes it again.")
    return Records(records)
