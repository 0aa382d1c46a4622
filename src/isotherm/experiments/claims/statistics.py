"""Numbers that rules judge by: rank correlation, standard errors over seeds, where a fall is over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.experiments.claims.verdict import Estimate
from isotherm.experiments.study import Where

if TYPE_CHECKING:
    from isotherm.experiments.records import Floats, Records


@dataclass(frozen=True)
class Paired:
    """Differences of two points seed by seed: their mean, its standard error, and how many there are."""

    mean: float
    error: float
    seeds: int

    def above(self, errors: float) -> bool:
        """Whether the mean is above zero by more than so many standard errors; one seed is sure of nothing."""
        return self.seeds > 1 and self.mean > errors * self.error

    @property
    def estimate(self) -> Estimate:
        """As evidence has it; one seed has no error."""
        return Estimate(self.mean, self.error if self.seeds > 1 else math.nan)


@dataclass(frozen=True)
class Replicated:
    """A line along what was varied, where there are the most seeds, and how many those are."""

    x: Floats
    means: Floats
    deviations: Floats
    runs: int

    @property
    def error(self) -> float:
        """The standard error of the difference of two means over seeds."""
        return float(np.sqrt(np.mean(np.square(self.deviations)) * 2 / self.runs)) if self.runs else 0.0


@dataclass(frozen=True)
class Best:
    """The best point of a line."""

    mean: float
    at: float
    deviation: float


def rank(x: Any, y: Any) -> float:
    """Spearman's ρ; 0 where one of them does not change."""
    from scipy.stats import spearmanr

    known = np.isfinite(np.asarray(x, float)) & np.isfinite(np.asarray(y, float))
    x, y = np.asarray(x, float)[known], np.asarray(y, float)[known]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return round(float(spearmanr(x, y).statistic), 3)


def reaches(x: Floats, y: Floats, share: float) -> float:
    """Where `share` of the way from the first to the lowest value is gone, between points in a straight line."""
    if len(x) < 2 or y.min() >= y[0]:
        return math.nan
    level = y[0] - share * (y[0] - y.min())
    k = int(np.argmax(y <= level))
    return float(x[k - 1] + (x[k] - x[k - 1]) * (y[k - 1] - level) / (y[k - 1] - y[k]))


def over_training(records: Records, measure: str, where: Where) -> dict[int, float]:
    """A measure's mean over all looks during training, for every seed."""
    means = {}
    for record in records.at(where):
        values = [value for _, value in record.monitored(measure)]
        if values:
            means[record.seed] = float(np.mean(values))
        else:
            records.lacks(record, f"has no {measure} on the way")
    return means


def paired(mine: Mapping[int, float], theirs: Mapping[int, float]) -> Paired:
    """Differences over the seeds that both have."""
    both = mine.keys() & theirs.keys()
    return Paired(*standard([mine[seed] - theirs[seed] for seed in both]), len(both))


def standard(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error."""
    if not values:
        return math.nan, math.nan
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def lost(records: Records, measure: str, where: Where, over: str) -> Paired:
    """How much is lost from the first to the last value of `over`."""
    x, _, _ = records.along(where, over, measure)
    if len(x) < 2:
        return Paired(math.nan, math.nan, 0)
    first, last = (records.by_seed(where.at({over: value}), measure) for value in (x[0], x[-1]))
    return paired(first, last)


def lines(records: Records, arm: str, over: str, by: str, measure: str) -> list[tuple[Any, Floats, Floats]]:
    """For each value of `by` the line along `over`, where it has three points."""
    values = sorted({r.varied[by] for r in records.at(arm) if by in r.varied})
    all_lines = [(value, *records.along(Where(arm, {by: value}), over, measure)[:2]) for value in values]
    return [line for line in all_lines if len(line[1]) >= 3]


def replicated(records: Records, arm: str, over: str, measure: str) -> Replicated:
    """`Records.along` at the points with the most seeds: the best of many single runs is the luckiest one."""
    x, means, deviations = records.along(arm, over, measure)
    runs = np.array([records.mean(Where(arm, {over: v}), measure)[2] for v in x])
    most = int(runs.max()) if len(runs) else 0
    kept = runs == most
    return Replicated(x[kept], means[kept], deviations[kept], most)


def best(records: Records, arm: str, over: str, measure: str, sign: int = 1) -> Best:
    """The highest mean of an arm (with `sign` −1 the lowest), not a number without runs."""
    line = replicated(records, arm, over, measure)
    if not len(line.x):
        return Best(math.nan, math.nan, math.nan)
    i = int(np.argmax(sign * line.means))
    return Best(float(line.means[i]), float(line.x[i]), float(line.deviations[i]))


def rounded_mean(by_seed: Mapping[int, float]) -> float:
    return round(float(np.mean(list(by_seed.values()))), 4) if by_seed else math.nan


def spread_of(deviation: float, runs: int) -> dict[str, float]:
    """A standard deviation over seeds as evidence has it: one seed has none."""
    return {"sd": round(deviation, 4)} if runs > 1 else {}


def triples(x: Any, means: Any, deviations: Any) -> list[list[float]]:
    """A line as evidence holds it."""
    return [[round(float(v), 4) for v in point] for point in zip(x, means, deviations, strict=True)]
