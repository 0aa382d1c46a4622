"""Softmax losses in which the positive and the negatives have been taken apart."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from isotherm import world
from isotherm.checks import number, positive
from isotherm.engine import LogSumExp, reduce
from isotherm.losses.loss import Loss
from isotherm.losses.softmax import surprise
from isotherm.temperature import scaled
from isotherm.types import Pairs, Reduction, TemperatureLike

__all__ = ["DCLLoss", "DCLWLoss", "DecoupledNTXentLoss", "HardNegativeLoss"]


class DecoupledNTXentLoss(Loss):
    r"""NT-Xent with the two jobs of its temperature separated: a width τ and a weight λ.

    .. math::
        \mathcal{L}_i = -s_{ip} + \lambda \log \sum_{k \ne i} e^{s_{ik}/\tau}

    Chen & Li 2021 (arXiv:2011.02803), eq. 4; `weight` is λ. The sum runs over the positive and the negatives. The
    paper's τ = 1, λ = 0.1 are of its Table 1, ``GeneralizedContrastiveLoss(distribution="lse")``; here a λ far below τ
    pulls more than it spreads, and all embeddings may end at one point.

    Fixed points: −s + λ (s/τ + log(1 + m)) when all similarities are s; NT-Xent is 1/τ of it at λ = τ.
    """

    def __init__(self, temperature: TemperatureLike = 1.0, weight: float = 0.1, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature, self.weight = temperature, number("weight", weight)

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = scaled(self.temperature)
        (negatives,) = reduce(pairs, LogSumExp(energy))
        everything = torch.logaddexp(energy(pairs.positives).logsumexp(1), negatives)
        return self.weight * everything - pairs.positives.mean(1)


class DCLLoss(Loss):
    r"""NT-Xent without the positive in its denominator, so that an easy positive does not shrink the gradient.

    .. math::
        \mathcal{L}_i = -\frac{s_{ip}}{\tau} + \log \sum_{k \in N(i)} e^{s_{ik}/\tau}

    Yeh et al. 2022 (DCL, arXiv:2110.06848), a baseline in Table 1 of DySTreSS (arXiv:2308.01140).
    One sum over all negatives :math:`N(i)`, of both views.

    Fixed points: log(m) when all similarities are equal, m the number of negatives.
    """

    def __init__(self, temperature: TemperatureLike = 0.1, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = scaled(self.temperature)
        (negatives,) = reduce(pairs, LogSumExp(energy))
        return negatives - energy(pairs.positives).mean(1)


class DCLWLoss(Loss):
    r"""DCL that pulls harder on positives that are still far apart.

    .. math::
        \mathcal{L}_i = -w_i \frac{s_{ip}}{\tau} + \log \sum_{k \in N(i)} e^{s_{ik}/\tau}, \qquad
        w_i = 2 - \frac{e^{s_{ip}/\sigma}}{\text{mean}_j\, e^{s_{jp}/\sigma}}

    Yeh et al. 2022 (DCLW, arXiv:2110.06848), a baseline in Table 2 of DySTreSS (arXiv:2308.01140).
    The weights have mean 1 over the batch, carry no gradient, and may be negative for one dominant pair.

    Fixed points: log(m) when all similarities are equal, m the number of negatives: all weights are 1.
    """

    def __init__(self, temperature: TemperatureLike = 0.1, sigma: float = 0.5, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature, self.sigma = temperature, positive("sigma", sigma)

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = scaled(self.temperature)
        (negatives,) = reduce(pairs, LogSumExp(energy))
        pull = pairs.positives.detach() / self.sigma
        everyone = world.gather(pull)
        log_mean = everyone.logsumexp((0, 1)) - math.log(everyone.numel())
        weights = 2 - torch.exp(pull - log_mean)
        return negatives - (weights * energy(pairs.positives)).mean(1)


class HardNegativeLoss(Loss):
    r"""NT-Xent that up-weights hard negatives and discounts the positives hidden among them.

    .. math::
        \mathcal{L}_i = -\log \frac{e^{s_{ip}/\tau}}{e^{s_{ip}/\tau} + N_g}, \qquad
        N_g = \max\!\left(\frac{R - \tau^+ M e^{s_{ip}/\tau}}{1 - \tau^+},\; M e^{-1/\tau}\right), \quad
        R = \frac{\sum_j e^{(1+\beta) s_{ij}/\tau}}{\text{mean}_j\, e^{\beta s_{ij}/\tau}}

    Robinson et al. 2021 (HN-CL, arXiv:2010.04592), a baseline in Table 2 of CACR (arXiv:2105.03746); with β = 0 the
    debiased loss of Chuang et al. 2020 (arXiv:2007.00224). M negatives, one of them a positive with chance `tau_plus`.

    Fixed points: log(1 + m) when all similarities are equal, whatever β and τ⁺; NT-Xent at β = τ⁺ = 0.
    """

    def __init__(
        self,
        temperature: TemperatureLike = 0.5,
        beta: float = 1.0,
        tau_plus: float = 0.1,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        scaled(temperature)
        if number("beta", beta) < 0:
            raise ValueError(f"beta must be 0 or more, got {beta}.")
        if not 0 <= number("tau_plus", tau_plus) < 1:
            raise ValueError(f"tau_plus is a probability below 1, got {tau_plus}.")
        self.temperature, self.beta, self.tau_plus = temperature, beta, tau_plus

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = scaled(self.temperature)
        log_m = math.log(pairs.negatives)
        positive = energy(pairs.positives)
        if self.beta == 0:
            (log_r,) = reduce(pairs, LogSumExp(energy))
        else:
            hard = scaled(self.temperature, times=1 + self.beta)
            weight = scaled(self.temperature, times=self.beta)
            log_hard, log_weight = reduce(pairs, LogSumExp(hard), LogSumExp(weight))
            log_r = log_hard - log_weight + log_m
        log_r = log_r[:, None].expand_as(positive)
        if self.tau_plus == 0:
            return surprise(positive, log_r).mean(1)
        # log((R − τ⁺ M e^p) / (1 − τ⁺)) where R is the larger, never below log(M e^{E(−1)})
        floor = log_m + energy(positive.new_tensor(-1.0))
        gap = math.log(self.tau_plus) + log_m + positive - log_r
        real = gap < 0
        rest = log_r + torch.log(-torch.expm1(gap.where(real, -1.0))) - math.log1p(-self.tau_plus)
        return surprise(positive, torch.maximum(rest.where(real, floor), floor)).mean(1)
