"""How a claim is decided: by an effect, its interval over seeds, and the least effect that counts; all of it is here.

A rule turns a claim into `Contrast`s: a number for every seed, which the claim says is at least something, or at most.

- *At least* (`at_least`): **held** if the mean reaches the least effect that counts and the interval excludes zero,
  **contradicted** if the whole interval lies below the least effect, else **undecided**.
- *At most* (`at_most`; being alike, no worse, keeping something): **held** if the whole interval lies within the bound,
  **contradicted** if it lies beyond, else **undecided**.
- Several at once: held if all are, contradicted if one is (at a level divided by their number), else undecided.

The interval is Student's. Looking again after more seeds is another chance to be wrong, so the level depends on the
number of seeds: whoever looks at 3, 4, … up to `MOST_SEEDS` seeds and stops when something is decided is wrong in
at most 5 % of the cases, be it *held* without an effect or *contradicted* with just the least one. Simulated in
tests/experiments/test_error_rates.py; docs/decisions/0017 has the table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isotherm.checks import FEWEST_SEEDS
from isotherm.experiments.claims.verdict import Evidence, Outcome, Part, Verdict

FALSE = 0.05
"""How often a claim may be held without an effect, or contradicted with the least one that counts."""
MOST_SEEDS = 12
"""As many as looking again and again is calibrated for."""
HOPELESS = 60
"""Seeds beyond which nobody would wait for a decision."""


def level(seeds: int) -> float:
    """The chance of error that one look may spend, on each side: most of it at three seeds, where a grid ends."""
    return 0.001 if seeds < FEWEST_SEEDS else 0.03 if seeds == FEWEST_SEEDS else 0.005


@dataclass(frozen=True)
class Contrast:
    """What a claim says of a number that every seed has."""

    what: str
    by_seed: Mapping[int, float]
    least: float
    bound: bool = False
    measure: str = ""
    largest: float = math.inf
    """No such number is larger, or smaller than its negative: where the interval ends at the latest."""


def at_least(what: str, by_seed: Mapping[int, float], least: float = 0.0, measure: str = "") -> Contrast:
    """The number is above zero, and reaches what counts."""
    return Contrast(what, by_seed, least, False, measure)


def correlated(what: str, by_seed: Mapping[int, float], least: float) -> Contrast:
    """A rank correlation, which is at most 1, reaches what counts."""
    return Contrast(f"rank correlation ({what})", by_seed, least, largest=1.0)


def at_most(what: str, by_seed: Mapping[int, float], bound: float, measure: str = "") -> Contrast:
    """The number stays within a bound."""
    return Contrast(what, by_seed, bound, True, measure)


def decide(contrasts: Sequence[Contrast], **evidence: Any) -> Verdict:
    """The verdict on a claim that says all of these."""
    if not contrasts:
        return Verdict("undecided", None, Evidence(why="there is nothing to compare", **evidence))
    return _of_parts([_judged(contrast, len(contrasts)) for contrast in contrasts], **evidence)


def _of_parts(parts: Sequence[Part], **evidence: Any) -> Verdict:
    outcomes = {part.outcome for part in parts}
    outcome: Outcome = (
        "contradicted" if "contradicted" in outcomes else "undecided" if "undecided" in outcomes else "held"
    )
    telling = min((part for part in parts if part.outcome == outcome), key=_support)
    return Verdict(
        outcome, telling, Evidence(**evidence, parts=list(parts)), _remedy(parts) if outcome == "undecided" else ""
    )


def exact(what: str, number: float, holds: bool, least: float, bound: bool = False, **evidence: Any) -> Verdict:
    """The verdict on something that is computed, not estimated: no seed changes it."""
    outcome: Outcome = "held" if holds else "contradicted"
    part = Part(what, number, (number, number), least, bound, {}, outcome, 0)
    return Verdict(outcome, part, Evidence(**evidence, parts=[part]))


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a claim that says all of what these say."""
    if any(verdict.part is None for verdict in verdicts):
        whys = [verdict.evidence.get("why", "") for verdict in verdicts if verdict.part is None]
        return Verdict("undecided", None, Evidence(why="; ".join(dict.fromkeys(filter(None, whys)))))
    parts = [part for verdict in verdicts for part in verdict.parts]
    return _of_parts([_again(part, len(parts)) for part in parts])


