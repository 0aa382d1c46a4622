"""Ways a claim is judged: by rank correlation with a stated threshold and by seeds, never by eye."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from isotherm.experiments.records import Floats, Records
from isotherm.experiments.study import Verdict

STRONG = 0.8
"""The rank correlation that a trend needs over the means; each seed's own must have its sign."""
SURE = 2.0
"""Standard errors that a difference needs to count."""
TAU = "loss.temperature"
Judge = Callable[[Records], Verdict]
Place = tuple[str, Mapping[str, Any]]
"""An arm, and values of what is varied in it."""


def trend(measure: str, arm: str, direction: int, over: str = TAU, least: float = STRONG) -> Judge:
    """It rises (direction 1) or falls (−1): Spearman's ρ of the means at least `least`, and no seed against it."""

    def judge(records: Records) -> Verdict:
        x, means, deviations = records.along(arm, over, measure)
        if len(x) < 3:
            return Verdict(False, {"why": f"only {len(x)} values of {over}"})
        rho = rank(x, means)
        per_seed = []
        for seed in records.seeds(arm):
            xs, ys, _ = records.along(arm, over, measure, seed)
            if len(xs) >= 3:
                per_seed.append(round(rank(xs, ys), 3))
        held = direction * rho >= least and all(direction * r > 0 for r in per_seed)
        return Verdict(
            held, {**_values(x, means, deviations), "rho": round(rho, 3), "rho of each seed": per_seed, "least": least}
        )

    return judge


def rank(x: Any, y: Any) -> float:
    """Spearman's ρ; 0 where one of them does not change."""
    known = np.isfinite(np.asarray(x, float)) & np.isfinite(np.asarray(y, float))
    x, y = np.asarray(x, float)[known], np.asarray(y, float)[known]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return round(float(spearmanr(x, y).statistic), 3)


def inverted_u(measure: str, arm: str, over: str = TAU) -> Judge:
    """The best lies inside, and both ends are below it by more than `SURE` standard errors.

    Only points with the most seeds count: the best of many single runs is the luckiest one.
    """

    def judge(records: Records) -> Verdict:
        x, means, deviations, runs = _replicated(records, arm, over, measure)
        if len(x) < 3:
            return Verdict(False, {"why": f"only {len(x)} values of {over}"})
        best = int(np.argmax(means))
        noise = SURE * _error(deviations, runs)
        drops = [float(means[best] - means[0]), float(means[best] - means[-1])]
        held = runs > 1 and 0 < best < len(x) - 1 and min(drops) > noise
        shown = {"best": float(x[best]), "below the best at the ends": [round(d, 4) for d in drops]}
        return Verdict(held, {**_values(x, means, deviations), **shown, "must exceed": round(noise, 4), "runs": runs})

    return judge


def behind(measure: str, arm: str, rival: str, by: float, over: str = TAU) -> Judge:
    """An arm is at least `by` behind the best point of another, and by more than two standard deviations."""

    def judge(records: Records) -> Verdict:
        value, deviation, runs = records.mean(arm, measure)
        best, at, spread = _best(records, rival, measure, over)
        gap = best - value
        noise = SURE * math.hypot(deviation, spread) / math.sqrt(max(1, runs))
        held = runs > 0 and gap >= by and gap > noise
        return Verdict(held, _rivals(arm, value, deviation, rival, best, at) | {"gap": round(gap, 4), "least": by})

    return judge


def recovers(
    measure: str, arm: str, weak: str, rival: str, within: float, lower: bool = False, over: str = TAU
) -> Judge:
    """The weak arm lacks something; this one is within `within` of the best and makes up at least half of it."""
    sign = -1 if lower else 1

    def judge(records: Records) -> Verdict:
        value, deviation, runs = records.mean(arm, measure)
        low, low_deviation, _ = records.mean(weak, measure)
        best, at, spread = _best(records, rival, measure, over, sign)
        lacking = sign * (best - low)
        noise = SURE * math.hypot(low_deviation, spread) / math.sqrt(max(1, runs))
        made_up = sign * (value - low) / lacking if lacking > 0 else math.nan
        held = runs > 0 and lacking > noise and sign * (best - value) <= within and made_up >= 0.5
        shown = {"made up": round(made_up, 3), weak: round(low, 4), "within": within}
        shown |= {"lacking": round(lacking, 4), "which must exceed": round(noise, 4)}
        return Verdict(bool(held), _rivals(arm, value, deviation, rival, best, at) | shown)

    return judge


