"""Attraction and repulsion: the cost of moving a query to its positives, less that of moving it to its negatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from isotherm import world
from isotherm.checks import number, one_of
from isotherm.engine import Expectation, Gaussian, Linear, Total, reduce
from isotherm.losses.loss import Loss, no_value_per_query
from isotherm.pairing import query_view
from isotherm.types import Pairs, Reduction

__all__ = ["CACRLoss", "UAURLoss"]

Cost = Literal["euclidean", "inner", "rbf"]
Weights = Literal["contrastive", "uniform"]
Detached = bool | Literal["positive"]
NegativesFrom = Literal["own", "other"]
RBF_PRECISION = 2.0


class CACRLoss(Loss):
    r"""Cost to the positives, the far ones weighing most, less cost to the negatives, the near ones weighing most.

    .. math::
        \mathcal{L}_i = \sum_k \frac{e^{t^+ d_{ik}}}{\sum_{k'} e^{t^+ d_{ik'}}}\, c_{ik}
        - \sum_{j \ne i} \frac{e^{-t^- d_{ij}}}{\sum_{j'} e^{-t^- d_{ij'}}}\, c_{ij}

    Zheng et al. 2021 (CACR, arXiv:2105.03746), eq. 2–5. k runs over the other views of the item, j over the other
    items of the query's own view; every view is the query in turn. :math:`d = 2 - 2s`. The cost c is

    - ``euclidean``: d (eq. 12);
    - ``inner``: −s;
    - ``rbf``: the repulsion becomes the log of the mean over queries of :math:`\sum_j \pi^-_{ij} e^{-2 d_{ij}}`
      (eq. 14), the attraction stays d.

    ``attraction`` or ``repulsion="uniform"`` drop the weights (Table 11), negative `t_pos`, `t_neg` turn them round
    (Table 10), `margin` gives :math:`[\cdot + m]_+` (appendix B.5), `detach_weights` makes the weights constants,
    ``"positive"`` only those of the positives, as with a momentum encoder (Alg. 3). ``negatives_from="other"`` takes
    the other items of the other views for negatives instead of those of the query's own, as the authors' code for
    small images does.

    Fixed points: 0 when all embeddings are equal (euclidean, inner).
    """

    def __init__(
        self,
        t_pos: float = 1.0,
        t_neg: float = 2.0,
        cost: Cost = "euclidean",
        attraction: Weights = "contrastive",
        repulsion: Weights = "contrastive",
        detach_weights: Detached = False,
        margin: float | None = None,
        negatives_from: NegativesFrom = "own",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.t_pos, self.t_neg = number("t_pos", t_pos), number("t_neg", t_neg)
        self.cost = one_of("cost", cost, get_args(Cost))
        self.attraction = one_of("attraction", attraction, get_args(Weights))
        self.repulsion = one_of("repulsion", repulsion, get_args(Weights))
        if not isinstance(detach_weights, bool) and detach_weights != "positive":
            raise ValueError(f'detach_weights must be True, False or "positive"; got {detach_weights!r}.')
        self.detach_weights = detach_weights
        self.margin = None if margin is None else number("margin", margin)
        self.negatives_from = one_of("negatives_from", negatives_from, get_args(NegativesFrom))
        if cost == "rbf":
            no_value_per_query(self, reduction, "the rbf repulsion is the logarithm of a mean over queries")
            if margin is not None:
                raise ValueError("margin needs a cost per query; the rbf repulsion is a logarithm over the batch.")

    @property
    def only_for_pairing(self) -> str:
        return f"negatives_from={self.negatives_from!r}" if self.negatives_from != "own" else ""

    def pair(self, views: Sequence[Tensor]) -> list[Pairs]:
        return query_view(views, from_other_views=self.negatives_from == "other")

    def per_query(self, pairs: Pairs) -> Tensor:
        if self.cost == "rbf":
            raise ValueError("the rbf cost has no value per query.")
        mean = self._repelled(pairs, Linear())
        away = mean if self.cost == "inner" else 2 * mean - 2  # −E[−s], −E[2 − 2s]
        value = self._attracted(pairs) + away
        return value if self.margin is None else torch.relu(value + self.margin)

    def of(self, blocks: Sequence[Pairs]) -> Tensor:
        if self.cost != "rbf":
            return super().of(blocks)
        terms = []
        for pairs in blocks:
            kernel = self._repelled(pairs, Gaussian(RBF_PRECISION))
            terms.append(world.mean(self._attracted(pairs)) + log_of_global_mean(kernel))
        return torch.stack(terms).mean()

    def _attracted(self, pairs: Pairs) -> Tensor:
        """The expected cost of moving to the positives."""
        distance = 2 - 2 * pairs.positives
        cost = -pairs.positives if self.cost == "inner" else distance
        if self.attraction == "uniform":
            return cost.mean(1)
        weights = torch.softmax(self.t_pos * distance, 1)
        return ((weights.detach() if self.detach_weights else weights) * cost).sum(1)

    def _repelled(self, pairs: Pairs, of: Linear | Gaussian) -> Tensor:
        """The expectation of a function of the similarity to the negatives; −t d = 2t s up to a constant."""
        t = self.t_neg if self.repulsion == "contrastive" else 0.0
        if t == 0 and isinstance(of, Linear):  # a plain mean of something linear needs no matrix
            (total,) = reduce(pairs, Total(of))
            return total / pairs.negatives
        (mean,) = reduce(pairs, Expectation(Linear(2 * t), of, self.detach_weights is True))
        return mean


class UAURLoss(CACRLoss):
    r"""Mean cost to the positives less mean cost to the negatives: CACR without its weights.

    .. math::
        \mathcal{L}_i = \frac{1}{K} \sum_k c_{ik} - \frac{1}{M} \sum_{j \ne i} c_{ij}

    Zheng et al. 2021 (UAUR, arXiv:2105.03746), eq. 11: the ablation that shows what the weights are for.
    K positives, M negatives; c as in `CACRLoss`.

    Fixed points: 0 when all embeddings are equal (euclidean, inner).
    """

    def __init__(self, cost: Cost = "euclidean", reduction: Reduction = "mean") -> None:
        super().__init__(cost=cost, attraction="uniform", repulsion="uniform", reduction=reduction)


def log_of_global_mean(values: Tensor) -> Tensor:
    """log of the mean over the queries of all processes."""
    return torch.log(world.gather(values).mean())
