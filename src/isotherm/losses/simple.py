"""Losses that are linear in the similarities, and those that look at the nearest negatives only."""

from __future__ import annotations

import math
import numbers

import torch
from torch import Tensor

from isotherm.checks import number
from isotherm.engine import Expectation, Linear, Total, reduce
from isotherm.losses.loss import Loss
from isotherm.losses.softmax import contrastive
from isotherm.temperature import scaled
from isotherm.types import Pairs, Reduction, TemperatureLike

__all__ = ["HardContrastiveLoss", "HardSimpleLoss", "SimpleContrastiveLoss", "TripletLimitLoss"]

MEAN = Expectation(energy=Linear(0.0), of=Linear(), detach_weights=True)
"""The mean similarity: an expectation under equal weights, through which no gradient flows."""


class SimpleContrastiveLoss(Loss):
    r"""Similarity to the negatives less similarity to the positive: every negative counts the same.

    .. math::
        \mathcal{L}_i = -s_{ip} + \lambda \sum_{k \in N(i)} s_{ik}

    Wang & Liu 2021 (arXiv:2012.09740), eq. 3; `weight` is λ, 1 / (number of negatives) by default, which makes it
    the limit of τ · NT-Xent for τ → ∞ (eq. 7), up to a constant and a factor.

    Fixed points: 0 when all similarities are equal (default λ).
    """

    def __init__(self, weight: float | None = None, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.weight = None if weight is None else number("weight", weight)

    def per_query(self, pairs: Pairs) -> Tensor:
        weight = 1 / pairs.negatives if self.weight is None else self.weight
        (total,) = reduce(pairs, Total(Linear()))
        return weight * total - pairs.positives.mean(1)


class HardContrastiveLoss(Loss):
    r"""NT-Xent against each query's nearest negatives only.

    .. math::
        \mathcal{L}_i = -\log \frac{e^{s_{ip}/\tau}}{e^{s_{ip}/\tau} + \sum_{s_{ik} \ge s_\alpha^{(i)}} e^{s_{ik}/\tau}}

    Wang & Liu 2021 (arXiv:2012.09740), eq. 9. :math:`s_\alpha^{(i)}` is the upper α-quantile of the query's negatives:
    the ⌈α·m⌉ nearest of m count, with all that tie with the last; `top_k` says their number directly.
    The choice is a constant for the gradient.

    Fixed points: NT-Xent at α = 1; log(1 + m) when all similarities are equal (all tie).
    """

    is_potential = False

    def __init__(
        self,
        temperature: TemperatureLike = 0.3,
        alpha: float = 0.0819,
        top_k: int | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        scaled(temperature)
        check_nearest(alpha, top_k)
        self.temperature, self.alpha, self.top_k = temperature, alpha, top_k

    def per_query(self, pairs: Pairs) -> Tensor:
        return contrastive(pairs, self.temperature, top_k=nearest(pairs, self.alpha, self.top_k))


class HardSimpleLoss(Loss):
    r"""The simple loss against each query's nearest negatives only.

    .. math::
        \mathcal{L}_i = -s_{ip} + \lambda \sum_{s_{ik} \ge s_\alpha^{(i)}} s_{ik}

    Wang & Liu 2021 (arXiv:2012.09740), eq. 3 over the negatives of eq. 9 (their §5.5); `weight` is λ, one over the
    number of nearest negatives by default.

    Fixed points: the simple loss at α = 1; 0 when all similarities are equal (default λ).
    """

    is_potential = False

    def __init__(
        self,
        alpha: float = 0.0819,
        top_k: int | None = None,
        weight: float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        check_nearest(alpha, top_k)
        self.alpha, self.top_k = alpha, top_k
        self.weight = None if weight is None else number("weight", weight)

    def per_query(self, pairs: Pairs) -> Tensor:
        k = nearest(pairs, self.alpha, self.top_k)
        if self.weight is None:
            (mean,) = reduce(pairs, MEAN, top_k=k)
            return mean - pairs.positives.mean(1)
        (total,) = reduce(pairs, Total(Linear()), top_k=k)
        return self.weight * total - pairs.positives.mean(1)


class TripletLimitLoss(Loss):
    r"""By how much the nearest negative beats the positive: a triplet loss with margin 0.

    .. math::
        \mathcal{L}_i = \max\left(\max_{k \in N(i)} s_{ik} - s_{ip},\; 0\right)

    Wang & Liu 2021 (arXiv:2012.09740), eq. 6, without the factor 1/τ: the limit of τ · NT-Xent for τ → 0⁺
    (two views; with more, NT-Xent's other positives are rivals too).

    Fixed points: 0 when all similarities are equal, and whenever the positive is nearest.
    """

    is_potential = False

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def per_query(self, pairs: Pairs) -> Tensor:
        (nearest_negative,) = reduce(pairs, MEAN, top_k=1)
        return torch.relu(nearest_negative[:, None] - pairs.positives).mean(1)


def check_nearest(alpha: float, top_k: int | None) -> None:
    if not 0 < number("alpha", alpha) <= 1:
        raise ValueError(f"alpha is the fraction of negatives that count, in (0, 1]; got {alpha}.")
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, numbers.Integral) or top_k < 1):
        raise ValueError(f"top_k is a number of negatives, 1 or more; got {top_k!r}.")


def nearest(pairs: Pairs, alpha: float, top_k: int | None) -> int | None:
    """How many of the nearest negatives count; None: all of them."""
    if top_k is None:
        top_k = math.ceil(alpha * pairs.negatives - 1e-9)  # 0.1 · 30 is 3, not 3.0000000000000004
    if top_k > pairs.negatives:
        raise ValueError(f"top_k={top_k} asks for more than the {pairs.negatives} negatives each query has.")
    return None if top_k == pairs.negatives else max(int(top_k), 1)