def flatter(measure: str, arm: str, than: str, most: float = 1 / 3, over: str = TAU) -> Judge:
    """Over the same values, an arm moves at most this part of what another moves."""

    def judge(records: Records) -> Verdict:
        ranges = {}
        for name in (arm, than):
            x, means, _ = records.along(name, over, measure)
            if len(x) < 2:
                return Verdict(False, {"why": f"too few values of {over} for {name}"})
            ranges[name] = float(means.max() - means.min())
        part = ranges[arm] / ranges[than] if ranges[than] else math.inf
        shown = {f"range of {name}": round(r, 4) for name, r in ranges.items()}
        return Verdict(part <= most, {**shown, "part": round(part, 3), "most": round(most, 3)})

    return judge


def prefers_larger(measure: str, arm: str, than: str, over: str = TAU) -> Judge:
    """An arm's best value of what is varied is larger than the other's, and at the largest value it is surely ahead."""

    def judge(records: Records) -> Verdict:
        found: dict[str, Any] = {}
        for name in (arm, than):
            x, means, deviations, runs = _replicated(records, name, over, measure)
            if len(x) < 2:
                return Verdict(False, {"why": f"too few values of {over} for {name}"})
            found[name] = (float(x[int(np.argmax(means))]), float(means[-1]), _error(deviations, runs), runs)
        ahead = found[arm][1] - found[than][1]
        noise = SURE * max(found[arm][2], found[than][2])
        held = found[arm][3] > 1 and found[arm][0] > found[than][0] and ahead > noise
        shown = {f"best {name}": values[0] for name, values in found.items()}
        return Verdict(held, shown | {"ahead at the largest": round(ahead, 4), "must exceed": round(noise, 4)})

    return judge


def alike(measure: str, points: Sequence[Place], within: float) -> Judge:
    """The means of all these points lie within `within` of each other."""

    def judge(records: Records) -> Verdict:
        found = {_name(p): records.mean(p[0], measure, p[1]) for p in points}
        means = [m for m, _, n in found.values() if n]
        spread = max(means) - min(means) if len(means) == len(points) else math.nan
        shown = {name: round(m, 4) for name, (m, _, _) in found.items()}
        return Verdict(spread <= within, {**shown, "spread": round(spread, 4), "within": within})

    return judge


def narrower(
    measure: str, arms: Sequence[str], over: str, most: float = 0.75, fixed: Mapping[str, Any] | None = None
) -> Judge:
    """From the first to the last value of `over` the spread of the arms shrinks to at most this part.

    The spread is taken within each seed that all of them have at both values: means of more seeds lie closer anyway.
    """

    def judge(records: Records) -> Verdict:
        chosen = records.where(**dict(fixed or {}))
        values = sorted({r.varied[over] for r in chosen if r.arm in arms and over in r.varied})
        if len(values) < 2:
            return Verdict(False, {"why": f"fewer than two values of {over}"})
        points = {v: [chosen.by_seed(arm, measure, {over: v}) for arm in arms] for v in (values[0], values[-1])}
        seeds = set.intersection(*(set(found) for each in points.values() for found in each))
        if not seeds:
            return Verdict(False, {"why": "no seed has all of them"})
        spreads = {v: float(np.mean([np.ptp([f[s] for f in each]) for s in seeds])) for v, each in points.items()}
        shown = {f"spread at {v}": round(s, 4) for v, s in spreads.items()}
        held = spreads[values[-1]] <= most * spreads[values[0]]
        return Verdict(held, {**shown, "most of it": most, "seeds": len(seeds)})

    return judge


