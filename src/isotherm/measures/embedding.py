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
from isotherm.measures.measure import Healthy, Level, Measure

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
    def no_better_than_chance(self) -> bool:
        chance = self.chance or 0.0
        return self.values["nearest_agreement"] < chance + NO_BETTER * (1 - chance)

    @property
    def told_apart(self) -> Level:
        """Whether an item is nearer to its other view than to its nearest other items."""
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


def _projection(subject: Any) -> list[float]:
    along = geometry.projections(subject.embeddings, count=1, seed=0)[0] * subject.embeddings.shape[1] ** 0.5
    counts, _ = np.histogram(along.numpy(), bins=PROJECTED, density=True)
    return [float(c) for c in counts]


UNIFORMITY = Measure(
    "uniformity",
    "uniformity",
    "How evenly the items are spread over the sphere, log E exp(−2·squared distance): 0 when all are one point, about "
    "−4 when they are spread evenly in many dimensions.",
    lambda s: s.uniformity,
    ("geometry",),
    sign=-1,
    better="lower",
    monitor=True,
    healthy=lambda a: Healthy(f"{_short(CROWDED * a.limit, 2)} to {_short(a.limit)}", a.spread),
)
TOLERANCE = Measure(
    "tolerance",
    "tolerance",
    "Mean cosine of two items of the same class. Low: the classes are torn apart; high along with a uniformity near 0: "
    "everything is alike.",
    lambda s: s.tolerance,
    ("geometry",),
    needs=("embeddings", "labels"),
    monitor=True,
    healthy=lambda a: a.above("tolerance", TORN),
)
ALIGNMENT = Measure(
    "alignment",
    "alignment",
    "Mean squared distance of the two views of an item; 0 when views do not matter.",
    lambda s: geometry.alignment(*s.views),
    ("geometry",),
    needs=("embeddings", "views"),
    better="lower",
    monitor=True,
    healthy=lambda a: a.below("alignment", 0.6),
)
EFFECTIVE_RANK = Measure(
    "effective_rank",
    "effective rank",
    "How many directions the embedding really uses: e to the entropy of its covariance spectrum.",
    lambda s: s.effective_rank,
    ("geometry", "sphere"),
    monitor=True,
    healthy=lambda a: Healthy(f"above {_short(SOME_DIRECTIONS * a.directions, 2)} of {a.directions:,}", a.rank),
)
CONDITIONAL_ENTROPY = Measure(
    "conditional_entropy",
    "conditional entropy",
    "How evenly CACR's repulsion exp(−2·squared distance) is shared by all other items (of a run: of 2,000 at most); "
    "the logarithm of how many take part.",
    lambda s: s.conditional_entropy,
    ("geometry",),
    unit="nats",
    monitor=True,
    healthy=lambda a: Healthy(f"at most {_short(math.log(a.n - 1))}"),
)
MEAN_SIMILARITY = Measure(
    "mean_similarity",
    "mean similarity",
    "Mean cosine of two different items. Near 1 all lie in a narrow cone and cosines tell little apart.",
    lambda s: s.pairs.mean_similarity,
    ("pairwise",),
    healthy=lambda a: a.below("mean_similarity", CONE),
)
NEAREST_SIMILARITY = Measure(
    "nearest_similarity",
    "nearest neighbour",
    "Mean cosine of an item and its nearest other one. Near 1 every item has a twin.",
    lambda s: float(s.pairs.nearest.double().mean()),
    ("pairwise",),
    healthy=lambda a: a.below("nearest_similarity", 0.99),
)
PRIOR_DISTANCE = Measure(
    "prior_distance",
    "distance to the prior",
    "How far random one-dimensional projections are from those of evenly spread points, in units of their spread: 0 "
    "when evenly spread, about 1.4 when all items are one point.",
    lambda s: geometry.prior_distance(s.embeddings, seed=s.seed),
    ("gaussian",),
    better="lower",
    healthy=lambda a: a.below("prior_distance", 1),
)
PROJECTION = Measure(
    "projection",
    "a random projection",
    "Density of the embedding along one random direction.",
    _projection,
    ("gaussian",),
    curve=True,
)
CLASS_GAP = Measure(
    "class_gap",
    "class gap",
    "Tolerance less the mean cosine of items of different classes.",
    lambda s: s.class_gap,
    ("pairwise",),
    needs=("embeddings", "labels"),
    better="higher",
    healthy=lambda a: a.above("class_gap", 0.1),
)
NEAREST_AGREEMENT = Measure(
    "nearest_agreement",
    "neighbours of one class",
    "How often an item's nearest neighbour has its class (among classes with 2 items or more).",
    lambda s: s.nearest_agreement,
    ("pairwise",),
    needs=("embeddings", "labels"),
    better="higher",
    healthy=_agreement,
)
INTERCLASS_UNIFORMITY = Measure(
    "interclass_uniformity",
    "inter-class uniformity",
    "How evenly the centres of the classes are spread; 0 when all classes have one centre.",
    lambda s: geometry.interclass_uniformity(s.embeddings, s.labels) if len(s.class_sizes) > 1 else None,
    ("classes",),
    needs=("embeddings", "labels"),
    sign=-1,
    better="lower",
    healthy=lambda a: a.below("interclass_uniformity", -0.5),
)
CLASS_ALIGNMENT = Measure(
    "class_alignment",
    "class alignment",
    "Mean squared distance of two items of one class (DySTreSS's alignment): 2 − 2·tolerance.",
    lambda s: None if s.tolerance is None else 2 - 2 * s.tolerance,
    ("classes",),
    needs=("embeddings", "labels"),
    better="lower",
)
POSITIVE_SIMILARITY = Measure(
    "positive_similarity",
    "similarity of two views",
    "Mean cosine of the two views of an item.",
    lambda s: s.separation[0],
    ("separation",),
    needs=("embeddings", "views"),
    better="higher",
    healthy=lambda a: Healthy("above that of the nearest negatives", a.told_apart),
)
NEAREST_NEGATIVE = Measure(
    "nearest_negative",
    "nearest negatives",
    "Mean cosine of an item and its 10 nearest other items in the other view (local separation).",
    lambda s: float(s.separation[1].mean()),
    ("separation",),
    needs=("embeddings", "views"),
    healthy=lambda a: Healthy("below that of two views", a.told_apart),
)
SEPARATION = Measure(
    "separation",
    "separation",
    "Similarity of two views less that of the nearest other items.",
    lambda s: s.separation[0] - float(s.separation[1].mean()),
    ("separation",),
    needs=("embeddings", "views"),
    better="higher",
)
NEAREST_NEGATIVES = Measure(
    "nearest_negatives",
    "nearest negatives, one by one",
    "Mean cosine of an item and its 1st, 2nd, … nearest other item in the other view.",
    lambda s: [float(v) for v in s.separation[1]],
    ("separation",),
    needs=("embeddings", "views"),
    curve=True,
)
