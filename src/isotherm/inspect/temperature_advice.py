"""Which temperature suits an embedding, in words: from the part of the negatives that is reached (`measures.reach`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isotherm.measures.reach import BINS, COLDEST, HIGH, LOW, Floats, Queries
from isotherm.report import number
from isotherm.temperature import Cosine

LOWEST, HIGHEST, COUNT = 0.01, 2.0, 24
"""The temperatures that are looked at; from lower ones on where lower ones are recommended."""
ALIKE = 0.01
"""Similarities that differ by less (standard deviation) are next to one number, at the lowest of temperatures too."""
PROFILES = (0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class Hardness:
    """How a sample of queries divides its repulsion, over a range of temperatures."""

    queries: int
    negatives: int
    temperatures: Floats
    reach: Floats
    """At each temperature: the part of the negatives that the repulsion amounts to."""
    same_class: Floats | None
    """At each temperature: the part of the repulsion that falls on the query's own class (false negatives)."""
    edges: Floats
    profiles: dict[float, Floats]
    """At a few temperatures: the part of the repulsion on each bin of similarities."""


@dataclass(frozen=True)
class Advice:
    """A range of temperatures, or why there is none."""

    low: float | None
    high: float | None
    tau_min: float | None
    tau_max: float | None
    profile_reach: float | None
    """The reach under the DySTreSS profile Cosine(tau_min, tau_max)."""
    reasoning: str
    """What is recommended and why, in two sentences."""
    own_class: tuple[float, float] | None = None
    """With labels: the part of the repulsion on the query's own class at `low` and at `high`."""
    more: str = ""
    """What else there is to know about it."""


def hardness_of(queries: Queries, advice: Advice) -> Hardness:
    """The reach over a range of temperatures, and on which similarities the repulsion falls at a few of them."""
    grid = np.geomspace(min(LOWEST, (advice.low or LOWEST) / 2), HIGHEST, COUNT)
    reach, own = zip(*(queries.at(float(t)) for t in grid), strict=True)
    return Hardness(
        queries=len(queries.s),
        negatives=queries.s.shape[1],
        temperatures=grid,
        reach=np.array(reach),
        same_class=None if queries.same is None else np.array(own),
        edges=np.linspace(-1, 1, BINS + 1),
        profiles={t: queries.profile(t) for t in PROFILES},
    )


def advise(queries: Queries, against: str = "") -> Advice:
    """The temperatures at which the repulsion reaches neither too few nor too many negatives.

    `against` says why none should be recommended, whatever the similarities are.
    """
    m = queries.s.shape[1]
    nothing = (None,) * 5
    if against:
        return Advice(*nothing, f"No temperature is recommended: {against}")
    if queries.few:
        return Advice(
            *nothing, f"No temperature is recommended: {m} negatives are too few to speak of {LOW:.0%} of them."
        )
    low, high = queries.temperature_of(LOW), queries.temperature_of(HIGH)
    if low is None or high is None:
        return Advice(*nothing, f"No temperature is recommended: {_why_none(queries)}")
    low, high = _short(low), _short(high)
    own, own_class = "", None
    if queries.same is not None:
        chance = float(queries.same.double().mean())
        own_class = queries.at(low)[1], queries.at(high)[1]
        own = f" (at {low:g} {own_class[0]:.0%} falls on the query's own class, by chance {chance:.0%})"
    profile = queries.reach(Cosine(low, high))
    return Advice(
        low=low,
        high=high,
        tau_min=low,
        tau_max=high,
        profile_reach=profile,
        own_class=own_class,
        reasoning=(
            f"For a loss on these vectors: between τ = {low:g} and τ = {high:g} a query's repulsion amounts to "
            f"{LOW:.0%} to {HIGH:.0%} of its negatives (exp H(r), mean over {len(queries.s)} queries). Below, the "
            f"nearest few take it all{own}; above, the loss tells hard negatives less and less from easy ones."
        ),
        more=(
            "The part reached hardly depends on how many negatives there are, if some hundreds: the range holds for "
            "other batch sizes. It describes the embedding as it is: training at another τ moves it, so look again "
            "afterwards. A run's loss sees what its head gives, which `isotherm evaluate` examines; `isotherm embed` "
            "writes the encoder's features, whose range is another."
            f"\n\nFor DySTreSS take tau_min = {low:g} and tau_max = {high:g}: the sharp end for similarities around 0, "
            "where true negatives lie, the soft end towards ±1, where false negatives lie. That profile reaches "
            f"{profile:.0%} of the negatives."
        ),
    )


def _why_none(queries: Queries) -> str:
    spread = float(queries.s.double().std())
    if spread < ALIKE:
        return (
            f"similarities differ so little (standard deviation {number(spread, 3)}) that at any sensible temperature "
            "nearly all negatives count alike. Mend the collapse first."
        )
    return (
        f"{queries.reach(COLDEST):.0%} of a query's negatives are as similar to it as its nearest one (clusters that "
        f"have shrunk to points, or copies), so that no temperature has it reach as few as {LOW:.0%} of them."
    )


def _short(value: float) -> float:
    return float(f"{value:.2g}")
