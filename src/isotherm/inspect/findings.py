"""What somebody with this embedding should know, in plain language; every finding says which threshold it comes from.

Thresholds of single measures are theirs (`measures.embedding`); those of findings over several are here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from isotherm.inspect.heavy_columns import NEARLY_ALL, told
from isotherm.measures.catalogue import measures
from isotherm.measures.embedding import (
    AGREEING,
    CONE,
    CROWDED,
    EVEN,
    FEW_DIRECTIONS,
    IDENTICAL,
    NEARLY_COLLAPSED,
    NO_BETTER,
    SOME_DIRECTIONS,
    TORN,
)
from isotherm.measures.measure import Healthy, Measure
from isotherm.report import Finding, number

if TYPE_CHECKING:
    from isotherm.inspect.health import Health

FEWEST = 50
"""Items below which little can be said, and nothing is called good."""
MOSTLY_FALSE = 0.5
"""Part of the repulsion on the query's own class."""
REPEATED = 0.01
"""Part of the rows that repeat another."""
OUTWEIGHED = "leave out what is no dimension of the embedding, or subtract each column's mean and divide by its spread."
"""What to do about columns that outweigh all others."""
UNEVEN_LENGTHS = 0.5
"""Standard deviation of the lengths over their mean."""


@dataclass(frozen=True)
class Row:
    """One row of the table: a measure of an embedding, where it should lie, and how it fares."""

    measure: Measure
    value: float
    healthy: Healthy


def describe(health: Health) -> list[Row]:
    """The measures that were taken, each with its healthy range and its level."""
    known = measures()
    doubtful = health.n < FEWEST or health.around.spread == "bad"  # of one point nothing is healthy
    rows = []
    for name, value in health.values.items():
        measure = known[name]
        assert measure.healthy is not None
        healthy = measure.healthy(health.around)
        if doubtful and healthy.level == "good":
            healthy = replace(healthy, level=None)
        rows.append(Row(measure, value, healthy))
    return rows


