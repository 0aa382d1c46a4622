"""Rules about points: that one is ahead of others, behind the best of a line, alike, loses or keeps something."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.experiments.claims.along import TAU, short
from isotherm.experiments.claims.by_seed import BySeed, best, chosen, each, line, means, minus, over_training, rank
from isotherm.experiments.claims.decision import at_least, at_most, correlated, decide
from isotherm.experiments.claims.verdict import Verdict, undecided
from isotherm.experiments.study import ArmName, OfOneMeasure, Settings, Where

if TYPE_CHECKING:
    from isotherm.experiments.records import Records


@dataclass(frozen=True)
class Ahead(OfOneMeasure):
    """A point is above every rival by `least` or more; with `lower`, below."""

    where: Where
    rivals: Sequence[Where]
    least: float
    lower: bool = False

    def judge(self, records: Records) -> Verdict:
        mine = records.by_seed(self.where, self.measure)
        theirs = {rival.label: records.by_seed(rival, self.measure) for rival in self.rivals}
        name, word = self.where.label, "below" if self.lower else "above"
        contrasts = []
        for label, rival in theirs.items():
            ahead = minus(rival, mine) if self.lower else minus(mine, rival)
            contrasts.append(at_least(f"{name} {word} {label}", ahead, self.least, self.measure))
        return decide(contrasts, means=means({name: mine, **theirs}))


@dataclass(frozen=True)
class AheadOfBest(OfOneMeasure):
    """A point is above the best of an arm, wherever that lies, by `least` or more."""

    where: Where
    rival: Where
    over: str
    least: float

    def judge(self, records: Records) -> Verdict:
        mine = records.by_seed(self.where, self.measure)
        top = best(line(records, self.rival, self.over, self.measure))
        what = f"{self.where.label} above the best of {self.rival.label}"
        return decide([at_least(what, minus(mine, top.by_seed), self.least, self.measure)], best_at=top.at)


@dataclass(frozen=True)
class AheadAsChosen(OfOneMeasure):
    """An arm is above each rival by `least` or more, each where another measure is best of all that is varied in it.

    So settings can be chosen on one part of the data and compared on another. For every seed the others choose.
    """

    arm: ArmName
    rivals: Sequence[ArmName]
    by: str
    least: float

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure, self.by)

    def judge(self, records: Records) -> Verdict:
        tops = {arm: chosen(records, arm, self.measure, self.by) for arm in (self.arm, *self.rivals)}
        mine = tops[self.arm].by_seed
        contrasts = [
            at_least(f"{self.arm} above {rival}", minus(mine, tops[rival].by_seed), self.least, self.measure)
            for rival in self.rivals
        ]
        at = {arm: top.at for arm, top in tops.items()}
        return decide(contrasts, means=means({arm: top.by_seed for arm, top in tops.items()}), chosen_at=at)


@dataclass(frozen=True)
class Behind(OfOneMeasure):
    """An arm is behind the best point of another by `least` or more."""

    arm: ArmName
    rival: ArmName
    least: float
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        mine = records.by_seed(self.arm, self.measure)
        top = best(line(records, self.rival, self.over, self.measure))
        what = f"{self.arm} below the best of {self.rival}"
        contrast = at_least(what, minus(top.by_seed, mine), self.least, self.measure)
        return decide([contrast], means=means({self.arm: mine, self.rival: top.by_seed}), best_at=top.at)


@dataclass(frozen=True)
class Recovers(OfOneMeasure):
    """The weak arm lacks `least` or more to the best of a rival; this one makes up at least half of it."""

    arm: ArmName
    weak: ArmName
    rival: ArmName
    least: float
    lower: bool = False
    """Whether less of the measure is better."""
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        sign = -1 if self.lower else 1
        mine, low = (records.by_seed(name, self.measure) for name in (self.arm, self.weak))
        top = best(line(records, self.rival, self.over, self.measure), sign)
        lacking = {s: sign * d for s, d in minus(top.by_seed, low).items()}
        gained = {s: sign * d for s, d in minus(mine, low).items()}
        more_than_half = {s: gained[s] - lacking[s] / 2 for s in lacking if s in gained}
        contrasts = [
            at_least(f"what {self.weak} lacks to the best of {self.rival}", lacking, self.least, self.measure),
            at_least(f"what {self.arm} makes up beyond half of that", more_than_half, 0.0, self.measure),
        ]
        return decide(contrasts, means=means({self.arm: mine, self.weak: low, self.rival: top.by_seed}), best_at=top.at)


@dataclass(frozen=True)
class NoWorse(OfOneMeasure):
    """A point is at most `within` below each of its rivals."""

    where: Where
    rivals: Sequence[Where]
    within: float

    def judge(self, records: Records) -> Verdict:
        mine = records.by_seed(self.where, self.measure)
        theirs = {rival.label: records.by_seed(rival, self.measure) for rival in self.rivals}
        name = self.where.label
        contrasts = [
            at_most(f"how far {name} is below {label}", minus(rival, mine), self.within, self.measure)
            for label, rival in theirs.items()
        ]
        return decide(contrasts, means=means({name: mine, **theirs}))


@dataclass(frozen=True)
class NoWorseAsChosen(OfOneMeasure):
    """An arm is at most `within` below each rival, each where another measure is best, as in `AheadAsChosen`."""

    arm: ArmName
    rivals: Sequence[ArmName]
    by: str
    within: float

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure, self.by)

    def judge(self, records: Records) -> Verdict:
        tops = {arm: chosen(records, arm, self.measure, self.by) for arm in (self.arm, *self.rivals)}
        mine = tops[self.arm].by_seed
        contrasts = [
            at_most(f"how far {self.arm} is below {rival}", minus(tops[rival].by_seed, mine), self.within, self.measure)
            for rival in self.rivals
        ]
        return decide(contrasts, chosen_at={arm: top.at for arm, top in tops.items()})


@dataclass(frozen=True)
class Alike(OfOneMeasure):
    """All these points lie within `within` of each other."""

    points: Sequence[Where]
    within: float

    def judge(self, records: Records) -> Verdict:
        by_point = {where.label: records.by_seed(where, self.measure) for where in self.points}
        contrasts = []
        for (a, mine), (b, theirs) in itertools.combinations(by_point.items(), 2):
            difference = minus(mine, theirs)
            sign = -1.0 if difference and np.mean(list(difference.values())) < 0 else 1.0
            upper, lower = (a, b) if sign > 0 else (b, a)
            turned = {s: sign * d for s, d in difference.items()}
            contrasts.append(at_most(f"how far {lower} is below {upper}", turned, self.within, self.measure))
        return decide(contrasts, means=means(by_point))


@dataclass(frozen=True)
class Ordered(OfOneMeasure):
    """The points fall in this order: Spearman's ρ of each seed with it, and the first above the last by `least`."""

    points: Sequence[Where]
    least: float

    def judge(self, records: Records) -> Verdict:
        by_point = {where.label: records.by_seed(where, self.measure) for where in self.points}
        if len(by_point) < 2:
            return undecided("fewer than two points")
        first, *_, last = by_point
        fall = minus(by_point[first], by_point[last])
        contrasts = [at_least(f"{first} above {last}", fall, self.least, self.measure)]
        if len(by_point) > 2:
            places = range(len(by_point), 0, -1)
            rho = {seed: rank(places, values) for seed, values in each(list(by_point.values())).items()}
            contrasts.append(correlated("with this order", rho, 0.5))
        return decide(contrasts, means=means(by_point))


