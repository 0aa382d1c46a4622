"""Rules about a measure along what was varied: that it rises, has its best inside, saturates, hardly moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from isotherm.experiments.claims.by_seed import (
    BySeed,
    best,
    by_seed_of,
    line,
    minus,
    rank,
    reaches,
    replicated,
    triples,
)
from isotherm.experiments.claims.decision import Contrast, at_least, at_most, correlated, decide
from isotherm.experiments.claims.verdict import Verdict, undecided
from isotherm.experiments.study import ArmName, OfOneMeasure, Settings, Where

if TYPE_CHECKING:
    from isotherm.experiments.records import Records

STRONG = 0.8
"""The rank correlation that a trend needs."""
FEWEST = 3
"""Values that a line needs to have a direction, or an inside."""
TAU = "loss.temperature"


@dataclass(frozen=True)
class Trend(OfOneMeasure):
    """It rises (direction 1) or falls (−1): Spearman's ρ of each seed, on average at least `least`."""

    fewest: ClassVar[int] = FEWEST
    arm: ArmName
    direction: int
    over: str = TAU
    least: float = STRONG
    among: Settings = field(default_factory=dict)
    """At these values of what else is varied."""

    def judge(self, records: Records) -> Verdict:
        points = line(records, Where(self.arm, self.among), self.over, self.measure)
        if len(points) < 3:
            return undecided(f"fewer than three values of {self.over} for {self.arm}", "runs at three values or more")
        rho = {s: self.direction * rank(x, y) for s, (x, y) in by_seed_of(points).items() if len(x) >= 3}
        what = f"{_moves(self.measure, self.direction)} with {short(self.over)}"
        return decide([correlated(what, rho, self.least)], values=triples(points))


def _moves(name: str, direction: int) -> str:
    """That a measure rises or falls, as tables and figures show it: perhaps with its sign turned."""
    from isotherm.measures.catalogue import measures

    known = measures().get(name)
    shown, sign = (name, 1) if known is None else (known.heading, known.sign)
    return f"{shown} {'rises' if sign * direction > 0 else 'falls'}"


@dataclass(frozen=True)
class TrendEverywhere(OfOneMeasure):
    """At the values of `fixed`, on average over them, it rises (1) or falls (−1) along `over`: ρ at least `least`."""

    fewest: ClassVar[int] = FEWEST
    arm: ArmName
    over: str
    fixed: str
    direction: int
    least: float = STRONG

    def judge(self, records: Records) -> Verdict:
        by_value: dict[float, BySeed] = {}
        for value in records.varied(self.arm, self.fixed):
            points = line(records, Where(self.arm, {self.fixed: value}), self.over, self.measure)
            turned = by_seed_of(points).items()
            by_value[value] = {s: self.direction * rank(x, y) for s, (x, y) in turned if len(x) >= 3}
        if not any(by_value.values()):
            return undecided(f"fewer than three values of {self.over} for {self.arm}", "runs at three values or more")
        seeds = set.intersection(*(set(rho) for rho in by_value.values()))
        mean = {s: float(np.mean([rho[s] for rho in by_value.values()])) for s in sorted(seeds)}
        moves = _moves(self.measure, self.direction)
        what = f"{moves} with {short(self.over)}, averaged over {short(self.fixed)}"
        at = {f"{value:g}": float(np.mean(list(rho.values()))) if rho else math.nan for value, rho in by_value.items()}
        return decide([correlated(what, mean, self.least)], rho_at=at)


@dataclass(frozen=True)
class InvertedU(OfOneMeasure):
    """The best lies inside, and both ends are below it by `least` or more."""

    fewest: ClassVar[int] = FEWEST
    arm: ArmName
    least: float
    over: str = TAU
    inside: tuple[float, float] | None = None
    """Where the best must lie; none: anywhere between the ends."""

    def judge(self, records: Records) -> Verdict:
        points = replicated(line(records, self.arm, self.over, self.measure))
        if len(points) < 3:
            return undecided(f"fewer than three values of {self.over} for {self.arm}", "runs at three values or more")
        first, *middle, last = points
        low, high = self.inside or (first, last)
        top = best({x: points[x] for x in middle if low <= x <= high})
        where = f"between {low:g} and {high:g}" if self.inside else "inside"
        ends = [
            at_least(
                f"the best {where} above {short(self.over)} {x:g}",
                minus(top.by_seed, points[x]),
                self.least,
                self.measure,
            )
            for x in (first, last)
        ]
        elsewhere = {x: points[x] for x in middle if not low <= x <= high}
        if elsewhere:
            what = f"the best {where} above the best elsewhere between the ends"
            ends.append(at_least(what, minus(top.by_seed, best(elsewhere).by_seed), 0.0, self.measure))
        return decide(ends, values=triples(points), best_at=top.at)


@dataclass(frozen=True)
class BestWithin(OfOneMeasure):
    """Somewhere between two values of `over` it is as good as anywhere, to `within`."""

    arm: ArmName
    low: float
    high: float
    within: float
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        points = replicated(line(records, self.arm, self.over, self.measure))
        inside = {x: p for x, p in points.items() if self.low <= x <= self.high}
        outside = {x: p for x, p in points.items() if x not in inside}
        if not inside or not outside:
            return undecided(f"no values of {self.over} inside or none outside", "runs at both")
        there, elsewhere = best(inside), best(outside)
        what = f"how far the best from {self.low:g} to {self.high:g} is below the best elsewhere"
        contrast = at_most(what, minus(elsewhere.by_seed, there.by_seed), self.within, self.measure)
        return decide([contrast], values=triples(points), best_at=best(points).at)


