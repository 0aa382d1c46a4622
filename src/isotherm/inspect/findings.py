"""What the measures of an embedding mean: for each a sentence and a healthy range, and findings in plain language.

Every threshold is named here, and every finding says which one it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from isotherm.report import Finding, number
from isotherm.report.page import Level

if TYPE_CHECKING:
    from isotherm.inspect.health import Health

NEARLY_COLLAPSED, CROWDED, EVEN = 0.15, 0.45, 0.95
"""Parts of the uniformity that is possible in this dimension: below, below, above."""
FEW_DIRECTIONS, SOME_DIRECTIONS = 0.05, 0.2
"""Parts of the directions that there are."""
TORN = 0.15
"""Tolerance below which an evenly spread embedding has pulled its classes apart."""
CONE = 0.5
"""Mean similarity of random pairs above which they lie in a narrow cone."""
NO_BETTER = 0.05
"""What nearest neighbours must agree above chance, as a part of what is possible."""
AGREEING = 0.7
MOSTLY_FALSE = 0.5
"""Part of the repulsion on the query's own class."""
REPEATED = 0.01
"""Part of the rows that repeat another."""
UNEVEN_LENGTHS = 0.5
"""Standard deviation of the lengths over their mean."""


@dataclass(frozen=True)
class Measure:
    """One row of the table: a measure, what it means, what is healthy, and how it fares."""

    key: str
    title: str
    value: float
    healthy: str
    meaning: str
    level: Level | None


def describe(health: Health) -> list[Measure]:
    """The measures that were taken, each with its meaning, its healthy range and its level."""
    values, limit = health.values, health.limit
    directions = min(health.d, health.n - 1)
    most = math.log(health.n - 1)
    known: dict[str, tuple[str, str, str, Level | None]] = {
        "uniformity": (
            "uniformity",
            f"{number(CROWDED * limit, 2)} to {number(limit, 3)}",
            f"How evenly the items are spread over the sphere: 0 when all are one point, {number(limit, 3)} when they "
            f"are spread evenly in {health.d} dimensions. Log of the mean of exp(−2·squared distance).",
            _spread_level(health),
        ),
        "mean_similarity": (
            "mean similarity",
            f"below {CONE:g}",
            "Mean cosine of two different items. Near 1 all lie in a narrow cone and cosines tell little apart.",
            "look" if values["mean_similarity"] > CONE else "good",
        ),
        "effective_rank": (
            "effective rank",
            f"above {number(SOME_DIRECTIONS * directions, 2)} of {directions:,}",
            "How many directions the embedding really uses: e to the entropy of its covariance spectrum.",
            _rank_level(health),
        ),
        "prior_distance": (
            "distance to the prior",
            "below 1",
            "How far random one-dimensional projections are from those of evenly spread points, in units of their "
            "spread: 0 when evenly spread, about 1.4 when all items are one point.",
            "look" if values["prior_distance"] > 1 else "good",
        ),
        "conditional_entropy": (
            "conditional entropy",
            f"at most {number(most, 3)}",
            "How evenly repulsion exp(−2·squared distance) is shared by all other items; the logarithm of how many "
            f"take part ({number(math.exp(values['conditional_entropy']), 3)} of {health.n - 1:,} here).",
            None,
        ),
        "nearest_similarity": (
            "nearest neighbour",
            "below 0.99",
            "Mean cosine of an item and its nearest other one. Near 1 every item has a twin.",
            "look" if values["nearest_similarity"] > 0.99 else "good",
        ),
    }
    if "tolerance" in values:
        known["tolerance"] = (
            "tolerance",
            f"above {TORN:g}",
            "Mean cosine of two items of the same class. Low: the classes are torn apart; high along with a uniformity "
            "near 0: everything is alike.",
            "look" if values["tolerance"] < TORN else "good",
        )
    if "class_gap" in values:
        known["class_gap"] = (
            "class gap",
            "above 0.1",
            "Tolerance less the mean cosine of items of different classes.",
            "look" if values["class_gap"] < 0.1 else "good",
        )
    if "nearest_agreement" in values:
        agreement, chance = values["nearest_agreement"], health.chance or 0.0
        known["nearest_agreement"] = (
            "neighbours of one class",
            f"above {AGREEING:g}, chance {number(chance, 3)}",
            "How often an item's nearest neighbour has its class (among classes with 2 items or more).",
            "good" if agreement > AGREEING else "bad" if _no_better(agreement, chance) else "look",
        )
    if "interclass_uniformity" in values:
        known["interclass_uniformity"] = (
            "inter-class uniformity",
            "below −0.5",
            "How evenly the centres of the classes are spread; 0 when all classes have one centre.",
            "look" if values["interclass_uniformity"] > -0.5 else "good",
        )
    if "alignment" in values:
        gap = values["positive_similarity"] - values["nearest_negatives"]
        known["alignment"] = (
            "alignment",
            "below 0.6",
            "Mean squared distance of the two views of an item; 0 when views do not matter.",
            "good" if values["alignment"] < 0.6 else "look",
        )
        known["positive_similarity"] = (
            "similarity of two views",
            "above that of the nearest negatives",
            "Mean cosine of the two views of an item.",
            "good" if gap > 0 else "bad",
        )
        known["nearest_negatives"] = (
            "nearest negatives",
            "below that of two views",
            "Mean cosine of an item and its 10 nearest other items in the other view (local separation).",
            "good" if gap > 0 else "bad",
        )
    return [
        Measure(key, title, values[key], healthy, meaning, level)
        for key, (title, healthy, meaning, level) in known.items()
    ]


