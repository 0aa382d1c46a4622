"""Every claim of a study with its verdict, and what is to be said of all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isotherm import files
from isotherm.experiments.claims.decision import FALSE
from isotherm.experiments.claims.verdict import Outcome, Part, Verdict
from isotherm.experiments.records import Records
from isotherm.experiments.study import Claim, Study, Where
from isotherm.experiments.wording import duration
from isotherm.measures.catalogue import measure

CEILING = 0.97
"""Where most of what is compared has this accuracy or more, there is no room left for differences."""
OUTCOMES: tuple[Outcome, ...] = ("held", "contradicted", "undecided")


@dataclass(frozen=True)
class Judged:
    """A claim, what came of it, and the points that it was asked of."""

    claim: Claim
    verdict: Verdict
    points: tuple[Where, ...]

    def as_dict(self) -> files.Json:
        """As claims.json holds it."""
        return {"claim": self.claim.claim, "paper": self.claim.paper, **self.verdict.as_dict()}


def judge(study: Study, records: Records) -> list[Judged]:
    """Every claim with its verdict."""
    judged = []
    for claim in study.claims:
        asked = records.afresh()
        verdict = claim.judge(asked)
        if verdict.part is not None and not asked.unanswered:
            verdict = _at_the_ceiling(claim, _priced(verdict, asked), verdict.part, asked)
        judged.append(Judged(claim, verdict, asked.points_asked))
    return judged


def _priced(verdict: Verdict, records: Records) -> Verdict:
    """The same verdict; if seeds would decide it, with the runs that they take, by what such runs took."""
    needed = [part.needed for part in verdict.parts if part.outcome == "undecided"]
    if verdict.outcome != "undecided" or None in needed:
        return verdict
    price: dict[str, tuple[int, float]] = {}
    for where in records.points_asked:
        runs = sorted(records.at(where), key=lambda record: record.seed)
        if len(runs) > 1:  # of others one run stands for the point, whatever the seeds
            more = max(n for n in needed if n is not None) - len(runs)
            cost = more * float(np.median([run.seconds for run in runs]))
            price[runs[0].key] = (more, cost) if more > 0 else (0, 0.0)  # two arms may share their runs
    runs_more, seconds = (sum(each) for each in zip(*price.values(), strict=True)) if price else (0, 0.0)
    if not runs_more:
        return verdict
    return replace(verdict, remedy=f"{verdict.remedy}: {runs_more} more runs, {duration(seconds)} of training")


def _at_the_ceiling(claim: Claim, verdict: Verdict, part: Part, records: Records) -> Verdict:
    """The same verdict, but where the probe cannot do better nothing is said: all are alike there, and no seed helps.

    A difference that shows all the same, and one that is too large for being alike, count.
    """
    if verdict.outcome == ("contradicted" if part.bound else "held"):
        return verdict
    for name in claim.measures:
        known = measure(name)
        at_points = [records.mean(where, name) for where in records.points_asked]
        means = [mean for mean, _, runs in at_points if runs]
        if known.unit == "%" and known.better == "higher" and means and np.median(means) >= CEILING:
            said = f"not on this data: {known.title} is at its ceiling ({100 * float(np.mean(means)):.1f} % on average)"
            return replace(verdict, outcome="undecided", remedy=said)
    return verdict


def count(judged: Sequence[Judged]) -> dict[Outcome, int]:
    """How many claims came out how."""
    counted = Counter(each.verdict.outcome for each in judged)
    return {outcome: counted[outcome] for outcome in OUTCOMES}


def by_chance(judged: Sequence[Judged]) -> str:
    """How many claims would be held by chance if nothing that they say were so."""
    estimated = [each for each in judged if each.verdict.part is not None and each.verdict.part.seeds]
    n, all_of_them = len(estimated), len(estimated) == len(judged)
    if not estimated:
        return ""
    if n == 1:
        which = "the claim were false, it" if all_of_them else "the one with an interval over seeds were false, it"
        return f"If {which} would still come out 'held' in at most {FALSE:.0%} of studies."
    which = f"these {n}" if all_of_them else f"the {n} that have an interval over seeds"
    return f"If no claim were true, expect at most {FALSE * n:.2g} false 'held' among {which} ({FALSE:.0%} each)."
