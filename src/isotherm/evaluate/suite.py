"""A suite: sets to judge encoders on, each with its metric and how many labels are given; as data or a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from isotherm import doors
from isotherm.checks import at_least, did_you_mean, known_settings, one_of
from isotherm.data.sets import FORMATS, SETS
from isotherm.train import outside_data
from isotherm.train.layers import read_yaml

Metric = Literal["accuracy", "mean-per-class", "roc-auc", "11-point-map"]
TITLES = {
    "accuracy": "accuracy",
    "mean-per-class": "mean per class",
    "roc-auc": "ROC AUC",
    "11-point-map": "11-point mAP",
}
Probe = Literal["knn", "linear", "finetune"]
SHOTS, SEEDS = 5, (0, 1, 2)


@dataclass(frozen=True)
class Entry:
    """One set of a suite."""

    name: str
    data: str
    """As `--on` takes it."""
    metric: Metric = "accuracy"
    classes: int | None = None
    train: int | None = None
    test: int | None = None
    where: str = ""
    """Where to get it, and in which form it is read."""
    shots: int | None = SHOTS
    """Labelled images per class; None: all."""

    @property
    def missing(self) -> str:
        """Why it cannot be run here; empty if it can."""
        form, colon, path = self.data.partition(":")
        if colon and form in FORMATS:
            return "" if Path(path).expanduser().exists() else f"{path} is not there. {self.where}".strip()
        if self.data in SETS:
            entry = SETS[self.data]
            return "" if entry.there() else f"not in {entry.place()}. {entry.advice}"
        if outside_data.data_address(self.data) is not None:
            return ""
        return f"no set '{self.data}'{did_you_mean(self.data, [*SETS, *(f'{f}:PATH' for f in FORMATS)])}"


@dataclass(frozen=True)
class Suite:
    """Sets, probes and seeds."""

    name: str
    entries: tuple[Entry, ...]
    probes: tuple[Probe, ...] = ("linear", "finetune")
    seeds: tuple[int, ...] = SEEDS
    epochs: int = 50
    """Of fine-tuning."""

    def check(self) -> None:
        """Refuse what cannot be run."""
        if not self.entries:
            raise ValueError(f"suite {self.name} names no sets.")
        for probe in self.probes:
            one_of("probes", probe, get_args(Probe))
        for entry in self.entries:
            one_of(f"{entry.name}: metric", entry.metric, get_args(Metric))
            at_least(1, **{f"{entry.name}: shots": entry.shots})
        names = [entry.name for entry in self.entries]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise ValueError(f"suite {self.name} has two sets called '{twice}'; give them a name each.")
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise ValueError(f"suite {self.name}: seeds must be different, got {list(self.seeds)}.")
        at_least(1, epochs=self.epochs)


def read_suite(path: Path) -> Suite:
    """A suite from a YAML file: sets (a name, or data with metric, shots, name), probes, seeds, shots, epochs."""
    if not path.is_file():
        raise ValueError(f"no file {path}; --suite takes a suite's name or a YAML file.")
    said = read_yaml(path)
    known_settings(str(path), said, ["name", "sets", "probes", "seeds", "shots", "epochs"])
    if not isinstance(said.get("sets"), list):
        raise ValueError(f"{path}: 'sets' must list the sets, such as: sets: [cifar100, mnist].")
    shots = _shots(said.get("shots", SHOTS), path)
    entries = tuple(_entry(each, shots, path) for each in said["sets"])
    doors.refuse_strangers([entry.data for entry in entries], path)
    suite = Suite(str(said.get("name", path.stem)), entries)
    for key, kind in (("probes", str), ("seeds", int)):
        value = said.get(key, list(getattr(suite, key)))
        if not isinstance(value, list) or not all(isinstance(v, kind) for v in value):
            raise ValueError(f"{path}: '{key}' must be a list, got {value!r}.")
    probes, seeds = said.get("probes", suite.probes), said.get("seeds", suite.seeds)
    suite = replace(suite, probes=tuple(probes), seeds=tuple(seeds), epochs=said.get("epochs", suite.epochs))
    suite.check()
    return suite


def _entry(said: Any, shots: int | None, path: Path) -> Entry:
    if isinstance(said, str):
        said = {"data": said}
    if not isinstance(said, Mapping) or not isinstance(said.get("data"), str):
        raise ValueError(f"{path}: a set is a name or has 'data', got {said!r}.")
    known_settings(f"{path}: a set", said, ["data", "name", "metric", "shots"])
    data = str(said["data"])
    chosen = _shots(said["shots"], path) if "shots" in said else shots
    return Entry(str(said.get("name", data)), data, said.get("metric", "accuracy"), shots=chosen)


def _shots(value: Any, path: Path) -> int | None:
    if value == "all":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{path}: shots must be a whole number from 1, or 'all'; got {value!r}.")
    return value


def suite_of(name: str) -> Suite:
    """A suite by its name, or from a file."""
    from isotherm.evaluate.elevater import SUITES  # noqa: PLC0415 - they are made of what is here

    if name in SUITES:
        return SUITES[name]()
    if name.endswith((".yaml", ".yml")):
        return read_suite(Path(name))
    raise ValueError(f"no suite '{name}'{did_you_mean(name, [*SUITES, 'FILE.yaml'])}")
