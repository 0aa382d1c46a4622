"""Whether a run has come to anything: what its end says of itself, aloud and in its result.

The similarity that is seen in training steps does not tell: a head that ends in BN spreads every batch, also one whose
items the network maps to one point. The judged network is the one that is exported, as it is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

COLLAPSED = 0.99
"""Mean similarity of different items above which a run is said to collapse."""
ONE_DIRECTION = 1.5
"""Effective rank below which items differ along one direction only."""
ADVICE = "Try a lower learning rate, a lower temperature if the loss has one, or less weight decay."


@dataclass(frozen=True)
class Learnt:
    """kNN accuracy before the first step and after the last, on the same images."""

    before: float
    after: float
    judged: int
    """How many images were."""

    @property
    def worse(self) -> bool:
        """Whether it has fallen by more than two standard errors."""
        variance = sum(p * (1 - p) for p in (self.before, self.after)) / self.judged
        return self.after < self.before - 2 * math.sqrt(variance)


def warnings(measures: Mapping[str, float], learnt: Learnt | None, compares: bool, labels: bool) -> Iterator[str]:
    """What is wrong with what a run ends with, in sentences.

    `compares`: its loss compares embeddings by their directions; `labels`: by those of the same label, which may well
    end in few directions.
    """
    if "uniformity" not in measures:
        yield f"the embedding is of no use: some items have no direction or are not finite. {ADVICE}"
    elif compares and measures["uniformity"] > -4 * (1 - COLLAPSED):  # of items that all have this similarity
        spread = f"uniformity {measures['uniformity']:.3f}"
        yield f"the embedding has collapsed: all items lie at nearly one point ({spread}). {ADVICE}"
    elif compares and not labels and measures.get("effective_rank", math.inf) < ONE_DIRECTION:
        rank = f"effective rank {measures['effective_rank']:.2f}"
        yield f"the embedding has collapsed: items differ along one direction only ({rank}). {ADVICE}"
    if learnt is not None and learnt.worse:
        yield (
            f"the features are worse than before the first step: kNN {learnt.after:.1%}, of the untrained network "
            f"{learnt.before:.1%} ({learnt.judged:,} images)."
        )