def trend_everywhere(measure: str, arm: str, over: str, fixed: str, direction: int, part: float = STRONG) -> Judge:
    """At most values of `fixed` it rises (1) or falls (−1) along `over`: Spearman's ρ of at least `STRONG`."""

    def judge(records: Records) -> Verdict:
        rhos = {value: rank(x, means) for value, x, means in _lines(records, arm, over, fixed, measure)}
        share = float(np.mean([direction * r >= STRONG for r in rhos.values()])) if rhos else 0.0
        shown = {f"ρ at {v}": r for v, r in rhos.items()}
        return Verdict(share >= part, {**shown, "part that does": round(share, 3), "least": part})

    return judge


def best_moves(measure: str, arm: str, over: str, along: str, direction: int) -> Judge:
    """The best value of `over` rises (1) or falls (−1) with `along`: Spearman's ρ of at least `STRONG`."""

    def judge(records: Records) -> Verdict:
        best = {v: float(x[int(np.argmax(means))]) for v, x, means in _lines(records, arm, over, along, measure)}
        moves = len(best) >= 3 and len(set(best.values())) > 1
        rho = rank(list(best), list(best.values())) if moves else math.nan
        return Verdict(direction * rho >= STRONG, {"best at": best, "rho": round(rho, 3), "least": STRONG})

    return judge


def saturates(measure: str, points: Sequence[Place], over: str, share: float, part: float) -> Judge:
    """Of all that a measure falls along `over`, `share` has happened within the first `part` of its range."""

    def judge(records: Records) -> Verdict:
        shown, held = {}, bool(points)
        for place in points:
            x, means = _line(records, place, over, measure)
            reached = reaches(x, means, share)
            shown[_name(place)] = round(reached, 2)
            held &= len(x) >= 3 and reached <= x[0] + part * (x[-1] - x[0])
        return Verdict(held, {f"{share:.0%} reached at": shown, "within the first": part})

    return judge


def later(measure: str, arm: str, over: str, along: str, share: float, fixed: Mapping[str, Any] | None = None) -> Judge:
    """Where it saturates grows with `along`."""

    def judge(records: Records) -> Verdict:
        wanted = dict(fixed or {})
        mine = [r for r in records if r.arm == arm and all(r.varied.get(k) == v for k, v in wanted.items())]
        at = {}
        for value in sorted({r.varied[along] for r in mine}):
            x, means = _line(records, (arm, {**wanted, along: value}), over, measure)
            at[value] = round(reaches(x, means, share), 3)
        whole = len(at) >= 3 and all(map(math.isfinite, at.values()))
        rho = rank(list(at), list(at.values())) if whole else math.nan
        return Verdict(rho >= STRONG, {f"{share:.0%} reached at": at, "rho": round(rho, 3), "least": STRONG})

    return judge


def reaches(x: Floats, y: Floats, share: float) -> float:
    """Where `share` of the way from the first to the lowest value is gone, between points in a straight line."""
    if len(x) < 2 or y.min() >= y[0]:
        return math.nan
    level = y[0] - share * (y[0] - y.min())
    k = int(np.argmax(y <= level))
    return float(x[k - 1] + (x[k] - x[k - 1]) * (y[k - 1] - level) / (y[k - 1] - y[k]))


def loses(measure: str, points: Sequence[Place], over: str, least: float) -> Judge:
    """Every one of these falls by at least `least` from the first to the last value of `over`; with seeds, surely."""

    def judge(records: Records) -> Verdict:
        shown, held = {}, bool(points)
        for place in points:
            lost, error = _lost(records, place, over, measure)
            shown[_name(place)] = round(lost, 4)
            held &= lost >= least and lost > SURE * error
        return Verdict(held, {"lost": shown, "least": least})

    return judge


def keeps(measure: str, points: Sequence[Place], over: str, most: float) -> Judge:
    """None of these falls by more than `most` from the first to the last value of `over`."""

    def judge(records: Records) -> Verdict:
        shown = {_name(place): round(_lost(records, place, over, measure)[0], 4) for place in points}
        return Verdict(all(lost <= most for lost in shown.values()), {"lost": shown, "most": most})

    return judge


