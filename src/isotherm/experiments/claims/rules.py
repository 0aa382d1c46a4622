"""Ways a claim is judged: by rank correlation with a stated threshold and by seeds, never by eye.

A rule says what it needs of every run (`measures`) and judges records (`judge`); its evidence has what was found and,
in words, what was `wanted`. Nothing holds without runs. What is heavy is imported when it is needed: whoever lists the
studies does not judge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.experiments.claims.statistics import (
    Paired,
    best,
    lines,
    lost,
    over_training,
    paired,
    rank,
    reaches,
    replicated,
    rounded_mean,
    spread_of,
    triples,
)
from isotherm.experiments.claims.verdict import Evidence, Verdict, unjudged
from isotherm.experiments.study import OfOneMeasure, Rule, Settings, Together, Where

if TYPE_CHECKING:
    from isotherm.experiments.records import Records

STRONG = 0.8
"""The rank correlation that a trend needs over the means; each seed's own must have its sign."""
SURE = 2.0
"""Standard errors that a difference needs to count."""
TAU = "loss.temperature"
SURELY = f"by more than {SURE:g} standard errors over seeds"


def bound(direction: int, least: float) -> str:
    """What a number that must rise (1) or fall (−1) has to reach."""
    return f"at least {least:g}" if direction > 0 else f"at most {-least:g}"


def beyond(noise: float) -> str:
    """That a difference must exceed this scatter of the seeds, where there is one."""
    return f", by more than the seeds scatter ({noise:.4f})" if noise > 0 else ""


@dataclass(frozen=True)
class Trend(OfOneMeasure):
    """It rises (direction 1) or falls (−1): Spearman's ρ of the means at least `least`, and no seed against it."""

    arm: str
    direction: int
    over: str = TAU
    least: float = STRONG

    def judge(self, records: Records) -> Verdict:
        x, means, deviations = records.along(self.arm, self.over, self.measure)
        if len(x) < 3:
            return unjudged(f"only {len(x)} values of {self.over}")
        rho = rank(x, means)
        by_seed = []
        for seed in records.seeds(self.arm):
            xs, ys, _ = records.along(self.arm, self.over, self.measure, seed)
            if len(xs) >= 3:
                by_seed.append(round(rank(xs, ys), 3))
        held = self.direction * rho >= self.least and all(self.direction * r > 0 for r in by_seed)
        evidence = Evidence(
            values=triples(x, means, deviations),
            rho=round(rho, 3),
            rho_of_each_seed=by_seed,
            least=self.least,
            wanted=f"rho {bound(self.direction, self.least)}, with this sign in every seed",
        )
        return Verdict(held, evidence)


@dataclass(frozen=True)
class InvertedU(OfOneMeasure):
    """The best lies inside, and both ends are below it by more than `SURE` standard errors.

    Only points with the most seeds count: the best of many single runs is the luckiest one.
    """

    arm: str
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        line = replicated(records, self.arm, self.over, self.measure)
        if len(line.x) < 3:
            return unjudged(f"only {len(line.x)} values of {self.over}")
        top = int(np.argmax(line.means))
        noise = SURE * line.error
        drops = [float(line.means[top] - line.means[0]), float(line.means[top] - line.means[-1])]
        held = line.runs > 1 and 0 < top < len(line.x) - 1 and min(drops) > noise
        evidence = Evidence(
            values=triples(line.x, line.means, line.deviations),
            best=float(line.x[top]),
            below_the_best_at_the_ends=[round(d, 4) for d in drops],
            must_exceed=round(noise, 4),
            runs=line.runs,
            wanted=f"the best inside, both ends below it{beyond(noise)}, two seeds or more",
        )
        return Verdict(held, evidence)


@dataclass(frozen=True)
class Behind(OfOneMeasure):
    """An arm is at least `by` behind the best point of another, and by more than two standard deviations."""

    arm: str
    rival: str
    by: float
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        value, deviation, runs = records.mean(self.arm, self.measure)
        rival = best(records, self.rival, self.over, self.measure)
        gap = rival.mean - value
        noise = SURE * math.hypot(deviation, rival.deviation) / math.sqrt(max(1, runs))
        evidence = Evidence(
            means={self.arm: round(value, 4), self.rival: round(rival.mean, 4)},
            **spread_of(deviation, runs),
            best_at=rival.at,
            gap=round(gap, 4),
            least=self.by,
            wanted=f"{self.arm} below the best of {self.rival} by {self.by:g} or more{beyond(noise)}",
        )
        return Verdict(runs > 0 and gap >= self.by and gap > noise, evidence)


