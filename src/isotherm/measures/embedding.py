"""The measures of an embedding: how it lies on the sphere, what it does to classes and to views; what is healthy.

Every threshold that `isotherm inspect` judges by is named here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from isotherm.measures import geometry
from isotherm.measures.measure import Healthy, Level, as_measure

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
FEWEST = 20
"""Items below which nothing can be called well spread."""
IDENTICAL = 1e-10
"""Alignment below which the two views are one, up to rounding."""
PROJECTED = np.linspace(-4, 4, 65)
"""Bins of a projection, in units of the spread it has when the embedding is even."""


@dataclass(frozen=True)
class Around:
    """What is known about an embedding when a measure of it is judged."""

    values: Mapping[str, float]
    n: int
    d: int
    limit: float
    """The uniformity of points spread evenly over the sphere of this dimension: as low as it gets."""
    chance: float | None = None
    """The agreement of nearest neighbours drawn at random."""

    @property
    def directions(self) -> int:
        return min(self.d, self.n - 1)

    @property
    def spread(self) -> Level:
        part = self.values["uniformity"] / self.limit
        return "bad" if part < NEARLY_COLLAPSED else "look" if part < CROWDED else "good"

    @property
    def rank(self) -> Level:
        part = self.values["effective_rank"] / self.directions
        return "bad" if part < FEW_DIRECTIONS else "look" if part < SOME_DIRECTIONS else "good"

    @property
    def few(self) -> bool:
        """Whether there are too few items to call anything good."""
        return self.n < FEWEST

    @property
    def identical_views(self) -> bool:
        return self.values.get("alignment", 1.0) < IDENTICAL

    @property
    def no_better_than_chance(self) -> bool:
        chance = self.chance or 0.0
        return self.values["nearest_agreement"] < chance + NO_BETTER * (1 - chance)

    @property
    def told_apart(self) -> Level:
        """Whether an item is nearer to its other view than to its nearest other items."""
        if self.identical_views:
            return "look"
        gap = self.values["positive_similarity"] - self.values["nearest_negative"]
        return "good" if gap > 0 else "bad"

    def below(self, name: str, bound: float) -> Healthy:
        return Healthy(f"below {_short(bound)}", "good" if self.values[name] <= bound else "look")

    def above(self, name: str, bound: float) -> Healthy:
        return Healthy(f"above {_short(bound)}", "good" if self.values[name] >= bound else "look")


def _short(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}g}".replace("-", "−")


def _agreement(around: Around) -> Healthy:
    agrees = around.values["nearest_agreement"] > AGREEING
    level: Level = "good" if agrees else "bad" if around.no_better_than_chance else "look"
    return Healthy(f"above {AGREEING:g}, chance {_short(around.chance or 0.0)}", level)


@as_measure(
    "uniformity",
    ("geometry",),
    sign=-1,
    better="lower",
    monitor=True,
    healthy=lambda a: Healthy(f"{_short(CROWDED * a.limit, 2)} to {_short(a.limit)}", a.spread),
)
def uniformity(subject: Any) -> Any:
    """How evenly the items are spread over the sphere, log E exp(−2·squared distance): 0 when all are one point,
    about −4 when they are spread evenly in many dimensions.
    """
    return subject.uniformity


@as_measure(
    "tolerance",
    ("geometry",),
    needs=("embeddings", "labels"),
    monitor=True,
    healthy=lambda a: a.above("tolerance", TORN),
)
def tolerance(subject: Any) -> Any:
    """Mean cosine of two items of the same class. Low: the classes are torn apart; high along with a uniformity
    near 0: everything is alike.
    """
    return subject.tolerance


@as_measure(
    "alignment",
    ("geometry",),
    needs=("embeddings", "views"),
    better="lower",
    monitor=True,
    healthy=lambda a: Healthy("above 0, below 0.6", "look" if a.identical_views else a.below("alignment", 0.6).level),
)
def alignment(subject: Any) -> Any:
    """Mean squared distance of the two views of an item; 0 when views do not matter."""
    return geometry.alignment(*subject.views)


@as_measure(
    "effective rank",
    ("geometry", "sphere"),
    monitor=True,
    healthy=lambda a: Healthy(f"above {_short(SOME_DIRECTIONS * a.directions, 2)} of {a.directions:,}", a.rank),
)
def effective_rank(subject: Any) -> Any:
    """How many directions the embedding really uses: e to the entropy of its covariance spectrum."""
    return subject.effective_rank


@as_measure(
    "conditional entropy",
    ("geometry",),
    unit="nats",
    monitor=True,
    healthy=lambda a: Healthy(f"at most {_short(math.log(a.n - 1))}"),
)
def conditional_entropy(subject: Any) -> Any:
    """How evenly CACR's repulsion exp(−t⁻·squared distance) is shared by the other items; the logarithm of how many
    take part. Of a run: of a mini-batch of 128, mean over them, with its loss's own t⁻; else of all, and t⁻ = 2.
    """
    return subject.conditional_entropy


@as_measure("conditional entropy at t⁻ = 2", ("geometry",), unit="nats", monitor=True)
def conditional_entropy_at_2(subject: Any) -> Any:
    """The same with t⁻ = 2 whatever the loss: to compare losses by. A smaller t⁻ is nearer the maximum by itself."""
    return subject.conditional_entropy_at(2.0)


@as_measure("mean similarity", ("pairwise",), healthy=lambda a: a.below("mean_similarity", CONE))
def mean_similarity(subject: Any) -> Any:
    """Mean cosine of two different items. Near 1 all lie in a narrow cone and cosines tell little apart."""
    return subject.pairs.mean_similarity


@as_measure("nearest neighbour", ("pairwise",), healthy=lambda a: a.below("nearest_similarity", 0.99))
def nearest_similarity(subject: Any) -> Any:
    """Mean cosine of an item and its nearest other one. Near 1 every item has a twin."""
    return float(subject.pairs.nearest.double().mean())


@as_measure("distance to the prior", ("gaussian",), better="lower", healthy=lambda a: a.below("prior_distance", 1))
def prior_distance(subject: Any) -> Any:
    """How far random one-dimensional projections are from those of evenly spread points, in units of their spread:
    0 when evenly spread, about 1.4 when all items are one point.
    """
    return geometry.prior_distance(subject.embeddings, seed=subject.seed)


@as_measure("a random projection", ("gaussian",), curve=True)
def projection(subject: Any) -> Any:
    """Density of the embedding along one random direction."""
    along = geometry.projections(subject.embeddings, count=1, seed=0)[0] * subject.embeddings.shape[1] ** 0.5
    counts, _ = np.histogram(along.numpy(), bins=PROJECTED, density=True)
    return [float(c) for c in counts]


@as_measure(
    "class gap",
    ("pairwise",),
    needs=("embeddings", "labels"),
    better="higher",
    healthy=lambda a: a.above("class_gap", 0.1),
)
def class_gap(subject: Any) -> Any:
    """Tolerance less the mean cosine of items of different classes."""
    return subject.class_gap


@as_measure(
    "neighbours of one class", ("pairwise",), needs=("embeddings", "labels"), better="higher", healthy=_agreement
)
def nearest_agreement(subject: Any) -> Any:
    """How often an item's nearest neighbour has its class (among classes with 2 items or more); of several that are
    equally near, the part that has.
    """
    return subject.nearest_agreement


@as_measure(
    "inter-class uniformity",
    ("classes",),
    needs=("embeddings", "labels"),
    sign=-1,
    better="lower",
    healthy=lambda a: a.below("interclass_uniformity", -0.5),
)
def interclass_uniformity(subject: Any) -> Any:
    """How evenly the centres of the classes are spread; 0 when all classes have one centre."""
    if len(subject.class_sizes) < 2:
        return None
    return geometry.interclass_uniformity(subject.embeddings, subject.labels)


@as_measure("class alignment", ("classes",), needs=("embeddings", "labels"), better="lower")
def class_alignment(subject: Any) -> Any:
    """Mean squared distance of two items of one class (DySTreSS's alignment): 2 − 2·tolerance."""
    return None if subject.tolerance is None else 2 - 2 * subject.tolerance


@as_measure(
    "similarity of two views",
    ("separation",),
    needs=("embeddings", "views"),
    better="higher",
    healthy=lambda a: Healthy("above that of the nearest negatives", a.told_apart),
)
def positive_similarity(subject: Any) -> Any:
    """Mean cosine of the two views of an item."""
    return subject.separation[0]


@as_measure(
    "nearest negatives",
    ("separation",),
    needs=("embeddings", "views"),
    healthy=lambda a: Healthy("below that of two views", a.told_apart),
)
def nearest_negative(subject: Any) -> Any:
    """Mean cosine of an item and its 10 nearest other items in the other view (local separation)."""
    return float(subject.separation[1].mean())


@as_measure("separation", ("separation",), needs=("embeddings", "views"), better="higher")
def separation(subject: Any) -> Any:
    """Similarity of two views less that of the nearest other items."""
    return subject.separation[0] - float(subject.separation[1].mean())


@as_measure("nearest negatives, one by one", ("separation",), needs=("embeddings", "views"), curve=True)
def nearest_negatives(subject: Any) -> Any:
    """Mean cosine of an item and its 1st, 2nd, … nearest other item in the other view."""
    return [float(v) for v in subject.separation[1]]
