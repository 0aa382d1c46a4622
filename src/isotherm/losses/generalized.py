"""Alignment + λ · distribution: pull positives together and match the whole to a prior of high entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Literal, get_args

import torch
from torch import Tensor

from isotherm import world
from isotherm.checks import number, one_of, positive
from isotherm.engine import Linear, LogSumExp, reduce
from isotherm.losses.loss import Loss, no_value_per_query, product
from isotherm.pairing import as_views, in_batch, query_view, unit_views
from isotherm.temperature import scaled
from isotherm.types import Pairs, Reduction, TemperatureLike

__all__ = ["AlignUniformLoss", "GeneralizedContrastiveLoss"]

Distribution = Literal["swd", "lse"]
Prior = Literal["hypersphere", "hypercube", "normal"]


class AlignUniformLoss(Loss):
    r"""How far positives are apart, plus how unevenly everything is spread over the sphere.

    .. math::
        \mathcal{L} = \mathbb{E}\, \|z_i - z_p\|^\alpha + \lambda \log \mathbb{E}_{i \ne j}\, e^{-t \|z_i - z_j\|^2}

    Wang & Isola 2020 (AU-CL, arXiv:2005.10242), §4.1; a baseline of CACR (arXiv:2105.03746), Table 2; the uniformity is
    Wang & Liu 2021 (arXiv:2012.09740), eq. 10. i ≠ j are distinct items of one view; the mean over the views is taken.

    Fixed points: 0 when all embeddings are equal.
    """

    def __init__(self, alpha: float = 2.0, t: float = 2.0, weight: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        no_value_per_query(self, reduction, "its uniformity is the logarithm of a mean over pairs")
        self.alpha, self.t, self.weight = positive("alpha", alpha), positive("t", t), number("weight", weight)

    def pair(self, views: Sequence[Tensor]) -> list[Pairs]:
        return query_view(views)

    def of(self, blocks: Sequence[Pairs]) -> Tensor:
        terms = []
        for pairs in blocks:
            distance = 2 - 2 * pairs.positives
            if pairs.partners:  # from the differences: 2 − 2s loses close positives to rounding
                distance = torch.stack([(pairs.queries - p).square().sum(1) for p in pairs.partners], 1)
            if self.alpha != 2:
                apart = distance > 0  # the root has no slope at 0
                distance = torch.where(apart, distance.where(apart, 1.0) ** (self.alpha / 2), 0.0)
            (log_sums,) = reduce(pairs, LogSumExp(Linear(2 * self.t)))  # −t d = 2t s − 2t
            everyone = world.gather(log_sums)
            uniformity = everyone.logsumexp(0) - 2 * self.t - math.log(len(everyone) * pairs.negatives)
            terms.append(world.mean(distance.mean(1)) + self.weight * uniformity)
        return torch.stack(terms).mean()


class GeneralizedContrastiveLoss(Loss):
    r"""Mean squared difference of positives, plus the distance of all embeddings from a prior distribution.

    .. math::
        \mathcal{L} = \gamma \left(
            \frac{1}{n d} \sum_{i,p} \|z_i - z_p\|^2 + \lambda\, \mathcal{L}_\text{distribution} \right)

    Chen & Li 2021 (arXiv:2011.02803), eq. 1 with Table 1. `weight` is λ, `scale` γ: 1000 where z is normalized,
    else 1.

    - ``lse``: mean over i of :math:`\log \sum_{k \ne i} e^{s_{ik}/\tau}`, z normalized; `include_self` adds k = i, as
      the authors' notebook does. (`temperature` and `include_self` belong to ``lse`` alone.)
    - ``swd``: sliced Wasserstein distance (Alg. 1) to a ``hypersphere`` (z normalized), ``hypercube`` U(−1, 1) or
      ``normal`` prior: project both on a random orthogonal basis, sort each direction, mean squared difference.

    Every call draws a fresh basis and fresh prior samples, from `generator` if given.

    Fixed points: ``lse`` γλ(1/τ + log(1 + m)) when all embeddings are equal, m the number of negatives.
    Differs from the paper: the mean over samples in Alg. 1, so that the value does not grow with the batch.
    """

    is_potential = False

    def __init__(
        self,
        distribution: Distribution = "swd",
        prior: Prior = "hypersphere",
        weight: float = 5.0,
        temperature: TemperatureLike = 1.0,
        scale: float | None = None,
        include_self: bool = False,
        generator: torch.Generator | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distribution = one_of("distribution", distribution, get_args(Distribution))
        self.prior = one_of("prior", prior, get_args(Prior))
        scaled(temperature)
        if distribution == "lse" and prior != "hypersphere":
            raise ValueError(
                f'distribution="lse" spreads over the hypersphere; prior={prior!r} needs distribution="swd".'
            )
        if distribution == "swd":
            no_value_per_query(self, reduction, "the sliced Wasserstein distance compares whole batches")
        self.weight, self.temperature = number("weight", weight), temperature
        self.scale = None if scale is None else number("scale", scale)
        self.include_self, self.generator = include_self, generator

    @property
    def without_negatives(self) -> str:
        return "compares the batch with a prior" if self.distribution == "swd" else ""

    @property
    def without_ring(self) -> str:
        return "sorts the projections of the whole batch" if self.distribution == "swd" else ""

    def of_views(self, views: Sequence[Tensor], negatives: Tensor | None) -> Tensor:
        if self.distribution == "lse":
            return super().of_views(views, negatives)
        if negatives is not None:
            raise ValueError(f'distribution="swd" {self.without_negatives} and takes no negatives.')
        return self._sliced(views)

    def pair(self, views: Sequence[Tensor]) -> list[Pairs]:
        return in_batch(views)

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = scaled(self.temperature)
        (negatives,) = reduce(pairs, LogSumExp(energy))
        everything = torch.logaddexp(energy(pairs.positives).logsumexp(1), negatives)
        if self.include_self:
            everything = torch.logaddexp(everything, energy(torch.ones_like(everything)))
        align = (2 - 2 * pairs.positives).mean(1) / pairs.queries.shape[1]
        return self._gamma * (align + self.weight * everything)

    @property
    def _gamma(self) -> float:
        if self.scale is not None:
            return self.scale
        return 1000.0 if self.prior == "hypersphere" else 1.0

    def _sliced(self, views: Sequence[Tensor]) -> Tensor:
        views = as_views(views, at_least=2)
        if self.prior == "hypersphere":
            views = unit_views(views)
        everyone = [world.gather(v) for v in views]
        align = torch.stack([(a - b).square().mean() for a, b in combinations(everyone, 2)]).mean()
        return self._gamma * (align + self.weight * self._swd(torch.cat(everyone)))

    def _swd(self, z: Tensor) -> Tensor:
        d = z.shape[1]
        basis = torch.linalg.qr(self._normal(z, d, d)).Q
        if self.prior == "hypercube":
            sample = torch.rand(z.shape, generator=self.generator, dtype=z.dtype, device=z.device) * 2 - 1
        else:
            sample = self._normal(z, *z.shape)
        if self.prior == "hypersphere":
            sample = sample / sample.norm(dim=1, keepdim=True)
        basis, sample = world.broadcast(basis), world.broadcast(sample)
        # sorted along the last, contiguous dimension: several times faster than sorting columns
        ours, theirs = product(basis.T, z.T).sort(1).values, (basis.T @ sample.T).sort(1).values
        return (ours - theirs).square().mean()

    def _normal(self, like: Tensor, rows: int, cols: int) -> Tensor:
        return torch.randn(rows, cols, generator=self.generator, dtype=like.dtype, device=like.device)
