"""What is measured: embeddings, and what is known of them; made once and asked by many measures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from isotherm.measures import geometry
from isotherm.measures.measure import Need
from isotherm.measures.sweep import Pairwise, pairwise

NEAREST = 10
"""Nearest negatives of the local separation."""
ENTROPY_BATCH = 128
"""Items among which conditional entropy is measured, so that its maximum is log 127 for every run: CACR's figure 3 has
one maximum for all methods, though they train with batches of 768 and of 128."""


class Subject:
    """Embeddings (N, D), a label each if there are any, and a second view of each if there is one."""

    def __init__(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        views: tuple[Tensor, Tensor] | None = None,
        seed: int = 0,
    ) -> None:
        self._embeddings, self._labels, self._views, self.seed = embeddings, labels, views, seed

    t_neg = 2.0
    """CACR's t⁻ in the conditional entropy: the loss's own, of a run whose loss has one."""

    @property
    def embeddings(self) -> Tensor:
        return self._embeddings

    @property
    def labels(self) -> Tensor | None:
        return self._labels

    @property
    def views(self) -> tuple[Tensor, Tensor]:
        """Embeddings of two views of every item."""
        assert self._views is not None
        return self._views

    @property
    def has(self) -> frozenset[Need]:
        """What measures may need of it; nothing where a row has no direction, as after a divergence."""
        parts: list[Need] = []
        if self.healthy:
            parts = ["embeddings"]
            if self.labels is not None:
                parts.append("labels")
            if self._views is not None:
                parts.append("views")
        return frozenset(parts)

    @cached_property
    def healthy(self) -> bool:
        return len(self.embeddings) > 1 and healthy(self.embeddings)

    @cached_property
    def uniformity(self) -> float:
        return geometry.uniformity(self.embeddings)

    @cached_property
    def conditional_entropy(self) -> float:
        return self.conditional_entropy_at(self.t_neg)

    def conditional_entropy_at(self, t_neg: float) -> float:
        """The mean over mini-batches of the items in one fixed order, since many sets are sorted by class."""
        n = len(self.embeddings)
        order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
        batches = order[: n - n % ENTROPY_BATCH].split(ENTROPY_BATCH) if n >= ENTROPY_BATCH else (order,)
        each = [geometry.conditional_entropy(self.embeddings[batch], t_neg) for batch in batches]
        return sum(each) / len(each)

    @cached_property
    def effective_rank(self) -> float:
        return geometry.effective_rank(self.embeddings)

    @cached_property
    def class_sizes(self) -> Sequence[int]:
        """Of the classes that occur."""
        assert self.labels is not None
        return torch.unique(self.labels, return_counts=True)[1].tolist()  # type: ignore[no-any-return]

    @cached_property
    def tolerance(self) -> float | None:
        """None where no class has two items."""
        assert self.labels is not None
        return geometry.tolerance(self.embeddings, self.labels) if max(self.class_sizes) > 1 else None

    @cached_property
    def pairs(self) -> Pairwise:
        """All pairs of items, in one pass."""
        return pairwise(self.embeddings, self.labels)

    @cached_property
    def class_gap(self) -> float | None:
        """Mean similarity within classes less that between them; None where there is no pair of either kind."""
        n, sizes = len(self.embeddings), torch.tensor(self.class_sizes, dtype=torch.float64)
        same = float((sizes * (sizes - 1)).sum())
        if self.tolerance is None or len(sizes) < 2:
            return None
        apart = (n * (n - 1) * self.pairs.mean_similarity - same * self.tolerance) / (n * (n - 1) - same)
        return self.tolerance - apart

    @cached_property
    def agreement(self) -> tuple[Tensor, Tensor, Tensor]:
        """The classes that occur, their sizes, and how often an item's nearest neighbour is of its class too."""
        assert self.labels is not None
        assert self.pairs.agreement is not None
        kinds, index, counts = torch.unique(self.labels, return_inverse=True, return_counts=True)
        agrees = self.pairs.agreement
        return kinds, counts, agrees.new_zeros(len(kinds)).index_add(0, index, agrees) / counts

    @cached_property
    def nearest_agreement(self) -> float | None:
        """None where no class has two items, or there is one class."""
        _, counts, agreement = self.agreement
        several = counts > 1
        if len(counts) < 2 or not several.any():
            return None
        return float((agreement[several] * counts[several]).sum() / counts[several].sum())

    @cached_property
    def separation(self) -> tuple[float, Tensor]:
        """Mean similarity of two views, and to the 1st, 2nd, … nearest other item."""
        return geometry.local_separation(*self.views, min(NEAREST, len(self.views[0]) - 1))


def healthy(z: Tensor) -> bool:
    """Whether every row is finite and has a direction; after a divergence they do not."""
    return bool(torch.isfinite(z).all()) and float(z.abs().amax(1).min()) > 0