def ahead(measure: str, place: Place, rivals: Sequence[Place]) -> Judge:
    """A point is surely above every rival: by more than `SURE` standard errors of the differences seed by seed."""

    def judge(records: Records) -> Verdict:
        shown, held = {}, bool(rivals)
        for rival in rivals:
            mean, error, n = _paired(records, measure, place, rival)
            shown[_name(rival)] = f"{mean:+.4f} ± {error:.4f}" if n else "no runs"
            held &= n > 1 and mean > SURE * error
        return Verdict(held, {f"{_name(place)} less": shown})

    return judge


def no_worse(measure: str, place: Place, rivals: Sequence[Place], within: float) -> Judge:
    """A point is at most `within` below each of its rivals, over the seeds that both have."""

    def judge(records: Records) -> Verdict:
        ahead_of = {_name(r): round(_paired(records, measure, place, r)[0], 4) for r in rivals}
        held = bool(rivals) and all(d >= -within for d in ahead_of.values())
        return Verdict(held, {f"{_name(place)} less": ahead_of, "within": within})

    return judge


def ordered(measure: str, points: Sequence[Place]) -> Judge:
    """The means fall in this order, and the first is surely above the last."""

    def judge(records: Records) -> Verdict:
        means = [records.mean(p[0], measure, p[1])[0] for p in points]
        difference, error, n = _paired(records, measure, points[0], points[-1])
        falling = all(a > b for a, b in itertools.pairwise(means))
        held = falling and n > 1 and difference > SURE * error
        shown = {_name(p): round(m, 4) for p, m in zip(points, means, strict=True)}
        return Verdict(held, {**shown, "first less last": f"{difference:+.4f} ± {error:.4f}"})

    return judge


def gains(measure: str, place: Place, over: Sequence[str], least: float) -> Judge:
    """A measure of a point is above others of the same runs by `least` or more, in every seed."""

    def judge(records: Records) -> Verdict:
        mine = records.by_seed(place[0], measure, place[1])
        shown = {}
        for other in over:
            theirs = records.by_seed(place[0], other, place[1])
            shown[other] = [round(mine[s] - theirs[s], 4) for s in sorted(mine.keys() & theirs.keys())]
        held = all(found and min(found) >= least for found in shown.values())
        return Verdict(held, {f"{measure} less": shown, "least": least})

    return judge


def smaller_drop(measure: str, arm: str, rivals: Sequence[str], over: str, start: Any, end: Any) -> Judge:
    """From one value of `over` to another an arm surely loses less than each rival, seed by seed."""

    def judge(records: Records) -> Verdict:
        drops = {}
        for name in (arm, *rivals):
            here, there = (records.by_seed(name, measure, {over: v}) for v in (start, end))
            drops[name] = {s: here[s] - there[s] for s in here.keys() & there.keys()}
        shown, held = {arm: _rounded(drops[arm])}, True
        for rival in rivals:
            both = drops[arm].keys() & drops[rival].keys()
            mean, error = _standard([drops[rival][s] - drops[arm][s] for s in both])
            shown[rival] = _rounded(drops[rival])
            held &= len(both) > 1 and mean > SURE * error
        return Verdict(held, {"mean drop": shown, "from": start, "to": end})

    return judge


def faster(measure: str, place: Place, rivals: Sequence[Place]) -> Judge:
    """Averaged over the looks on the way, a point is surely above each rival; of the same seeds."""

    def judge(records: Records) -> Verdict:
        mine = on_the_way(records, measure, place)
        shown, held = {_name(place): _rounded(mine)}, bool(mine)
        for rival in rivals:
            theirs = on_the_way(records, measure, rival)
            both = mine.keys() & theirs.keys()
            mean, error = _standard([mine[s] - theirs[s] for s in both])
            shown[_name(rival)] = _rounded(theirs)
            held &= len(both) > 1 and mean > SURE * error
        return Verdict(held, {"mean over the training": shown})

    return judge


