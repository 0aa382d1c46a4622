"""The rules by which claims are judged; a study imports them from here.

A rule says what it needs of every run (`measures`) and judges records (`judge`). It makes contrasts of them, a number
for every seed, and `decision` says what follows: no rule has a threshold of significance of its own. What is heavy is
imported when it is needed: whoever lists the studies does not judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from isotherm.experiments.claims.advised import AdviceAhead, AdviceNearBest
from isotherm.experiments.claims.along import (
    BestWithin,
    Flatter,
    InvertedU,
    Later,
    PrefersLarger,
    Saturates,
    Trend,
    TrendEverywhere,
    Tunable,
)
from isotherm.experiments.claims.between import (
    Ahead,
    AheadAsChosen,
    AheadOfBest,
    Alike,
    AtLeast,
    Behind,
    Faster,
    Gains,
    Keeps,
    Loses,
    Narrower,
    NoWorse,
    NoWorseAsChosen,
    Ordered,
    Reaches,
    Recovers,
    SmallerDrop,
)
from isotherm.experiments.claims.decision import together
from isotherm.experiments.claims.verdict import Verdict, undecided
from isotherm.experiments.study import Rule, Settings, Together

if TYPE_CHECKING:
    from isotherm.experiments.records import Records

__all__ = [
    "AdviceAhead",
    "AdviceNearBest",
    "Ahead",
    "AheadAsChosen",
    "AheadOfBest",
    "Alike",
    "Among",
    "AtLeast",
    "Behind",
    "BestWithin",
    "Every",
    "Faster",
    "Flatter",
    "Gains",
    "InvertedU",
    "Keeps",
    "Later",
    "Loses",
    "Narrower",
    "NoWorse",
    "NoWorseAsChosen",
    "Ordered",
    "PrefersLarger",
    "Reaches",
    "Recovers",
    "Saturates",
    "SmallerDrop",
    "Trend",
    "TrendEverywhere",
    "Tunable",
]


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
        if not self.parts:
            return undecided("there is nothing to judge")
        return together([rule.judge(records) for rule in self.parts])
