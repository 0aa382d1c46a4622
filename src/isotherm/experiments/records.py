"""The records of a study: one per run, whatever became of it, and the questions claims and figures ask of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from isotherm import files
from isotherm.experiments.claims.by_seed import averaged
from isotherm.experiments.study import Settings, Where, run_name
from isotherm.measures.measure import usable
from isotherm.train.names import METRICS

if TYPE_CHECKING:
    from isotherm.train.config import Config

Floats = NDArray[np.float64]
RECORDS = "records.jsonl"
FORMER = "former.jsonl"
"""Records of runs that a study's folder has besides those asked for: none is lost where the runs' folders are not."""
EMBEDDING = "embedding.npz"
"""What a finished run keeps of its embeddings, for maps and histograms."""
LINES = 24
"""Epochs of its training that a record keeps besides those where something was measured."""
LEFT_OUT = ("step", "lr", "seconds", "skipped", "temperature")
"""What a record does not keep of a line of metrics."""
State = Literal["finished", "failed", "planned"]


@dataclass(frozen=True)
class Measured:
    """What is known of a finished run: its folder says it, or, where that is not at hand, its record."""

    measures: Settings
    groups: tuple[str, ...] | None
    """Groups of measures that were taken; None: an early record, which does not say."""
    seconds: float
    versions: Mapping[str, str]
    fingerprint: str = ""
    """Of the data it learnt from and was judged on (`data_at_hand`); empty: not known."""
    warnings: tuple[str, ...] = ()
    """What the run said against itself at its end, such as that it has collapsed."""

    @classmethod
    def of(cls, stored: Settings) -> Measured:
        """From what measured.json holds."""
        _check_words(stored)
        versions, fingerprint = stored.get("versions", {}), str(stored.get("fingerprint", ""))
        warnings = tuple(stored.get("warnings", ()))
        groups, seconds = tuple(stored["groups"]), float(stored["seconds"])
        return cls(stored["measures"], groups, seconds, versions, fingerprint, warnings)

    def as_dict(self) -> Settings:
        """What measured.json holds."""
        return {
            "measures": dict(self.measures),
            "groups": list(self.groups or ()),
            "seconds": self.seconds,
            "versions": dict(self.versions),
            "fingerprint": self.fingerprint,
            "warnings": list(self.warnings),
        }

    def has(self, groups: Sequence[str]) -> bool:
        return self.groups is None or set(groups) <= set(self.groups)


@dataclass(frozen=True)
class Record:
    """One run of a study, and what came of it."""

    arm: str
    varied: Settings
    seed: int
    key: str
    measures: Settings
    seconds: float
    settings: Settings
    """Of the run, as they were stored: perhaps by the names of an earlier version."""
    folder: Path
    state: State = "finished"
    failure: str = ""
    """Why it failed, in a sentence."""
    groups: tuple[str, ...] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    warnings: tuple[str, ...] = ()
    training: Sequence[Settings] = ()
    """What was seen on the way (`training_of`), so that figures do not need the run's folder."""

    @property
    def name(self) -> str:
        return run_name(self.arm, self.varied, self.seed)

    @cached_property
    def point(self) -> str:
        """Its arm and the values of what is varied: runs with the same ones differ in their seeds."""
        return repr((self.arm, *self.varied.items()))

    @property
    def finished(self) -> bool:
        return self.state == "finished"

    @property
    def lack(self) -> str:
        """Why there is nothing measured of it."""
        return {"finished": "", "failed": f"failed: {self.failure}", "planned": "has not been run"}[self.state]

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

    @property
    def measured(self) -> Measured:
        return Measured(self.measures, self.groups, self.seconds, self.versions, self.fingerprint, self.warnings)

    def has(self, measure: str) -> bool:
        """Whether there is a usable value: what is not a number, or not finite, is none."""
        return self.finished and usable(self.measures.get(measure))

    def value(self, measure: str) -> float | None:
        """A number that was measured, if there is one."""
        value: Any = self.measures.get(measure) if self.finished else None
        return float(value) if usable(value) else None

    def monitored(self, measure: str) -> list[tuple[float, float]]:
        """The parts of the training after which something was seen, and what."""
        lines = self.training or training_of(self.folder)
        seen = [(float(line["epoch"]), float(line[measure])) for line in lines if usable(line.get(measure))]
        end = self.config.epochs or (lines[-1]["epoch"] if lines else 1)  # in a run of steps the last line is the end's
        return [(epoch / end, value) for epoch, value in seen]

    def as_json(self) -> str:
        """A line of records.jsonl."""
        stored = {
            "key": self.key,
            "arm": self.arm,
            "varied": dict(self.varied),
            "seed": self.seed,
            "state": self.state,
            "failure": self.failure,
            "measures": {name: value for name, value in self.measures.items() if usable(value)},
            "groups": None if self.groups is None else list(self.groups),
            "seconds": self.seconds,
            "versions": dict(self.versions),
            "fingerprint": self.fingerprint,
            "warnings": list(self.warnings),
            "config": dict(self.settings),
            "training": [dict(line) for line in self.training],
            "folder": self.folder.name,
        }
        return json.dumps(stored, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str, runs: Path) -> Record:
        """From a line of records.jsonl, whose runs lie in this folder; early lines say less, of finished runs only."""
        r = json.loads(line)
        _check_types(r)
        same = {name: r[name] for name in ("arm", "varied", "seed", "key", "measures", "seconds")}
        later = ("state", "failure", "versions", "fingerprint", "training")
        groups = None if r.get("groups") is None else tuple(r["groups"])
        more = {name: r[name] for name in later if name in r}
        warnings = tuple(r.get("warnings", ()))
        return cls(**same, **more, groups=groups, warnings=warnings, settings=r["config"], folder=runs / r["folder"])

    def is_at(self, where: Where | str) -> bool:
        if isinstance(where, str):
            return self.arm == where
        return self.arm == where.arm and all(self.varied.get(k) == v for k, v in where.varied.items())


