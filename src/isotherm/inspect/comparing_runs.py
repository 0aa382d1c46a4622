"""What only runs have to be compared by: the settings in which they differ, their curves, and their seeds.

Runs that differ in nothing but the seed are one arm. Arms that share two seeds or more are compared seed by seed: the
mean difference to the first arm with Student's 95 % interval.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isotherm.checks import FEWEST_SEEDS
from isotherm.inspect.health import Floats
from isotherm.measures.catalogue import measure as fact
from isotherm.report import Line, Lines

SEED = "seed"
CURVES = ("loss", "knn")
"""What a run writes down as it goes, and is drawn."""
POINTS = 400
"""Of a curve, at most: a mean over as many steps as that takes."""


@dataclass(frozen=True, eq=False)
class RunFacts:
    """What a run's folder says besides its measures."""

    settings: Mapping[str, Any]
    """By dotted name."""
    curves: Mapping[str, tuple[Floats, Floats]]
    """Steps and values, by name."""


@dataclass(frozen=True)
class Difference:
    """How far an arm's measure is from the first arm's, over the seeds that both have."""

    measure: str
    arm: str
    against: str
    mean: float
    low: float
    high: float
    seeds: int

    @property
    def better(self) -> str | None:
        """The arm that is better (95 %), if seeds and interval leave no doubt and the measure has a direction."""
        direction = fact(self.measure).better
        if direction is None or self.seeds < FEWEST_SEEDS or self.low <= 0 <= self.high:
            return None
        return self.arm if (self.low > 0) == (direction == "higher") else self.against


def facts_of(folder: Path, config: Mapping[str, Any]) -> RunFacts:
    return RunFacts(_flat(config), _curves(folder / "metrics.jsonl"))


def differing(runs: Sequence[RunFacts]) -> list[tuple[str, list[str]]]:
    """The settings in which runs differ, each with what it is in every run; the seed comes last.

    A setting that a run's version did not have yet is no difference; those of parts (`loss.weight`) come with the part.
    """
    every = {name for run in runs for name in run.settings}
    known = {name for name in every if "." in name or all(name in run.settings for run in runs)}
    names = sorted(known, key=lambda name: (name == SEED, name))
    rows = [(name, [_shown(run.settings.get(name)) for run in runs]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def paired(names: Sequence[str], runs: Sequence[RunFacts], values: Sequence[Mapping[str, float]]) -> list[Difference]:
    """Every arm against the first, measure by measure, where they share two seeds or more."""
    arms: dict[str, dict[int, int]] = {}
    for i, run in enumerate(runs):
        rest = json.dumps({k: v for k, v in run.settings.items() if k != SEED}, sort_keys=True, default=str)
        seed = run.settings.get(SEED)
        if isinstance(seed, int):
            arms.setdefault(rest, {}).setdefault(seed, i)
    if len(arms) < 2:
        return []
    first, *others = arms.values()
    against = names[next(iter(first.values()))]
    differences = []
    for arm in others:
        shared = sorted(first.keys() & arm.keys())
        if len(shared) < 2:
            continue
        name = names[next(iter(arm.values()))]
        for measure in values[first[shared[0]]]:
            pairs = [(values[arm[s]].get(measure), values[first[s]].get(measure)) for s in shared]
            gaps = [a - b for a, b in pairs if a is not None and b is not None]
            if len(gaps) == len(shared) and np.isfinite(gaps).all():
                differences.append(Difference(measure, name, against, *_student(gaps), len(gaps)))
    return differences


def charts(names: Sequence[str], runs: Sequence[RunFacts]) -> list[Lines]:
    """The curves of all runs over each other. Losses of different kinds have different scales, so a chart each."""
    drawn: dict[str, list[Line]] = {}
    for what in CURVES:
        for name, run in zip(names, runs, strict=True):
            if what in run.curves:
                title = "kNN accuracy" if what == "knn" else str(run.settings.get("loss") or "Loss")
                drawn.setdefault(title, []).append(Line(name, *run.curves[what]))
    return [Lines(f"{title} over training", lines, x="step", y=title) for title, lines in drawn.items()]


def _student(gaps: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval of differences."""
    from scipy import stats  # noqa: PLC0415 - extra `lab`; who only measures does without

    mean = float(np.mean(gaps))
    half = float(stats.t.ppf(0.975, len(gaps) - 1)) * float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps))
    return mean, mean - half, mean + half


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}".removesuffix(".name")] = value
    return flat


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _curves(path: Path) -> dict[str, tuple[Floats, Floats]]:
    """What a metrics file says step by step; lines that a kill left half written say nothing."""
    points: dict[str, list[tuple[float, float]]] = {what: [] for what in CURVES}
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                for what, curve in points.items():
                    if isinstance(entry, dict) and isinstance(entry.get(what), float) and "step" in entry:
                        curve.append((float(entry["step"]), entry[what]))
    return {what: _thinned(np.array(curve)) for what, curve in points.items() if len(curve) > 1}


def _thinned(curve: Floats) -> tuple[Floats, Floats]:
    parts = np.array_split(curve, min(POINTS, len(curve)))
    means = np.array([part.mean(0) for part in parts])
    return means[:, 0], means[:, 1]