def _again(part: Part, among: int) -> Part:
    """A part among more of them; what was computed stays as it is."""
    if not part.by_seed:
        return part
    judged = _judged(Contrast(part.what, part.by_seed, part.least, part.bound, part.measure), among)
    return replace(judged, interval=part.interval)


def interval(values: Sequence[float], sides: int = 1) -> tuple[float, float, float]:
    """Mean, and Student's interval of it at the level of so many seeds, divided among `sides` things said at once."""
    n = len(values)
    if n == 0:
        return math.nan, math.nan, math.nan
    mean = float(np.mean(values))
    if n == 1:
        return mean, -math.inf, math.inf
    half = _half(float(np.std(values, ddof=1)), n, sides)
    return mean, mean - half, mean + half


def _half(deviation: float, seeds: int, sides: int) -> float:
    return _quantile(seeds, sides) * deviation / math.sqrt(seeds)


@functools.cache
def _quantile(seeds: int, sides: int) -> float:
    from scipy.special import stdtrit  # Student's t, without the weight of scipy.stats

    return float(stdtrit(seeds - 1, 1 - level(seeds) / sides))


def _judged(contrast: Contrast, among: int) -> Part:
    values = [float(value) for value in contrast.by_seed.values()]
    mean, low, high = interval(values)
    outcome: Outcome = "undecided"
    needed: int | None = 3
    if len(values) > 1:
        deviation = float(np.std(values, ddof=1))
        outcome = outcome_at(contrast, mean, deviation, len(values), among)
        more = range(len(values) if outcome != "undecided" else len(values) + 1, HOPELESS + 1)
        needed = next((n for n in more if outcome_at(contrast, mean, deviation, n, among) != "undecided"), None)
    return Part(
        contrast.what,
        mean,
        (max(low, -contrast.largest), min(high, contrast.largest)),
        contrast.least,
        contrast.bound,
        contrast.by_seed,
        outcome,
        needed,
        contrast.measure,
    )


def outcome_at(contrast: Contrast, mean: float, deviation: float, seeds: int, among: int = 1) -> Outcome:
    """What this mean and spread say, had they come from so many seeds."""
    if seeds < FEWEST_SEEDS:
        return "undecided"
    half, wide = _half(deviation, seeds, 1), _half(deviation, seeds, among)
    if contrast.bound:
        held, contradicted = mean + half <= contrast.least, mean - wide > contrast.least
    else:
        held, contradicted = mean >= contrast.least and mean - half > 0, mean + wide < contrast.least
    return "held" if held else "contradicted" if contradicted else "undecided"


def _support(part: Part) -> float:
    """How far on the claim's side of what counts an effect lies, in half widths of its interval."""
    half = (part.interval[1] - part.interval[0]) / 2
    gap = part.least - part.effect if part.bound else part.effect - part.least
    if not math.isfinite(gap) or not math.isfinite(half):
        return -math.inf
    return gap / half if half > 0 else math.copysign(math.inf, gap) if gap else 0.0


def _remedy(parts: Sequence[Part]) -> str:
    """What would decide an undecided claim."""
    open_parts = [part for part in parts if part.outcome == "undecided"]
    if any(part.seeds < 2 for part in open_parts):
        return "runs of at least three seeds"
    needed = [part.needed for part in open_parts]
    if any(n is None for n in needed):
        return f"more than {HOPELESS} seeds at the measured spread: the effect lies too near to what counts"
    return f"about {max(n for n in needed if n is not None)} seeds at the measured spread"