def found_in(health: Health, views_given: bool = True) -> list[Finding]:
    """What somebody with this embedding should know. `views_given`: whether they brought the views, and not we made
    them, as `isotherm evaluate` does.
    """
    return [*_geometry(health), *_columns(health), *_labelled(health), *_positives(health, views_given)]


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Bad, then worth a look, then good; otherwise in the order they came."""
    return tuple(sorted(findings, key=lambda f: ("bad", "look", "good").index(f.level)))


def verdict_of(findings: Iterable[Finding]) -> Finding:
    """All findings in a line, for somebody in a hurry: how grave the gravest is, and what it says first.

    Remarks do not count, unless there is nothing else.
    """
    everything = gravest_first(findings)
    ordered = [finding for finding in everything if not finding.remark] or everything
    if not ordered:
        return Finding("look", "Nothing can be said about it.")
    level = ordered[0].level
    grave = [finding.text for finding in ordered if finding.level == level]
    if level == "good":
        return Finding(level, f"Healthy: {len(grave)} of {len(ordered)} findings are good.")
    first = re.split(r"(?<=[^\d])[.:;] ", grave[0])[0].rstrip(".")
    others = f", and {len(grave) - 1} more" if len(grave) > 1 else ""
    head = "Not healthy" if level == "bad" else "Worth a look"
    return Finding(level, f"{head}: {first[0].lower() + first[1:]}{others}.")


def _geometry(health: Health) -> Iterator[Finding]:
    values, limit = health.values, health.limit
    uniformity, rank = values["uniformity"], values["effective_rank"]
    directions = min(health.d, health.n - 1)
    said = f"uniformity {number(uniformity)} of {number(limit, 3)} at best in {health.d} dimensions"
    level = health.around.spread
    if level == "bad":
        yield Finding(
            level,
            f"Uniformity {number(uniformity)}: nearly collapsed; all items are almost one point. {_cause(health)}",
            f"{said}; collapsed below {NEARLY_COLLAPSED:.0%} of it",
        )
    elif health.n < FEWEST:
        yield Finding(
            "look",
            f"{health.n} items are too few to say how well they are spread, or how many directions they use.",
            f"fewer than {FEWEST}",
        )
        return
    elif level == "look":
        yield Finding(
            level,
            f"Uniformity {number(uniformity)}: the items use a small part of the sphere."
            + " A lower temperature (or a larger weight of the repulsion) spreads them." * (not health.heavy_columns),
            f"{said}; crowded below {CROWDED:.0%} of it",
        )
    else:
        yield Finding(level, "The items are spread well over the sphere.", said)
    level = health.around.rank
    used = f"effective rank {number(rank)} of {directions:,}"
    if level == "good" and health.around.spread != "bad":  # the noise around one point uses them too
        yield Finding(level, "The embedding uses many of its directions.", used)
    elif level != "good":
        grave = "Dimensions have collapsed" if level == "bad" else "Few directions are used"
        classes = len(health.classes)
        reason = "a wider embedding would add nothing."
        if health.heavy_columns:
            reason = f"{told(health.heavy_columns)}."
        elif health.around.spread == "bad":
            reason = "so it is with one point."
        elif classes > 2 and rank < classes and values.get("nearest_agreement", 0) > 0.9:
            reason = (
                f"about as many as there are classes ({classes}): the classes have shrunk to points, which is fine for "
                "these labels and poor for others."
            )
        bound = FEW_DIRECTIONS if level == "bad" else SOME_DIRECTIONS
        yield Finding(level, f"{grave}: {number(rank)} of {directions:,}; {reason}", f"{used}; below {bound:.0%}")
    if values["mean_similarity"] > CONE and health.around.spread != "bad":
        yield Finding(
            "look",
            f"All items lie in a cone: two random ones have a cosine of {number(values['mean_similarity'])}. "
            "Subtracting the mean embedding would help whoever compares by cosine.",
            f"mean similarity above {CONE}",
        )


def _cause(health: Health) -> str:
    """What may have made one point of all items."""
    if health.heavy_columns:
        said = told(health.heavy_columns)
        return f"{said[0].upper()}{said[1:]}, so that cosines compare little else: {OUTWEIGHED}"
    return (
        "Look for a missing stop-gradient, too strong a weight decay, a temperature far too high, or a cone around a "
        "common mean."
    )


def _columns(health: Health) -> Iterator[Finding]:
    if health.heavy_columns and health.around.spread != "bad":
        said = told(health.heavy_columns)
        yield Finding(
            "look",
            f"{said[0].upper()}{said[1:]}: cosines compare little else. {OUTWEIGHED[0].upper()}{OUTWEIGHED[1:]}",
            f"at least {NEARLY_ALL:.0%} of it in {len(health.heavy_columns)} of {health.d:,} columns",
        )
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
    if health.around.no_better_than_chance and health.around.spread == "bad":
        yield Finding("look", "Neighbours agree no more often than by chance, as those in one point do.", rate)
        return
    if health.around.no_better_than_chance:
        yield Finding(
            "bad",
            "The labels are not in the embedding: neighbours agree no more often than by chance. Are rows and labels "
            "in the same order?",
            f"{rate}; less than {NO_BETTER:.0%} of the way from chance to always",
        )
        return
    yield Finding(
        "good" if agreement > AGREEING else "look",
        f"An item's neighbour is of its class {agreement:.1%} of the time.",
        rate,
    )
    if part > EVEN and tolerance < TORN:
        yield Finding(
            "look",
            f"Same-class similarity is {number(tolerance)} while uniformity is already "
            f"{number(values['uniformity'])}: the temperature is too low. Items are pushed from their own class.",
            f"tolerance below {TORN} with uniformity past {EVEN:.0%} of what is possible",
        )
    elif part < CROWDED and values["class_gap"] < 0.1:
        yield Finding(
            "look",
            f"Same-class similarity is {number(tolerance)}, but other classes are nearly as similar "
            f"({number(tolerance - values['class_gap'])}): the temperature is too high, or training has only begun.",
            f"class gap {number(values['class_gap'])} below 0.1, uniformity below {CROWDED:.0%} of what is possible",
        )
    advice = health.advice
    if advice.low is not None and advice.high is not None and advice.own_class is not None:
        share, later = advice.own_class
        yield Finding(
            "look" if share > MOSTLY_FALSE else "good",
            f"From τ = {advice.low:g} to {advice.high:g}, {share:.0%} to {later:.0%} of a query's repulsion falls on "
            "its own class: false negatives, if these labels are what matters."
            + (" A loss that is given them, such as SupCon, does not push them." if share > MOSTLY_FALSE else ""),
            f"by chance {chance:.0%}; worth a look above {MOSTLY_FALSE:.0%} at the lower end",
            remark=True,  # about the next training: the better the classes, the more of them it is
        )


def _positives(health: Health, views_given: bool) -> Iterator[Finding]:
    if health.separation is None:
        return
    positive, nearest = health.values["positive_similarity"], float(health.separation[0])
    said = f"two views {number(positive)}, nearest other item {number(nearest)}"
    if health.around.identical_views:
        yield Finding(
            "look",
            "The two views of every item are identical: nothing is said about views. "
            + ("Are they the same file, or was nothing augmented?" if views_given else "Was nothing augmented?"),
            f"alignment below {IDENTICAL:g}",
        )
        return
    if positive > nearest:
        yield Finding("good", "The two views of an item are closer than its nearest other item.", said)
    else:
        yield Finding(
            "bad",
            "An item's nearest other item is closer than its own second view: instances are not told apart. "
            + ("Are the views in the same order?" if views_given else "More training, or weaker views, would help."),
            said,
        )
