"""Baselines that compare no two items: agreement of views, kept from collapsing by other means."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from isotherm import world
from isotherm.checks import not_negative
from isotherm.losses.loss import Loss, no_value_per_query, product
from isotherm.pairing import as_views, unit_views
from isotherm.types import Reduction

__all__ = ["BYOLLoss", "BarlowTwinsLoss", "SimSiamLoss", "VICRegLoss"]

HUGE = 1e8
"""Larger embeddings are scaled down before they are squared."""


class NegativeFree(Loss):
    """Views in, no candidates."""

    negative_free = True
    is_potential = False
    without_negatives = "compares no items"

    def of_views(self, views: Sequence[Tensor], negatives: Tensor | None) -> Tensor:
        if negatives is not None:
            raise ValueError(f"{type(self).__name__} {self.without_negatives} and takes no negatives.")
        return self.agreement(views)

    def agreement(self, views: Sequence[Tensor]) -> Tensor:
        """The loss of the views alone."""
        raise NotImplementedError


class BarlowTwinsLoss(NegativeFree):
    r"""How far the cross-correlation of two views is from the identity.

    .. math::
        \mathcal{L} = \sum_i (1 - C_{ii})^2 + \lambda \sum_{i \ne j} C_{ij}^2

    Zbontar et al. 2021 (Barlow Twins, arXiv:2103.03230), eq. 1 and 2. C is the correlation of the features of view a
    with those of view b over the batch; `weight` is λ. More than two views: the mean over pairs of views.

    Fixed points: 0 when views agree and features are uncorrelated.
    """

    def __init__(self, weight: float = 0.005, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        no_value_per_query(self, reduction, "a correlation belongs to the batch")
        self.weight = not_negative("weight", weight)

    without_ring = "correlates the features of the whole batch"

    def agreement(self, views: Sequence[Tensor]) -> Tensor:
        standard = [standardized(world.gather(v)) for v in as_views(views, at_least=2)]
        return torch.stack([self._pair(a, b) for a, b in combinations(standard, 2)]).mean()

    def _pair(self, a: Tensor, b: Tensor) -> Tensor:
        c = product(a.T, b) / len(a)
        on = (1 - c.diagonal()).square().sum()
        off = c.square().sum() - c.diagonal().square().sum()
        return on + self.weight * off


class VICRegLoss(NegativeFree):
    r"""Invariance of the views, variance of every feature, covariance of no two.

    .. math::
        \mathcal{L} = \lambda\, \frac{1}{n d} \sum_i \|z_i - z'_i\|^2 + \frac{\mu}{2} \left(v(Z) + v(Z')\right)
        + \nu \left(c(Z) + c(Z')\right)

    Bardes et al. 2022 (VICReg, arXiv:2105.04906), eq. 6, with the halving of v of the authors' code:
    :math:`v = \text{mean}_j \max(0, 1 - \sqrt{\mathrm{Var}\, z^j + 10^{-4}})`,
    :math:`c = \frac1d \sum_{i \ne j} \mathrm{Cov}_{ij}^2`.
    More than two views: means over pairs of views and over views, with the weights two views have.

    Fixed points: μ (1 − 0.01) when all embeddings are equal.
    """

    def __init__(
        self,
        invariance: float = 25.0,
        variance: float = 25.0,
        covariance: float = 1.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        no_value_per_query(self, reduction, "variance and covariance belong to the batch")
        self.invariance = not_negative("invariance", invariance)
        self.variance, self.covariance = not_negative("variance", variance), not_negative("covariance", covariance)

    without_ring = "takes variance and covariance of the whole batch"

    def agreement(self, views: Sequence[Tensor]) -> Tensor:
        everyone = [world.gather(v) for v in as_views(views, at_least=2)]
        apart = torch.stack([(a - b).square().mean() for a, b in combinations(everyone, 2)]).mean()
        flat, mixed = zip(*(self._shape(v) for v in everyone), strict=True)
        return (
            self.invariance * apart
            + self.variance * torch.stack(flat).mean()
            + self.covariance * 2 * torch.stack(mixed).mean()
        )

    def _shape(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """How flat the features are, and how mixed."""
        centred = z - z.mean(0)
        covariance = product(centred.T, centred) / (len(z) - 1)
        variances = covariance.diagonal()
        flat = torch.relu(1 - torch.sqrt(variances + 1e-4)).mean()
        mixed = (covariance.square().sum() - variances.square().sum()) / z.shape[1]
        return flat, mixed


class BYOLLoss(NegativeFree):
    r"""Squared distance of a prediction from the target it should predict, both on the sphere.

    .. math::
        \mathcal{L}_i = \left\| \bar q_i - \mathrm{sg}(\bar z_i) \right\|^2 = 2 - 2 \cos(q_i, z_i)

    Grill et al. 2020 (BYOL, arXiv:2006.07733), eq. 2. View 0 is the prediction, the others are targets, which get no
    gradient; for the symmetric loss add the call with the roles exchanged.

    Fixed points: 0 when prediction and target point the same way.
    """

    needs_predictor = True

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def agreement(self, views: Sequence[Tensor]) -> Tensor:
        values = 2 - 2 * _cosine(views)
        return self.reduced(values)


class SimSiamLoss(NegativeFree):
    r"""Negative cosine of a prediction with the target it should predict.

    .. math::
        \mathcal{L}_i = -\cos(p_i, \mathrm{sg}(z_i))

    Chen & He 2021 (SimSiam, arXiv:2011.10566), eq. 1 and 3. View 0 is the prediction, the others are targets, which
    get no gradient; for the symmetric loss take the mean with the roles exchanged.

    Fixed points: −1 when prediction and target point the same way.
    """

    needs_predictor = True

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def agreement(self, views: Sequence[Tensor]) -> Tensor:
        values = -_cosine(views)
        return self.reduced(values)


def _cosine(views: Sequence[Tensor]) -> Tensor:
    """Cosine of view 0 with the others, which are constants; their mean."""
    prediction, *targets = unit_views([*views[:1], *(t.detach() if isinstance(t, Tensor) else t for t in views[1:])])
    return torch.stack([(prediction * t).sum(1) for t in targets]).mean(0)


def standardized(z: Tensor) -> Tensor:
    """Features of mean 0 and variance 1 over the batch, but for 1e-5 beside the variance; a constant one becomes 0."""
    centred = less_mean(z, 0)
    return centred / torch.sqrt(centred.square().mean(0) + 1e-5)


def less_mean(z: Tensor, dim: int) -> Tensor:
    """z less its mean along `dim`: exactly 0 where all are equal, and so scaled that squares of the largest are finite.

    The mean of equal numbers is not quite that number, and whatever divides by the deviation would make a view of it.
    """
    raw = z.detach()
    low, high = raw.amin(dim, keepdim=True), raw.amax(dim, keepdim=True)
    largest = torch.maximum(high, -low)
    unlike = high - low > 8 * torch.finfo(z.dtype).eps * largest
    scaled = z * (unlike / (largest / HUGE).clamp_min(1))
    return scaled - scaled.mean(dim, keepdim=True)