@dataclass(frozen=True)
class Flatter(OfOneMeasure):
    """Over the same values, an arm moves at most this part of what another moves; from smallest to largest."""

    arm: ArmName
    than: ArmName
    most: float = 1 / 3
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        ranges: dict[str, BySeed] = {}
        mine, theirs = (line(records, name, self.over, self.measure) for name in (self.arm, self.than))
        common = [x for x in mine if x in theirs]
        if len(common) < 2:
            return undecided(f"fewer than two common values of {self.over}", "runs at two values or more")
        for name, points in ((self.arm, mine), (self.than, theirs)):
            turned = by_seed_of({x: points[x] for x in common})
            ranges[name] = {s: float(np.ptp(y)) for s, (x, y) in turned.items() if len(x) >= 2}
        if 0.0 in ranges[self.than].values():
            return undecided(f"{self.than} does not move at all with every seed", "other values")
        part = {s: ranges[self.arm][s] / r for s, r in ranges[self.than].items() if s in ranges[self.arm]}
        moved = {name: float(np.mean(list(r.values()))) for name, r in ranges.items() if r}
        return decide([at_most(f"range of {self.arm} as a part of that of {self.than}", part, self.most)], range=moved)


@dataclass(frozen=True)
class PrefersLarger(OfOneMeasure):
    """An arm is ahead of another at the largest value, and gains more than it from the smallest to the largest."""

    arm: ArmName
    than: ArmName
    least: float
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        mine, theirs = (replicated(line(records, name, self.over, self.measure)) for name in (self.arm, self.than))
        common = [x for x in mine if x in theirs]
        if len(common) < 2:
            return undecided(f"fewer than two common values of {self.over}", "runs at two values or more")
        low, high = common[0], common[-1]
        ahead, before = (minus(mine[x], theirs[x]) for x in (high, low))
        name = short(self.over)
        contrasts = [
            at_least(f"{self.arm} above {self.than} at {name} {high:g}", ahead, self.least, self.measure),
            at_least(
                f"what {self.arm} gains more than {self.than} from {name} {low:g} to {high:g}",
                minus(ahead, before),
                self.least,
                self.measure,
            ),
        ]
        return decide(contrasts, best_at={self.arm: best(mine).at, self.than: best(theirs).at})


@dataclass(frozen=True)
class Tunable(OfOneMeasure):
    """Whatever the value of `fixed`, tuning `over` reaches the best of all, to `within`."""

    arm: ArmName
    over: str
    fixed: str
    within: float

    def judge(self, records: Records) -> Verdict:
        grid = {
            v: line(records, Where(self.arm, {self.fixed: v}), self.over, self.measure)
            for v in records.varied(self.arm, self.fixed)
        }
        flat = {(v, x): by_seed for v, points in grid.items() for x, by_seed in points.items()}
        if len(grid) < 2 or not flat:
            return undecided(f"fewer than two values of {self.fixed} for {self.arm}", "runs at two values or more")
        top = best(flat)
        tuned = {v: best(points) for v, points in grid.items()}
        name = short(self.fixed)
        contrasts = [
            at_most(
                f"how far the best at {name} {v:g} is below the best of all",
                minus(top.by_seed, b.by_seed),
                self.within,
                self.measure,
            )
            for v, b in tuned.items()
        ]
        return decide(contrasts, best_at={f"{v:g}": b.at for v, b in tuned.items()})


@dataclass(frozen=True)
class Saturates(OfOneMeasure):
    """It falls over the first third of the range of `over`, and there at least `times` as fast as over the last."""

    points: Sequence[Where]
    over: str
    times: float

    def judge(self, records: Records) -> Verdict:
        contrasts: list[Contrast] = []
        for where in self.points:
            early, late = {}, {}
            for seed, (x, y) in by_seed_of(line(records, where, self.over, self.measure)).items():
                if len(x) >= 4:
                    early[seed], late[seed] = _slopes(x, y)
            contrasts.append(at_least(f"{where.label}: fall per step of {short(self.over)}, first third", early))
            slower = {s: early[s] - self.times * late[s] for s in early}
            contrasts.append(at_least(f"{where.label}: that less {self.times:g} times the last third's", slower))
        return decide(contrasts)


def _slopes(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """How much it falls per unit in the first and in the last third of the range."""
    third = (x[-1] - x[0]) / 3
    at = np.interp([x[0] + third, x[-1] - third], x, y)
    return float(y[0] - at[0]) / third, float(at[1] - y[-1]) / third


@dataclass(frozen=True)
class Later(OfOneMeasure):
    """Where it has fallen by `share` of its whole fall along `over` grows from the smallest to the largest `along`."""

    where: Where
    over: str
    along: str
    share: float
    least: float

    def judge(self, records: Records) -> Verdict:
        reached: dict[float, BySeed] = {}
        for value in records.varied(self.where, self.along):
            turned = by_seed_of(line(records, self.where.at({self.along: value}), self.over, self.measure))
            reached[value] = {s: reaches(x, y, self.share) for s, (x, y) in turned.items()}
            if any(math.isnan(v) for v in reached[value].values()):
                where = f"{self.where.label} at {short(self.along)} {value:g}"
                return undecided(f"{where} does not fall with every seed", "longer training, or other values")
        if len(reached) < 2:
            return undecided(f"fewer than two values of {self.along} for {self.where.label}", "runs at two or more")
        first, *_, last = reached
        what = f"how much further along {short(self.over)} it falls at {short(self.along)} {last:g} than at {first:g}"
        at = {f"{v:g}": float(np.mean(list(b.values()))) if b else math.nan for v, b in reached.items()}
        return decide([at_least(what, minus(reached[last], reached[first]), self.least)], reached_at=at)


def short(setting: str) -> str:
    """A setting as a sentence names it."""
    return setting.rpartition(".")[2]