def found_in(health: Health) -> list[Finding]:
    """What somebody with this embedding should know."""
    return [*_geometry(health), *_columns(health), *_labelled(health), *_positives(health)]


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Bad, then worth a look, then good; otherwise in the order they came."""
    return tuple(sorted(findings, key=lambda f: ("bad", "look", "good").index(f.level)))


def _spread_level(health: Health) -> Level:
    part = health.values["uniformity"] / health.limit
    return "bad" if part < NEARLY_COLLAPSED else "look" if part < CROWDED else "good"


def _rank_level(health: Health) -> Level:
    part = health.values["effective_rank"] / min(health.d, health.n - 1)
    return "bad" if part < FEW_DIRECTIONS else "look" if part < SOME_DIRECTIONS else "good"


def _no_better(agreement: float, chance: float) -> bool:
    return agreement < chance + NO_BETTER * (1 - chance)


def _geometry(health: Health) -> Iterator[Finding]:
    values, limit = health.values, health.limit
    uniformity, rank = values["uniformity"], values["effective_rank"]
    directions = min(health.d, health.n - 1)
    said = f"uniformity {number(uniformity, 3)} of {number(limit, 3)} at best in {health.d} dimensions"
    level = _spread_level(health)
    if level == "bad":
        yield Finding(
            level,
            f"Uniformity {number(uniformity, 3)}: nearly collapsed; all items are almost one point. Look for a missing "
            "stop-gradient, too strong a weight decay, a temperature far too high, or a cone around a common mean.",
            f"{said}; collapsed below {NEARLY_COLLAPSED:.0%} of it",
        )
    elif level == "look":
        yield Finding(
            level,
            f"Uniformity {number(uniformity, 3)}: the items use a small part of the sphere. A lower temperature (or a "
            "larger weight of the repulsion) spreads them.",
            f"{said}; crowded below {CROWDED:.0%} of it",
        )
    else:
        yield Finding(level, "The items are spread well over the sphere.", said)
    level = _rank_level(health)
    used = f"effective rank {number(rank, 3)} of {directions:,}"
    if level == "good" and _spread_level(health) != "bad":  # the noise around one point uses them too
        yield Finding(level, "The embedding uses many of its directions.", used)
    elif level != "good":
        grave = "Dimensions have collapsed" if level == "bad" else "Few directions are used"
        classes = len(health.classes)
        reason = "a wider embedding would add nothing."
        if classes > 2 and rank < classes and values.get("nearest_agreement", 0) > 0.9:
            reason = (
                f"about as many as there are classes ({classes}): the classes have shrunk to points, which is fine for "
                "these labels and poor for others."
            )
        bound = FEW_DIRECTIONS if level == "bad" else SOME_DIRECTIONS
        yield Finding(level, f"{grave}: {number(rank, 3)} of {directions:,}; {reason}", f"{used}; below {bound:.0%}")
    if values["mean_similarity"] > CONE and _spread_level(health) != "bad":
        yield Finding(
            "look",
            f"All items lie in a cone: two random ones have a cosine of {number(values['mean_similarity'], 3)}. "
            "Subtracting the mean embedding would help whoever compares by cosine.",
            f"mean similarity above {CONE}",
        )


def _columns(health: Health) -> Iterator[Finding]:
    dead = health.constant_columns
    if dead:
        which = ", ".join(map(str, dead[:5])) + (" …" if len(dead) > 5 else "")
        yield Finding(
            "look",
            f"{len(dead):,} of {health.d:,} columns {'is' if len(dead) == 1 else 'are'} constant: dead units say "
            "nothing and shift every cosine.",
            f"column{'s' * (len(dead) > 1)} {which}",
        )
    if health.duplicates:
        part = health.duplicates / health.n
        yield Finding(
            "look" if part > REPEATED else "good",
            f"{health.duplicates:,} rows repeat another one exactly.",
            f"{part:.2%} of the rows; worth a look above {REPEATED:.0%}",
        )
    uneven = health.norms.spread / health.norms.mean
    if uneven > UNEVEN_LENGTHS:
        yield Finding(
            "look",
            "Lengths differ widely. Everything here is about directions; an inner product without normalizing would be "
            "ruled by length.",
            f"lengths {number(health.norms.least, 3)} to {number(health.norms.greatest, 3)}, "
            f"standard deviation {uneven:.0%} of the mean",
        )


def _labelled(health: Health) -> Iterator[Finding]:
    if not health.classes:
        return
    values = health.values
    lonely = [c.name for c in health.classes if c.items == 1]
    if len(health.classes) == 1:
        yield Finding(
            "look", "All labels are one class: nothing can be said about classes being apart.", health.classes[0].name
        )
        return
    if lonely:
        yield Finding(
            "look",
            f"{len(lonely):,} of {len(health.classes):,} classes have a single item; they are left out where a pair is "
            "needed.",
            ", ".join(lonely[:5]) + (" …" if len(lonely) > 5 else ""),
        )
    if "tolerance" not in values:
        return
    tolerance, agreement, chance = values["tolerance"], values["nearest_agreement"], health.chance or 0.0
    part = values["uniformity"] / health.limit
    rate = f"nearest neighbours agree in {agreement:.1%}, by chance {chance:.1%}"
    if _no_better(agreement, chance):
        yield Finding(
            "bad",
            "The labels are not in the embedding: neighbours agree no more often than by chance. Are rows and labels "
            "in the same order?",
            f"{rate}; less than {NO_BETTER:.0%} of the way from chance to always",
        )
        return
    yield Finding(
        "good" if agreement > AGREEING else "look",
        f"An item's neighbour is of its class {agreement:.0%} of the time.",
        rate,
    )
    if part > EVEN and tolerance < TORN:
        yield Finding(
            "look",
            f"Same-class similarity is {number(tolerance, 3)} while uniformity is already "
            f"{number(values['uniformity'], 3)}: the temperature is too low. Items are pushed from their own class.",
            f"tolerance below {TORN} with uniformity past {EVEN:.0%} of what is possible",
        )
    elif part < CROWDED and values["class_gap"] < 0.1:
        yield Finding(
            "look",
            f"Same-class similarity is {number(tolerance, 3)}, but other classes are nearly as similar "
            f"({number(tolerance - values['class_gap'], 3)}): the temperature is too high, or training has only begun.",
            f"class gap {number(values['class_gap'], 3)} below 0.1, uniformity below {CROWDED:.0%} of what is possible",
        )
    advice, hardness = health.advice, health.hardness
    if advice.low is not None and advice.high is not None and hardness.same_class is not None:
        share, later = (
            float(np.interp(t, hardness.temperatures, hardness.same_class)) for t in (advice.low, advice.high)
        )
        yield Finding(
            "look" if share > MOSTLY_FALSE else "good",
            f"From τ = {advice.low:g} to {advice.high:g}, {share:.0%} to {later:.0%} of a query's repulsion falls on "
            "its own class: false negatives, if these labels are what matters."
            + (" Prefer the upper end of the range." if share > MOSTLY_FALSE else ""),
            f"by chance {chance:.0%}; worth a look above {MOSTLY_FALSE:.0%} at the lower end",
        )


def _positives(health: Health) -> Iterator[Finding]:
    if health.separation is None:
        return
    positive, nearest = health.values["positive_similarity"], float(health.separation[0])
    said = f"two views {number(positive)}, nearest other item {number(nearest)}"
    if positive > nearest:
        yield Finding("good", "The two views of an item are closer than its nearest other item.", said)
    else:
        yield Finding(
            "bad",
            "An item's nearest other item is closer than its own second view: instances are not told apart. Are the "
            "views in the same order?",
            said,
        )