@dataclass(frozen=True)
class Recovers(OfOneMeasure):
    """The weak arm lacks something; this one is within `within` of the best and makes up at least half of it."""

    arm: str
    weak: str
    rival: str
    within: float
    lower: bool = False
    """Whether less of the measure is better."""
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        sign = -1 if self.lower else 1
        value, deviation, runs = records.mean(self.arm, self.measure)
        low, low_deviation, _ = records.mean(self.weak, self.measure)
        rival = best(records, self.rival, self.over, self.measure, sign)
        lacking = sign * (rival.mean - low)
        noise = SURE * math.hypot(low_deviation, rival.deviation) / math.sqrt(max(1, runs))
        made_up = sign * (value - low) / lacking if lacking > 0 else math.nan
        near = sign * (rival.mean - value) <= self.within
        evidence = Evidence(
            means={self.arm: round(value, 4), self.weak: round(low, 4), self.rival: round(rival.mean, 4)},
            **spread_of(deviation, runs),
            best_at=rival.at,
            made_up=round(made_up, 3),
            within=self.within,
            lacking=round(lacking, 4),
            must_exceed=round(noise, 4),
            wanted=f"{self.weak} worse than the best of {self.rival}{beyond(noise)}; {self.arm} makes up half of that "
            f"or more, and comes within {self.within:g}",
        )
        return Verdict(bool(runs > 0 and lacking > noise and near and made_up >= 0.5), evidence)


@dataclass(frozen=True)
class Flatter(OfOneMeasure):
    """Over the same values, an arm moves at most this part of what another moves."""

    arm: str
    than: str
    most: float = 1 / 3
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        ranges = {}
        for name in (self.arm, self.than):
            x, means, _ = records.along(name, self.over, self.measure)
            if len(x) < 2:
                return unjudged(f"too few values of {self.over} for {name}")
            ranges[name] = float(means.max() - means.min())
        part = ranges[self.arm] / ranges[self.than] if ranges[self.than] else math.inf
        rounded = {name: round(r, 4) for name, r in ranges.items()}
        evidence = Evidence(
            range=rounded,
            part=round(part, 3),
            most=round(self.most, 3),
            wanted=f"{self.arm} moves at most {self.most:.3g} of what {self.than} moves",
        )
        return Verdict(part <= self.most, evidence)


@dataclass(frozen=True)
class PrefersLarger(OfOneMeasure):
    """An arm's best value of what is varied is larger than the other's, and at the largest value it is surely ahead."""

    arm: str
    than: str
    over: str = TAU

    def judge(self, records: Records) -> Verdict:
        mine, theirs = (replicated(records, name, self.over, self.measure) for name in (self.arm, self.than))
        for name, line in ((self.arm, mine), (self.than, theirs)):
            if len(line.x) < 2:
                return unjudged(f"too few values of {self.over} for {name}")
        best_at = [float(line.x[int(np.argmax(line.means))]) for line in (mine, theirs)]
        ahead = float(mine.means[-1]) - float(theirs.means[-1])
        noise = SURE * max(mine.error, theirs.error)
        evidence = Evidence(
            best_at=dict(zip((self.arm, self.than), best_at, strict=True)),
            ahead_at_the_largest=round(ahead, 4),
            must_exceed=round(noise, 4),
            wanted=f"the best of {self.arm} at a larger value than that of {self.than}, and ahead at the largest"
            f"{beyond(noise)}, two seeds or more",
        )
        return Verdict(mine.runs > 1 and best_at[0] > best_at[1] and ahead > noise, evidence)


