"""Rules about advice: runs at several temperatures, each of whose embeddings recommends one to train at.

Nobody trains at what was recommended: what a seed would have there is read off its own line over the temperatures,
straight between neighbours on a logarithmic axis, and no further than its ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from isotherm.experiments.claims.along import TAU
from isotherm.experiments.claims.by_seed import BySeed, best, by_seed_of, line, minus
from isotherm.experiments.claims.decision import at_least, at_most, decide
from isotherm.experiments.claims.verdict import Verdict, undecided
from isotherm.experiments.study import ArmName, OfOneMeasure

if TYPE_CHECKING:
    from isotherm.experiments.records import Records

RECOMMENDED = "recommended_temperature"


@dataclass(frozen=True)
class _Followed(OfOneMeasure):
    """What both rules need: the measure where the advice leads from each temperature, followed so many times."""

    arm: ArmName
    by: str = RECOMMENDED
    times: int = 1
    over: str = TAU

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure, self.by)

    def followed(self, records: Records) -> dict[float, BySeed]:
        """From each temperature, for every seed: the measure where its advice leads."""
        found: dict[float, BySeed] = {}
        advice = by_seed_of(line(records, self.arm, self.over, self.by))
        for seed, (x, y) in by_seed_of(line(records, self.arm, self.over, self.measure)).items():
            sources, advised = advice.get(seed, (x[:0], y[:0]))
            if len(x) < 2 or len(sources) < 2:
                continue
            for source in sources:
                at = np.log(source)
                for _ in range(self.times):
                    at = np.interp(at, np.log(sources), np.log(advised))
                found.setdefault(float(source), {})[seed] = float(np.interp(at, np.log(x), y))
        return found

    def mean(self, found: dict[float, BySeed]) -> BySeed:
        """Over the temperatures that one may come from."""
        seeds = sorted(set.intersection(*(set(by_seed) for by_seed in found.values())))
        return {s: float(np.mean([by_seed[s] for by_seed in found.values()])) for s in seeds}


@dataclass(frozen=True)
class AdviceAhead(_Followed):
    """On average over where one comes from, the advice leads to something better than a fixed temperature."""

    usual: float = 0.2
    least: float = 0.005

    def judge(self, records: Records) -> Verdict:
        found, points = self.followed(records), line(records, self.arm, self.over, self.measure)
        if not found or self.usual not in points:
            return undecided(f"fewer than two temperatures of {self.arm}, or none at {self.usual:g}", "runs at them")
        gains = {source: minus(by_seed, points[self.usual]) for source, by_seed in found.items()}
        better = [gain > 0 for by_seed in gains.values() for gain in by_seed.values()]
        what = f"where the advice leads, above {self.usual:g}"
        return decide(
            [at_least(what, self.mean(gains), self.least, self.measure)],
            gain_from={f"{source:g}": float(np.mean(list(g.values()))) for source, g in gains.items() if g},
            better=f"{sum(better)} of {len(better)}",
        )


@dataclass(frozen=True)
class AdviceNearBest(_Followed):
    """On average over where one comes from, the advice leads to within so much of the best temperature of all."""

    within: float = 0.01

    def judge(self, records: Records) -> Verdict:
        found, points = self.followed(records), line(records, self.arm, self.over, self.measure)
        if not found:
            return undecided(f"fewer than two temperatures of {self.arm} with advice", "runs at two or more")
        top = best(points)
        what = "how far below the best temperature the advice leads"
        lost = {source: minus(top.by_seed, by_seed) for source, by_seed in found.items()}
        return decide(
            [at_most(what, self.mean(lost), self.within, self.measure)],
            lost_from={f"{source:g}": float(np.mean(list(b.values()))) for source, b in lost.items() if b},
            best_at=top.at,
        )