@dataclass(frozen=True)
class Narrower(OfOneMeasure):
    """From one value of `over` to another the spread of the arms shrinks, to at most this part.

    The spread is taken within each seed that all of them have at both values: means of more seeds lie closer anyway.
    """

    arms: Sequence[ArmName]
    over: str
    most: float = 0.75
    fixed: Settings = field(default_factory=dict)
    values: tuple[Any, Any] | None = None
    """From which to which; none: from the first to the last."""

    def judge(self, records: Records) -> Verdict:
        subset = records.where(**self.fixed)
        known = sorted({v for arm in self.arms for v in subset.varied(arm, self.over)})
        if len(known) < 2 or len(self.arms) < 2:
            return undecided(f"fewer than two arms or two values of {self.over}", "runs of both")
        start, end = self.values or (known[0], known[-1])
        spreads = []
        for value in (start, end):
            here = [subset.by_seed(Where(arm, {self.over: value}), self.measure) for arm in self.arms]
            spreads.append({seed: float(np.ptp(values)) for seed, values in each(here).items()})
        less = minus({s: self.most * v for s, v in spreads[0].items()}, spreads[1])
        what = f"{self.most:g} of the spread at {short(self.over)} {start} less the spread at {end}"
        return decide(
            [at_least(what, less, 0.0, self.measure)], spread_at=means({f"{start}": spreads[0], f"{end}": spreads[1]})
        )


@dataclass(frozen=True)
class Fall(OfOneMeasure):
    """What rules about the fall from the first to the last value of `over` share."""

    points: Sequence[Where]
    over: str

    def falls(self, records: Records) -> dict[str, BySeed]:
        falls = {}
        for where in self.points:
            points = line(records, where, self.over, self.measure)
            first, last = (next(iter(points)), next(reversed(points))) if len(points) > 1 else (math.nan, math.nan)
            falls[where.label] = minus(points[first], points[last]) if len(points) > 1 else {}
        return falls