@dataclass(frozen=True)
class Alike(OfOneMeasure):
    """The means of all these points lie within `within` of each other."""

    points: Sequence[Where]
    within: float

    def judge(self, records: Records) -> Verdict:
        by_point = {where.label: records.mean(where, self.measure) for where in self.points}
        means = [mean for mean, _, n in by_point.values() if n]
        spread = max(means) - min(means) if len(means) == len(self.points) > 1 else math.nan
        evidence = Evidence(
            means={label: round(mean, 4) for label, (mean, _, _) in by_point.items()},
            spread=round(spread, 4),
            within=self.within,
            wanted=f"a spread of at most {self.within:g}",
        )
        return Verdict(spread <= self.within, evidence)


@dataclass(frozen=True)
class Narrower(OfOneMeasure):
    """From the first to the last value of `over` the spread of the arms shrinks to at most this part.

    The spread is taken within each seed that all of them have at both values: means of more seeds lie closer anyway.
    """

    arms: Sequence[str]
    over: str
    most: float = 0.75
    fixed: Settings = field(default_factory=dict)

    def judge(self, records: Records) -> Verdict:
        subset = records.where(**self.fixed)
        values = sorted({r.varied[self.over] for arm in self.arms for r in subset.at(arm) if self.over in r.varied})
        if len(values) < 2 or len(self.arms) < 2:
            return unjudged(f"fewer than two arms or two values of {self.over}")
        first, last = (
            [subset.by_seed(Where(arm, {self.over: value}), self.measure) for arm in self.arms]
            for value in (values[0], values[-1])
        )
        seeds = set.intersection(*(set(by_seed) for by_seed in (*first, *last)))
        if not seeds:
            return unjudged("no seed has all of them")
        start, end = (float(np.mean([np.ptp([each[s] for each in point]) for s in seeds])) for point in (first, last))
        evidence = Evidence(
            spread_at={values[0]: round(start, 4), values[-1]: round(end, 4)},
            most_of_it=self.most,
            seeds=len(seeds),
            wanted=f"at {values[-1]} at most {self.most:g} of the spread at {values[0]}",
        )
        return Verdict(start > 0 and end <= self.most * start, evidence)


@dataclass(frozen=True)
class TrendEverywhere(OfOneMeasure):
    """At most values of `fixed` it rises (1) or falls (−1) along `over`: Spearman's ρ of at least `STRONG`."""

    arm: str
    over: str
    fixed: str
    direction: int
    part: float = STRONG

    def judge(self, records: Records) -> Verdict:
        all_lines = lines(records, self.arm, self.over, self.fixed, self.measure)
        rho_at = {value: rank(x, means) for value, x, means in all_lines}
        share = float(np.mean([self.direction * r >= STRONG for r in rho_at.values()])) if rho_at else 0.0
        evidence = Evidence(
            rho_at=rho_at,
            part_that_does=round(share, 3),
            least=self.part,
            wanted=f"rho {bound(self.direction, STRONG)} at {self.part:g} or more of the values of {self.fixed}",
        )
        return Verdict(bool(rho_at) and share >= self.part, evidence)


@dataclass(frozen=True)
class BestMoves(OfOneMeasure):
    """The best value of `over` rises (1) or falls (−1) with `along`: Spearman's ρ of at least `STRONG`."""

    arm: str
    over: str
    along: str
    direction: int

    def judge(self, records: Records) -> Verdict:
        all_lines = lines(records, self.arm, self.over, self.along, self.measure)
        best_at = {value: float(x[int(np.argmax(means))]) for value, x, means in all_lines}
        moves = len(best_at) >= 3 and len(set(best_at.values())) > 1
        rho = rank(list(best_at), list(best_at.values())) if moves else math.nan
        wanted = f"the best of at least three values of {self.along} moves, rho {bound(self.direction, STRONG)}"
        evidence = Evidence(best_at=best_at, rho=round(rho, 3), least=STRONG, wanted=wanted)
        return Verdict(self.direction * rho >= STRONG, evidence)