@dataclass
class Asked:
    """What somebody wanted to know of records."""

    unanswered: dict[str, str] = field(default_factory=dict)
    points: dict[str, Where] = field(default_factory=dict)


class Records:
    """All of them. Where one arm is meant as a whole, its name will do.

    Iterating gives the finished ones; `planned` has all. What somebody looked for and could not have, because a run
    failed, was not carried out or lacks a measure, is remembered in `unanswered` by the run's name, so that nobody
    judges by what is left; which points were asked about is remembered in `points_asked`.
    """

    def __init__(self, records: Iterable[Record], asked: Asked | None = None) -> None:
        self.planned: Sequence[Record] = list(records)
        self._asked = asked or Asked()

    def __iter__(self) -> Iterator[Record]:
        for record in self.planned:
            if not record.finished:
                self.lacks(record, record.lack)
        return (record for record in self.planned if record.finished)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def unanswered(self) -> dict[str, str]:
        """Runs of which something was asked that they do not have, and why."""
        return self._asked.unanswered

    @property
    def points_asked(self) -> tuple[Where, ...]:
        """Points of which something was asked."""
        return tuple(self._asked.points.values())

    @property
    def failed(self) -> list[Record]:
        return [r for r in self.planned if r.state == "failed"]

    def afresh(self) -> Records:
        """The same, of which nothing has been asked yet."""
        return Records(self.planned)

    def reading(self, instead: Mapping[str, str]) -> Records:
        """The same, where asking for a measure gives another one (`Scale.instead`): its own value is not to be had."""
        return Records(replace(record, measures=_reading(record.measures, instead)) for record in self.planned)

    def arms(self) -> list[str]:
        return list(dict.fromkeys(r.arm for r in self.planned if r.finished))

    def where(self, **varied: Any) -> Records:
        """Those with these values of what was varied, of all arms."""
        chosen = (r for r in self.planned if all(r.varied.get(k) == v for k, v in varied.items()))
        return Records(chosen, self._asked)

    def at(self, where: Where | str) -> Records:
        """Those of one arm, at these values."""
        points = [numbers for numbers in self._points.values() if self.planned[numbers[0]].is_at(where)]
        for first in (self.planned[numbers[0]] for numbers in points):
            point = Where(first.arm, first.varied)
            self._asked.points.setdefault(point.label, point)
        numbers = points[0] if len(points) == 1 else sorted(i for each in points for i in each)
        return Records((self.planned[i] for i in numbers), self._asked)

    @cached_property
    def _points(self) -> dict[str, list[int]]:
        """Where the runs of each point stand: thousands of questions are asked of few points with many seeds."""
        points: dict[str, list[int]] = {}
        for i, record in enumerate(self.planned):
            points.setdefault(record.point, []).append(i)
        return points

    def varied(self, where: Where | str, setting: str) -> list[Any]:
        """The values that a setting has at a point, ascending."""
        return sorted({r.varied[setting] for r in self.at(where) if setting in r.varied})

    def lacks(self, record: Record, why: str) -> None:
        """Remember that a question needed something of this run that there is not."""
        self.unanswered.setdefault(record.name, why)

    def values(self, where: Where | str, measure: str) -> Iterator[tuple[Record, float]]:
        """A measure of every run at a point that has it."""
        for record in self.at(where):
            value = record.value(measure)
            if value is None:
                self.lacks(record, f"has no {measure}")
            else:
                yield record, value

    def along(
        self, where: Where | str, over: str, measure: str, seed: int | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """What was varied, ascending; the measure's mean and its standard deviation over seeds (0 for one)."""
        by: dict[float, list[float]] = {}
        for r, value in self.values(where, measure):
            if over in r.varied and (seed is None or r.seed == seed):
                by.setdefault(float(r.varied[over]), []).append(value)
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
        """A measure at a point, for every seed; where several points are meant, their mean (`averaged`)."""
        values: dict[str, dict[int, float]] = {}
        for r, value in self.values(where, measure):
            values.setdefault(r.point, {})[r.seed] = value
        return averaged(values)

    def mean(self, where: Where | str, measure: str) -> tuple[float, float, int]:
        """Mean, standard deviation (0 for one) and number of runs at a point."""
        values = list(self.by_seed(where, measure).values())
        if not values:
            return math.nan, math.nan, 0
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values)


