"""Ways a claim is judged: by rank correlation with a stated threshold and by seeds, never by eye."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from isotherm.studies.records import Floats, Record, Records
from isotherm.studies.study import Verdict

STRONG = 0.8
"""The rank correlation a trend needs, over the means and, where there are enough points, in every seed's own."""
SURE = 2.0
"""Standard errors that a difference needs to count."""
TAU = "loss.temperature"
Judge = Callable[[Records], Verdict]


def trend(measure: str, arm: str, direction: int, over: str = TAU, least: float = STRONG) -> Judge:
    """It rises (direction 1) or falls (−1): Spearman's ρ of the means at least `least`, and no seed against it."""

    def judge(records: Records) -> Verdict:
        x, means, deviations = records.along(arm, over, measure)
        if len(x) < 3:
            return Verdict(False, {"why": f"only {len(x)} values of {over}"})
        rho = float(spearmanr(x, means).statistic)
        per_seed = []
        for seed in records.seeds(arm):
            xs, ys, _ = records.along(arm, over, measure, seed)
            if len(xs) >= 3:
                per_seed.append(round(float(spearmanr(xs, ys).statistic), 3))
        held = direction * rho >= least and all(direction * r > 0 for r in per_seed)
        return Verdict(held, {**_values(x, means, deviations), "rho": round(rho, 3), "seeds": per_seed, "least": least})

    return judge


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
        return Verdict(held, {**_values(x, means, deviations), **shown, "must exceed": round(noise, 4), "seeds": runs})

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


def entropy_rises(arm: str, temperatures: Sequence[float]) -> Judge:
    """On the similarities of every run, H(r) strictly rises with the temperature for every query."""

    def judge(records: Records) -> Verdict:
        rows, smallest = [], math.inf
        for record in records:
            if record.arm == arm:
                entropies = np.stack([entropy(similarities(record), t) for t in temperatures])
                smallest = min(smallest, float(np.diff(entropies, axis=0).min()))
                rows.append([round(float(v), 4) for v in entropies.mean(1)])
        held = bool(rows) and smallest > 0
        return Verdict(held, {"temperatures": list(temperatures), "mean H": rows, "smallest step": smallest})

    return judge


def gradients_agree(arm: str, temperatures: Sequence[float], within: float = 1e-8) -> Judge:
    """The closed forms of eq. 4 and 5 and of ∂H/∂(1/τ) (supplement, eq. 6) are what autograd finds."""

    def judge(records: Records) -> Verdict:
        worst = 0.0
        runs = 0
        for record in records:
            if record.arm == arm:
                runs += 1
                s = similarities(record)[:64]
                worst = max(worst, *(closed_forms(s, t) for t in temperatures))
        return Verdict(runs > 0 and worst <= within, {"largest difference": worst, "within": within, "runs": runs})

    return judge


def similarities(record: Record) -> Floats:
    """Each kept item's similarities to all others, (n, n − 1), in float64."""
    with np.load(record.folder / "embedding.npz") as kept:
        z = kept["z"].astype(np.float64)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    s = z @ z.T
    found: Floats = s[~np.eye(len(s), dtype=bool)].reshape(len(s), len(s) - 1)
    return found


def entropy(s: Floats, temperature: float) -> Floats:
    """H(r) of each query, in nats."""
    e = s / temperature
    e -= e.max(1, keepdims=True)
    r = np.exp(e)
    total = r.sum(1)
    found: Floats = np.log(total) - (r * e).sum(1) / total
    return found


def closed_forms(s: Floats, temperature: float) -> float:
    """The largest difference, relative to the largest value, of the papers' closed forms from autograd.

    Query i's first column stands for its positive. ∂L/∂s_p = −(1/τ) Σ P, ∂L/∂s_j = P_j/τ (Wang & Liu eq. 4 and 5);
    ∂H/∂(1/τ) = −β Var_r(s) with β = 1/τ, which is the supplement's eq. 6.
    """
    x = torch.tensor(s, requires_grad=True)
    beta = torch.tensor(1 / temperature, dtype=torch.float64, requires_grad=True)
    losses = torch.logsumexp(x * beta.detach(), 1) - x[:, 0] * beta.detach()
    (slopes,) = torch.autograd.grad(losses.sum(), x)
    p = torch.softmax(x.detach() / temperature, 1)
    expected = p / temperature
    expected[:, 0] = -(1 - p[:, 0]) / temperature
    r = torch.softmax(x.detach() * beta, 1)
    entropies = -(r * torch.log_softmax(x.detach() * beta, 1)).sum(1)
    (slope,) = torch.autograd.grad(entropies.sum(), beta)
    with torch.no_grad():
        mean = (r * x).sum(1, keepdim=True)
        variance = (r * (x - mean).square()).sum(1)
        closed = -(variance / temperature).sum()
        first = float((slopes - expected).abs().max() / expected.abs().max())
        second = float((slope - closed).abs() / closed.abs().clamp_min(1e-12))
    return max(first, second)


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