@dataclass(frozen=True)
class Saturates(OfOneMeasure):
    """Of all that a measure falls along `over`, `share` has happened within the first `part` of its range."""

    points: Sequence[Where]
    over: str
    share: float
    part: float

    def judge(self, records: Records) -> Verdict:
        reached_at, held = {}, bool(self.points)
        for where in self.points:
            x, means, _ = records.along(where, self.over, self.measure)
            reached = reaches(x, means, self.share)
            reached_at[where.label] = round(reached, 2)
            held &= len(x) >= 3 and reached <= x[0] + self.part * (x[-1] - x[0])
        evidence = Evidence(
            share=self.share,
            reached_at=reached_at,
            within_the_first=self.part,
            wanted=f"{self.share:g} of the fall within the first {self.part:g} of the range, of three values or more",
        )
        return Verdict(held, evidence)


@dataclass(frozen=True)
class Later(OfOneMeasure):
    """Where it saturates grows with `along`."""

    where: Where
    over: str
    along: str
    share: float

    def judge(self, records: Records) -> Verdict:
        reached_at = {}
        for value in sorted({r.varied[self.along] for r in records.at(self.where)}):
            x, means, _ = records.along(self.where.at({self.along: value}), self.over, self.measure)
            reached_at[value] = round(reaches(x, means, self.share), 3)
        whole = len(reached_at) >= 3 and all(map(math.isfinite, reached_at.values()))
        rho = rank(list(reached_at), list(reached_at.values())) if whole else math.nan
        wanted = f"{self.share:g} of the fall reached later with {self.along}, rho {bound(1, STRONG)}"
        evidence = Evidence(share=self.share, reached_at=reached_at, rho=round(rho, 3), least=STRONG, wanted=wanted)
        return Verdict(rho >= STRONG, evidence)


@dataclass(frozen=True)
class Fall(OfOneMeasure):
    """What rules about the fall from the first to the last value of `over` share."""

    points: Sequence[Where]
    over: str

    def falls(self, records: Records) -> dict[str, Paired]:
        return {where.label: lost(records, self.measure, where, self.over) for where in self.points}


@dataclass(frozen=True)
class Loses(Fall):
    """Every one of these falls by at least `least` from the first to the last value of `over`; with seeds, surely."""

    least: float

    def judge(self, records: Records) -> Verdict:
        losses = self.falls(records)
        held = bool(self.points) and all(d.mean >= self.least and d.mean > SURE * d.error for d in losses.values())
        rounded = {label: round(d.mean, 4) for label, d in losses.items()}
        return Verdict(held, Evidence(lost=rounded, least=self.least, wanted=f"each loses {self.least:g} or more"))


@dataclass(frozen=True)
class Keeps(Fall):
    """None of these falls by more than `most` from the first to the last value of `over`."""

    most: float

    def judge(self, records: Records) -> Verdict:
        losses = {label: round(d.mean, 4) for label, d in self.falls(records).items()}
        held = bool(losses) and all(loss <= self.most for loss in losses.values())
        return Verdict(held, Evidence(lost=losses, most=self.most, wanted=f"none loses more than {self.most:g}"))


@dataclass(frozen=True)
class Ahead(OfOneMeasure):
    """A point is surely above every rival: by more than `SURE` standard errors of the differences seed by seed."""

    where: Where
    rivals: Sequence[Where]

    def judge(self, records: Records) -> Verdict:
        mine = records.by_seed(self.where, self.measure)
        ahead_of = {rival.label: paired(mine, records.by_seed(rival, self.measure)) for rival in self.rivals}
        held = bool(self.rivals) and all(d.above(SURE) for d in ahead_of.values())
        estimates = {label: d.estimate for label, d in ahead_of.items()}
        return Verdict(held, Evidence(point=self.where.label, ahead_of=estimates, wanted=f"above each {SURELY}"))


@dataclass(frozen=True)
class NoWorse(OfOneMeasure):
    """A point is at most `within` below each of its rivals, over the seeds that both have."""

    where: Where
    rivals: Sequence[Where]
    within: float

    def judge(self, records: Records) -> Verdict:
        mine = records.by_seed(self.where, self.measure)
        ahead_of = {r.label: round(paired(mine, records.by_seed(r, self.measure)).mean, 4) for r in self.rivals}
        held = bool(self.rivals) and all(difference >= -self.within for difference in ahead_of.values())
        wanted = f"at most {self.within:g} below each"
        return Verdict(held, Evidence(point=self.where.label, ahead_of=ahead_of, within=self.within, wanted=wanted))


