"""Arms compared fairly: seed by seed, on the same images in the same order from the same weights."""

from __future__ import annotations

from dataclasses import dataclass

from isotherm.checks import FEWEST_SEEDS
from isotherm.experiments.claims.decision import interval
from isotherm.experiments.records import Record, Records
from isotherm.experiments.study import Comparison, varied_label
from isotherm.measures.measure import Measure
from isotherm.train.layers import flat


@dataclass(frozen=True)
class Difference:
    """How much an arm is above the reference, over seeds that both have."""

    arm: str
    varied: str
    seeds: int
    mean: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def shown(self, of: Measure) -> tuple[float, float, float]:
        """The difference and its interval as the measure is shown: in percent, with its sign turned."""
        ends = of.factor * self.low, of.factor * self.high
        return of.factor * self.mean, min(ends), max(ends)

    def told(self, of: Measure) -> str:
        """Which is better, by what is better of this measure."""
        if self.seeds < FEWEST_SEEDS or not self.sure:
            return "inconclusive"
        if of.better is None:
            return "higher" if of.factor * self.mean > 0 else "lower"
        return "better" if (self.mean > 0) == (of.better == "higher") else "worse"


def differences(records: Records, wanted: Comparison) -> list[Difference]:
    """Every point of the arms less its partner, with the interval by which claims are judged, too (one seed: none)."""
    arms = wanted.arms or [a for a in records.arms() if a != wanted.against]
    points: dict[tuple[str, str], list[float]] = {}
    for record in records:
        partner = _partner(records, record, wanted.against) if record.arm in arms else None
        mine, theirs = (None if r is None else r.value(wanted.measure) for r in (record, partner))
        if mine is not None and theirs is not None:
            points.setdefault((record.arm, varied_label(record.varied)), []).append(mine - theirs)
    return [Difference(arm, varied, len(d), *interval(d)) for (arm, varied), d in points.items()]


def _partner(records: Records, record: Record, against: str) -> Record | None:
    settings = {**flat(record.settings), **record.varied}
    for other in records:
        alike = all(settings.get(k) == v for k, v in other.varied.items())
        if other.arm == against and other.seed == record.seed and alike:
            return other
    return None