STORED: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("arm", "key", "folder", "state", "failure", "fingerprint"), str),
    **dict.fromkeys(("varied", "measures", "config", "versions"), dict),
    **{"seed": int, "seconds": (int, float), "groups": (list, type(None)), "warnings": list, "training": list},
}
"""What a line of records.jsonl holds, by type."""


def _check_types(stored: Any) -> None:
    """Refuse what no version has written; a run's folder lies among the others."""
    for name, kind in STORED.items():
        if name in stored and not isinstance(stored[name], kind):
            raise TypeError(f"{name} is {stored[name]!r:.60}")
    if stored.get("state", "finished") not in get_args(State) or Path(stored["folder"]).name != stored["folder"]:
        raise ValueError("no state, or no folder, of a run")
    if not all(isinstance(line, dict) for line in stored.get("training", ())):
        raise TypeError("training holds lines")
    if not math.isfinite(stored.get("seconds", 0.0)):
        raise ValueError("a time without end")
    _check_words(stored)


def _check_words(stored: Settings) -> None:
    """Refuse warnings, groups and versions that are no words, and measures without names."""
    if not isinstance(stored.get("measures", {}), dict):
        raise TypeError("measures have names")
    for name in ("warnings", "groups"):
        if not all(isinstance(word, str) for word in stored.get(name) or ()):
            raise TypeError(f"{name} are words")
    if not all(isinstance(word, str) for word in stored.get("versions", {}).values()):
        raise TypeError("versions are words")


def _reading(measures: Settings, instead: Mapping[str, str]) -> Settings:
    others = {name: value for name, value in measures.items() if name not in instead}
    return others | {name: measures[other] for name, other in instead.items() if other in measures}


def training_of(folder: Path) -> list[Settings]:
    """What a run's folder has of its training: the mean loss and what was measured, by epoch, few digits and lines."""
    path = folder / METRICS
    epochs = [
        {name: rounded(value) for name, value in line.items() if name not in LEFT_OUT and usable(value)}
        for line in _epoch_lines(path)
    ]
    every = max(1, -(-len(epochs) // LINES))
    last = len(epochs) - 1
    return [e for i, e in enumerate(epochs) if (last - i) % every == 0 or e.keys() - {"epoch", "loss_mean"}]


def _epoch_lines(path: Path) -> Iterator[Settings]:
    """The lines of metrics about whole epochs; of a million others none is read, nor kept."""
    if not path.exists():
        return
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if '"loss_mean"' in line and isinstance(entry := json.loads(line), dict):
                    yield entry
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: a line of it is no JSON. Bring it back.") from error


def rounded(value: Any, digits: int = 4) -> Any:
    """With so many digits, what a figure shows of it."""
    if isinstance(value, Mapping):
        return {name: rounded(each, digits) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each, digits) for each in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def as_lines(records: Iterable[Record]) -> str:
    """What records.jsonl holds."""
    return "".join(f"{record.as_json()}\n" for record in records)


def stored(path: Path, runs: Path) -> list[Record]:
    """The records of a file, if there is one; a ValueError if it is damaged."""
    try:
        return [Record.from_json(line, runs) for line in files.lines(path)] if path.exists() else []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path} is damaged or empty; the command that made the study writes it again.") from None


def read(folder: Path) -> Records:
    """The records a study's folder holds."""
    path = folder / RECORDS
    if not path.exists():
        raise ValueError(f"{folder} holds no study: it has no {RECORDS}. `isotherm study NAME --out {folder}`.")
    records = stored(path, folder / "runs")
    if not records:
        raise ValueError(f"{path} is damaged or empty; the command that made the study writes it again.")
    return Records(records)
