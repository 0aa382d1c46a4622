"""False negatives, found by several views of the query's item and taken out of its negatives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor

from isotherm.checks import at_least, number, one_of
from isotherm.engine import Either, Listed, LogSumExp, Only, Total, nearest_to_sets, reduce
from isotherm.losses.loss import Loss
from isotherm.losses.softmax import surprise
from isotherm.temperature import scaled
from isotherm.types import Pairs, Reduction, TemperatureLike

__all__ = ["FNCLoss"]

Cancel = Literal["attract", "eliminate"]
Aggregate = Literal["max", "mean"]


class FNCLoss(Loss):
    r"""NT-Xent in which negatives that look like the query's item are positives, or do not count.

    .. math::
        \mathcal{L}_i^{\text{attract}} &= -\frac{1}{1 + |F_i|} \sum_{f \in F_i \cup \{p\}}
            \log \frac{e^{s_{if}/\tau}}{\sum_{k \ne i} e^{s_{ik}/\tau}} \\
        \mathcal{L}_i^{\text{eliminate}} &= -\log
            \frac{e^{s_{ip}/\tau}}{\sum_{k \ne i,\, k \notin F_i} e^{s_{ik}/\tau}}, \qquad
            F_i = \operatorname*{top-k}_j \{ \operatorname*{agg}_{v \in S_i} z_j \cdot z_v > t \}

    Huynh et al. 2022 (FNC, arXiv:2011.11765), §3, a rival in CACR's Tables 4 and 16. `cancel` is one of the two
    losses; :math:`S_i` is the item's support set, all its views: two, and `support` more (8 in the paper; None: as many
    as there are). A negative scores its largest similarity to them (`aggregate` "max") or the mean. The `top_k` highest
    scores above `threshold` (None: any) are the false negatives :math:`F_i`; the choice is a constant for the gradient.
    Without `top_k` (None) memory and time are for all above the threshold: early in training for nearly every pair,
    with the batch squared. Like the authors' code, every view is a query, and its positives are all its other views.
    Small crops ask, and are in no support set.

    Fixed points: "attract": log(p + m) when all similarities are equal, p positives and m negatives; with no false
    negative both are `NTXentLoss`.
    Differs from the paper: mean over queries, where the code has twice that; of negatives that would all be eliminated
    the least similar one stays; with a queue the query's own embedding is in the support set.
    """

    is_potential = False  # its negatives are chosen by whole rows of other queries
    without_ring = "looks for false negatives in whole rows"

    def __init__(
        self,
        temperature: TemperatureLike = 0.1,
        cancel: Cancel = "attract",
        support: int | None = None,
        top_k: int | None = 10,
        threshold: float | None = 0.7,
        aggregate: Aggregate = "max",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature
        self.cancel = one_of("cancel", cancel, get_args(Cancel))
        self.aggregate = one_of("aggregate", aggregate, get_args(Aggregate))
        at_least(0, support=support)
        at_least(1, top_k=top_k)
        if top_k is None and threshold is None:
            raise ValueError("every negative would be a false one: give top_k, threshold, or both.")
        self.support, self.top_k = support, top_k
        self.threshold = None if threshold is None else number("threshold", threshold)

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = scaled(self.temperature)
        positives = energy(pairs.positives)
        pairs = replace(pairs, candidates=pairs.queries) if pairs.candidates is None else pairs  # F is not symmetric
        false = self.false_negatives(pairs)
        if self.cancel == "eliminate":
            (negatives,) = reduce(replace(pairs, hidden=Either(pairs.hidden, false)), LogSumExp(energy))
            return surprise(positives, negatives).mean(1)
        negatives, attraction = reduce(pairs, LogSumExp(energy), Total(energy, where=Only(false)))
        everything = torch.logaddexp(positives.logsumexp(1), negatives)
        return everything - (positives.sum(1) + attraction) / (positives.shape[1] + false.counts)

    def false_negatives(self, pairs: Pairs) -> Listed:
        """The columns of each query's candidates that are taken for its false negatives."""
        assert pairs.candidates is not None
        most = pairs.negatives if self.top_k is None else self.top_k
        if self.cancel == "eliminate":
            most = min(most, pairs.negatives - 1)
        above = -math.inf if self.threshold is None else self.threshold
        views = self._support_of(pairs)
        return nearest_to_sets(
            views, pairs.candidates, pairs.hidden, len(pairs.queries), most, above, self.aggregate == "mean"
        )

    def _support_of(self, pairs: Pairs) -> list[Tensor]:
        """The views that look for an item's false negatives, (n, d) each."""
        alike = pairs.queries.chunk(len(pairs.query_views))  # of a batch all views are queries; else the others are
        views = [view.detach() for view in pairs.item_views or (*alike, *pairs.partners)]  # their keys
        if self.support is None:
            return views
        if len(views) < 2 + self.support:
            raise ValueError(
                f"support={self.support} needs {2 + self.support} views of each item, so many besides two; got "
                f"{len(views)}. Give {2 + self.support} (--views {2 + self.support}), or a smaller support."
            )
        return views[: 2 + self.support]