@dataclass(frozen=True)
class Loses(Fall):
    """Every one of these falls by at least `least` from the first to the last value of `over`."""

    least: float

    def judge(self, records: Records) -> Verdict:
        return decide(
            [
                at_least(f"what {label} loses", fall, self.least, self.measure)
                for label, fall in self.falls(records).items()
            ]
        )


@dataclass(frozen=True)
class Keeps(Fall):
    """None of these falls by more than `most` from the first to the last value of `over`."""

    most: float

    def judge(self, records: Records) -> Verdict:
        return decide(
            [
                at_most(f"what {label} loses", fall, self.most, self.measure)
                for label, fall in self.falls(records).items()
            ]
        )


@dataclass(frozen=True)
class Reaches(OfOneMeasure):
    """At every one of these points it is at most `most`."""

    points: Sequence[Where]
    most: float

    def judge(self, records: Records) -> Verdict:
        by_point = {where.label: records.by_seed(where, self.measure) for where in self.points}
        return decide([at_most(label, by_seed, self.most, self.measure) for label, by_seed in by_point.items()])


@dataclass(frozen=True)
class AtLeast(OfOneMeasure):
    """At every one of these points it is `least` or more."""

    points: Sequence[Where]
    least: float

    def judge(self, records: Records) -> Verdict:
        by_point = {where.label: records.by_seed(where, self.measure) for where in self.points}
        return decide([at_least(label, by_seed, self.least, self.measure) for label, by_seed in by_point.items()])


@dataclass(frozen=True)
class Gains(OfOneMeasure):
    """A measure of a point is above others of the same runs by `least` or more."""

    where: Where
    over: Sequence[str]
    least: float

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure, *self.over)

    def judge(self, records: Records) -> Verdict:
        mine = records.by_seed(self.where, self.measure)
        theirs = {other: records.by_seed(self.where, other) for other in self.over}
        contrasts = [
            at_least(f"{self.measure} above {name}", minus(mine, values), self.least, self.measure)
            for name, values in theirs.items()
        ]
        return decide(contrasts, means=means({self.measure: mine, **theirs}))


@dataclass(frozen=True)
class SmallerDrop(OfOneMeasure):
    """From one value of `over` to another an arm loses less than each rival, by `least` or more.

    Unless the rivals lose `worth` on average there is nothing to lose less of.
    """

    arm: ArmName
    rivals: Sequence[ArmName]
    over: str
    start: Any
    end: Any
    least: float
    worth: float = 0.01

    def judge(self, records: Records) -> Verdict:
        drops = {}
        for name in (self.arm, *self.rivals):
            here, there = (records.by_seed(Where(name, {self.over: v}), self.measure) for v in (self.start, self.end))
            drops[name] = minus(here, there)
        theirs = [loss for name in self.rivals for loss in drops[name].values()]
        if theirs and np.mean(theirs) < self.worth:
            why = f"the others lose {np.mean(theirs):.2g} on average, less than {self.worth:g}: no drop to compare"
            return undecided(why, "longer training, or classes that differ more in size")
        contrasts = [
            at_least(
                f"what {name} loses more than {self.arm}", minus(drops[name], drops[self.arm]), self.least, self.measure
            )
            for name in self.rivals
        ]
        return decide(contrasts, mean_drop=means(drops))


@dataclass(frozen=True)
class Faster(OfOneMeasure):
    """Averaged over the looks on the way, a point is above each rival by `least` or more.

    With `spread` from where all of them have a −uniformity of that on: an entropy is largest of all in one point.
    """

    where: Where
    rivals: Sequence[Where]
    least: float
    spread: float | None = None

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure,) if self.spread is None else (self.measure, "uniformity")

    def judge(self, records: Records) -> Verdict:
        places = (self.where, *self.rivals)
        mine, *others = over_training(records, self.measure, places, self.spread)
        if not mine and all(over_training(records, self.measure, places)):
            why = f"fewer than three looks at which −uniformity is {self.spread:g} or more in all of them"
            return undecided(why, "longer training, or more looks")
        theirs = {where.label: values for where, values in zip(self.rivals, others, strict=True)}
        name = self.where.label
        contrasts = [
            at_least(f"{name} above {label}, over training", minus(mine, values), self.least, self.measure)
            for label, values in theirs.items()
        ]
        return decide(contrasts, mean_over_training=means({name: mine, **theirs}))