@dataclass(frozen=True)
class Ordered(OfOneMeasure):
    """The means fall in this order, and the first is surely above the last."""

    points: Sequence[Where]

    def judge(self, records: Records) -> Verdict:
        if len(self.points) < 2:
            return unjudged("fewer than two points")
        means = [records.mean(where, self.measure)[0] for where in self.points]
        first, last = (records.by_seed(self.points[i], self.measure) for i in (0, -1))
        difference = paired(first, last)
        held = all(a > b for a, b in itertools.pairwise(means)) and difference.above(SURE)
        rounded = {where.label: round(mean, 4) for where, mean in zip(self.points, means, strict=True)}
        wanted = f"means that fall in this order, the first above the last {SURELY}"
        return Verdict(held, Evidence(means=rounded, first_less_last=difference.estimate, wanted=wanted))


@dataclass(frozen=True)
class Gains(OfOneMeasure):
    """A measure of a point is above others of the same runs by `least` or more, in every seed of at least two."""

    where: Where
    over: Sequence[str]
    least: float

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure, *self.over)

    def judge(self, records: Records) -> Verdict:
        mine = records.by_seed(self.where, self.measure)
        gains = {}
        for other in self.over:
            theirs = records.by_seed(self.where, other)
            gains[other] = [round(mine[s] - theirs[s], 4) for s in sorted(mine.keys() & theirs.keys())]
        held = bool(gains) and all(len(each) > 1 and min(each) >= self.least for each in gains.values())
        wanted = f"above by {self.least:g} or more in every seed, two seeds or more"
        return Verdict(held, Evidence(measure=self.measure, above=gains, least=self.least, wanted=wanted))


@dataclass(frozen=True)
class SmallerDrop(OfOneMeasure):
    """From one value of `over` to another an arm surely loses less than each rival, seed by seed."""

    arm: str
    rivals: Sequence[str]
    over: str
    start: Any
    end: Any

    def judge(self, records: Records) -> Verdict:
        drops = {}
        for name in (self.arm, *self.rivals):
            here, there = (records.by_seed(Where(name, {self.over: v}), self.measure) for v in (self.start, self.end))
            drops[name] = {seed: here[seed] - there[seed] for seed in here.keys() & there.keys()}
        held = bool(self.rivals) and all(paired(drops[r], drops[self.arm]).above(SURE) for r in self.rivals)
        means = {name: rounded_mean(drop) for name, drop in drops.items()}
        wanted = f"{self.arm} drops less than each {SURELY}"
        return Verdict(held, Evidence(mean_drop=means, start=self.start, end=self.end, wanted=wanted))


@dataclass(frozen=True)
class Faster(OfOneMeasure):
    """Averaged over the looks on the way, a point is surely above each rival; of the same seeds."""

    where: Where
    rivals: Sequence[Where]

    def judge(self, records: Records) -> Verdict:
        mine, *others = (over_training(records, self.measure, where) for where in (self.where, *self.rivals))
        held = bool(others) and all(paired(mine, theirs).above(SURE) for theirs in others)
        labels = [where.label for where in (self.where, *self.rivals)]
        means = {label: rounded_mean(each) for label, each in zip(labels, (mine, *others), strict=True)}
        wanted = f"{self.where.label} above each {SURELY}"
        return Verdict(held, Evidence(mean_over_training=means, wanted=wanted))


@dataclass(frozen=True)
class Among:
    """Another rule about the runs with these values of what is varied."""

    varied: Settings
    rule: Rule

    @property
    def measures(self) -> tuple[str, ...]:
        return self.rule.measures

    def judge(self, records: Records) -> Verdict:
        return self.rule.judge(records.where(**self.varied))


@dataclass(frozen=True)
class Every(Together[Rule]):
    """All of these rules hold."""

    def judge(self, records: Records) -> Verdict:
        verdicts = [rule.judge(records) for rule in self.parts]
        held = bool(verdicts) and all(v.held for v in verdicts)
        return Verdict(held, Evidence(parts=[v.evidence for v in verdicts]))