def on_the_way(records: Records, measure: str, place: Place) -> dict[int, float]:
    """A measure's mean over all looks during training, for every seed."""
    found = {}
    for r in records:
        if r.arm == place[0] and all(r.varied.get(k) == v for k, v in place[1].items()):
            values = [line[measure] for line in r.monitored() if measure in line]
            if values:
                found[r.seed] = float(np.mean(values))
    return found


def _lines(records: Records, arm: str, over: str, by: str, measure: str) -> list[tuple[Any, Floats, Floats]]:
    """For each value of `by` the line along `over`, where it has three points."""
    values = sorted({r.varied[by] for r in records if r.arm == arm and by in r.varied})
    found = [(value, *_line(records, (arm, {by: value}), over, measure)) for value in values]
    return [line for line in found if len(line[1]) >= 3]


def _line(records: Records, place: Place, over: str, measure: str) -> tuple[Floats, Floats]:
    arm, fixed = place
    chosen = Records(r for r in records if all(r.varied.get(k) == v for k, v in fixed.items()))
    x, means, _ = chosen.along(arm, over, measure)
    return x, means


def _lost(records: Records, place: Place, over: str, measure: str) -> tuple[float, float]:
    """How much is lost from the first to the last value, and its standard error."""
    x, _ = _line(records, place, over, measure)
    if len(x) < 2:
        return math.nan, math.nan
    mean, error, _ = _paired(
        records, measure, (place[0], {**place[1], over: x[0]}), (place[0], {**place[1], over: x[-1]})
    )
    return mean, error


def _paired(records: Records, measure: str, place: Place, rival: Place) -> tuple[float, float, int]:
    """Mean of the differences seed by seed, its standard error, and how many there are."""
    mine, theirs = (records.by_seed(p[0], measure, p[1]) for p in (place, rival))
    both = mine.keys() & theirs.keys()
    return *_standard([mine[s] - theirs[s] for s in both]), len(both)


def _standard(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error."""
    if not values:
        return math.nan, math.nan
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def _rounded(by_seed: Mapping[int, float]) -> float:
    return round(float(np.mean(list(by_seed.values()))), 4) if by_seed else math.nan


def _name(place: Place) -> str:
    shown = ", ".join(f"{k.rpartition('.')[2]} {v}" for k, v in place[1].items())
    return f"{place[0]}{' ' if shown else ''}{shown}"


def _replicated(records: Records, arm: str, over: str, measure: str) -> tuple[Floats, Floats, Floats, int]:
    """`Records.along` where there are the most seeds, and how many those are."""
    x, means, deviations = records.along(arm, over, measure)
    runs = np.array([records.mean(arm, measure, {over: v})[2] for v in x])
    most = int(runs.max()) if len(runs) else 0
    chosen = runs == most
    return x[chosen], means[chosen], deviations[chosen], most


def _error(deviations: Floats, runs: int) -> float:
    """The standard error of the difference of two means over seeds."""
    return float(np.sqrt(np.mean(np.square(deviations)) * 2 / runs)) if runs else 0.0


def _best(records: Records, arm: str, measure: str, over: str, sign: int = 1) -> tuple[float, float, float]:
    x, means, deviations, _ = _replicated(records, arm, over, measure)
    if not len(x):
        return math.nan, math.nan, math.nan
    best = int(np.argmax(sign * means))
    return float(means[best]), float(x[best]), float(deviations[best])


def _rivals(arm: str, value: float, deviation: float, rival: str, best: float, at: float) -> dict[str, Any]:
    return {arm: round(value, 4), "sd": round(deviation, 4), f"best {rival}": round(best, 4), "at": at}


def _values(x: Any, means: Any, deviations: Any) -> dict[str, Any]:
    points = zip(x, means, deviations, strict=True)
    return {"values": [[round(float(a), 4), round(float(b), 4), round(float(c), 4)] for a, b, c in points]}
