"""A number for every seed, by which rules judge: differences, rank correlations, the best as other seeds chose it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from isotherm.experiments.study import Where, varied_label

if TYPE_CHECKING:
    from isotherm.experiments.records import Floats, Records

BySeed = dict[int, float]
LOOKS = 3
"""At so many moments of the training at least runs are compared by what they learn on the way."""
ROUNDED = 0.005
"""Of a training: how far moments that are called the same may lie apart."""
Point = TypeVar("Point")


def minus(mine: Mapping[int, float], theirs: Mapping[int, float]) -> BySeed:
    """Differences over the seeds that both have."""
    return {seed: mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())}


def each(seeds_of: Sequence[Mapping[int, float]]) -> dict[int, list[float]]:
    """For every seed that all of these have, their numbers in order."""
    return {seed: [by_seed[seed] for by_seed in seeds_of] for seed in common(dict(enumerate(seeds_of)))}


def line(records: Records, where: Where | str, over: str, measure: str) -> dict[float, BySeed]:
    """A measure along what was varied, ascending, for every seed (the mean where several points are meant)."""
    found: dict[float, dict[str, BySeed]] = {}
    for record, value in records.values(where, measure):
        if over in record.varied:
            found.setdefault(float(record.varied[over]), {}).setdefault(record.point, {})[record.seed] = value
    return {x: averaged(found[x]) for x in sorted(found)}


def by_seed_of(line: Mapping[float, Mapping[int, float]]) -> dict[int, tuple[Floats, Floats]]:
    """A line turned round: for every seed that all of it has what was varied, and the measure there."""
    line = replicated(line)
    x = np.array(list(line))
    return {seed: (x, np.array([by_seed[seed] for by_seed in line.values()])) for seed in common(line)}


def replicated(points: Mapping[Point, Mapping[int, float]]) -> dict[Point, Mapping[int, float]]:
    """The points that have several seeds, if any do: the best of many single runs is the luckiest one."""
    several = {point: by_seed for point, by_seed in points.items() if len(by_seed) > 1}
    return several or dict(points)


def common(points: Mapping[Any, Mapping[int, float]]) -> list[int]:
    """The seeds that all of these have. `--until-decided` adds some at a few points alone: of half of what a claim
    speaks of they say nothing."""
    return sorted(set.intersection(*map(set, points.values()))) if points else []


def averaged(points: Mapping[Any, Mapping[int, float]]) -> dict[int, float]:
    """The mean over points for every seed that all replicated ones have; of one point its values."""
    if len(points) == 1:
        return dict(*points.values())
    points = replicated(points)
    return {seed: float(np.mean([by_seed[seed] for by_seed in points.values()])) for seed in common(points)}


@dataclass(frozen=True)
class Best:
    """The best point of a line as each seed has it, chosen by the *other* seeds: luck does not choose itself."""

    by_seed: BySeed
    at: Any
    """By all seeds."""


def best(
    points: Mapping[Any, Mapping[int, float]],
    sign: int = 1,
    by: Mapping[Any, Mapping[int, float]] | None = None,
) -> Best:
    """The highest (with `sign` −1 the lowest) of these points, or the one that is so `by` another measure of theirs."""
    points = replicated(points)
    by = points if by is None else {x: by[x] for x in points}
    known = [set(p) for p in (*points.values(), *by.values())]
    seeds = sorted(set.intersection(*known)) if points else []
    if not seeds:
        return Best({}, math.nan)
    names, table = list(points), np.array([[points[x][seed] for seed in seeds] for x in points])
    chosen_by = sign * np.array([[by[x][seed] for seed in seeds] for x in points])
    total = chosen_by.sum(1)
    by_seed = {}
    if len(seeds) > 1:
        for i, seed in enumerate(seeds):
            by_seed[seed] = float(table[int(np.argmax(total - chosen_by[:, i])), i])
    return Best(by_seed, names[int(np.argmax(total))])


def chosen(records: Records, arm: str, measure: str, by: str) -> Best:
    """A measure of an arm where, of all that is varied in it, another measure is best."""
    points = {varied_label(r.varied): Where(arm, r.varied) for r in records.at(arm)}
    values, choice = (
        {label: records.by_seed(where, name) for label, where in points.items()} for name in (measure, by)
    )
    return best(values, by=choice)


def rank(x: Any, y: Any) -> float:
    """Spearman's ρ; 0 where one of them does not change."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(values: Floats) -> Floats:
    """From 1; equal values share the mean of theirs: `scipy.stats.rankdata`, which takes a second to import."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: Floats = (counts.cumsum() - (counts - 1) / 2)[place]
    return shared


def reaches(x: Floats, y: Floats, share: float) -> float:
    """Where `share` of the way from the first to the lowest value is gone, between points in a straight line."""
    if len(x) < 2 or y.min() >= y[0]:
        return math.nan
    level = y[0] - share * (y[0] - y.min())
    k = int(np.argmax(y <= level))
    return float(x[k - 1] + (x[k] - x[k - 1]) * (y[k - 1] - level) / (y[k - 1] - y[k]))


def over_training(records: Records, measure: str, places: Sequence[Where], spread: float | None = None) -> list[BySeed]:
    """A measure's mean over training for every seed of several places, at parts of it that all have in common.

    Looks at the ends of epochs fall elsewhere in runs of other batches, and whoever is looked at later knows more. So
    all are read where the one that was looked at least often was, straight between their own looks. With `spread` only
    from where −uniformity is at least that in all of them. Where that is fewer than `LOOKS` times, nothing is said.
    """
    curves: list[dict[tuple[str, int], list[tuple[float, float]]]] = []
    for where in places:
        curves.append({})
        for record in records.at(where):
            if seen := record.monitored(measure):
                curves[-1][record.point, record.seed] = seen
            else:
                records.lacks(record, f"has no {measure} on the way")
    parts = [[part for part, _ in seen] for of_place in curves for seen in of_place.values()]
    if not parts:
        return [{} for _ in places]
    first, last = max(seen[0] for seen in parts), min(seen[-1] for seen in parts)
    if spread is not None:
        crowded = [
            part
            for where in places
            for record in records.at(where)
            for part, uniformity in record.monitored("uniformity")
            if -uniformity < spread
        ]
        first = max([first, *(part + 2 * ROUNDED for part in crowded)])
    at = [part for part in min(parts, key=len) if first - ROUNDED <= part <= last + ROUNDED]
    if len(at) < LOOKS:
        return [{} for _ in places]
    means: list[dict[str, BySeed]] = [{} for _ in places]
    for mean, of_place in zip(means, curves, strict=True):
        for (point, seed), seen in of_place.items():
            looked, values = np.array(seen).T
            mean.setdefault(point, {})[seed] = float(np.interp(at, looked, values).mean())
    return [averaged(mean) for mean in means]


def triples(line: Mapping[float, Mapping[int, float]]) -> list[list[float]]:
    """A line as evidence holds it: what was varied, mean, deviation (0 for one seed)."""
    rows = []
    for x, by_seed in line.items():
        values = list(by_seed.values())
        rows.append([x, float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0])
    return rows


def means(points: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Means over seeds, as evidence holds them."""
    return {name: float(np.mean(list(by_seed.values()))) if by_seed else math.nan for name, by_seed in points.items()}
