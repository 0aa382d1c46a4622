"""Softmax losses in which every query has a temperature of its own; `isotherm.methods.individual` says where from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isotherm.engine import Expectation, Linear, LogSumExp, reduce
from isotherm.losses.softmax import surprise
from isotherm.types import Pairs


def softened(pairs: Pairs, factors: Tensor) -> Pairs:
    """The pairs with every similarity times a factor of its query, (n,), which is at most 1.

    So c_i s_ij/τ is an energy of one temperature, and the gradient of the factors is exact as well.
    """
    candidates = pairs.queries if pairs.candidates is None else pairs.candidates  # a row's factor is not its column's
    factors = factors.to(pairs.queries.dtype)[:, None]
    return replace(pairs, queries=pairs.queries * factors, candidates=candidates, positives=pairs.positives * factors)


def uncertain(pairs: Pairs, certainty: Tensor, temperature: float) -> Tensor:
    r"""How surprised a softmax at the query's own temperature :math:`\tau/c_i` is by its positives, for each query.

    .. math::
        \mathcal{L}_i = -\log \frac{e^{c_i s_{ip}/\tau}}{e^{c_i s_{ip}/\tau} + \sum_{k \in N(i)} e^{c_i s_{ik}/\tau}},
        \qquad 0 < c_i \le 1

    Zhang et al. 2021 (TaU, arXiv:2110.04403). The gradient flows to the certainties.
    """
    pairs = softened(pairs, certainty)
    energy = Linear(1 / temperature)
    (negatives,) = reduce(pairs, LogSumExp(energy))
    return surprise(energy(pairs.positives), negatives).mean(1)


@dataclass(frozen=True, eq=False)
class Robust:
    """What `robust` says of each query, (n,) each; only the value has a gradient."""

    value: Tensor
    log_mass: Tensor
    """The logarithm of the moving average with this batch in it."""
    slope: Tensor
    """The gradient of the objective in the query's temperature."""


def robust(pairs: Pairs, tau: Tensor, log_mass: Tensor, lowest: float, gamma: float, rho: float) -> Robust:
    r"""The worst-case similarity of a query to its negatives within a KL ball, less that to its positives.

    .. math::
        \mathcal{L}_i = \tau_i \log u_i + \tau_i \rho - s_{ip}, \qquad
        u_i \leftarrow (1 - \gamma)\,u_i + \gamma\, g_i, \quad
        g_i = \frac{1}{m} \sum_{k \in N(i)} e^{s_{ik}/\tau_i}

    Qiu et al. 2023 (iSogCLR, arXiv:2305.11965): the dual of maximizing :math:`\sum_k p_k s_{ik}` over all p with
    :math:`\mathrm{KL}(p, 1/m) \le \rho`. :math:`u_i` (`log_mass` is its logarithm, −∞ before the first time) averages
    the batches' :math:`g_i`, so that the gradients do not depend on their size:
    :math:`\nabla \mathcal{L}_i = \frac{1}{m u_i} \sum_k e^{s_{ik}/\tau_i} \nabla s_{ik} - \nabla s_{ip}` and
    :math:`\partial_{\tau_i} \mathcal{L}_i = \log u_i + \rho - \frac{1}{m u_i} \sum_k e^{s_{ik}/\tau_i} s_{ik}/\tau_i`.
    """
    softer = softened(pairs, lowest / tau)
    energy = Linear(1 / lowest)
    (total,) = reduce(softer, LogSumExp(energy))
    with torch.no_grad():
        still = replace(softer, queries=softer.queries.detach(), candidates=softer.candidates.detach())  # type: ignore[union-attr]
        (mean,) = reduce(still, Expectation(energy, energy))
        fresh = total - math.log(pairs.negatives)
        old = math.log1p(-gamma) + log_mass.to(fresh.dtype) if gamma < 1 else torch.full_like(fresh, -math.inf)
        mass = torch.where(torch.isfinite(old), torch.logaddexp(old, math.log(gamma) + fresh), fresh)
        weight = torch.exp(fresh - mass)
        slope = mass + rho - weight * mean
        worst = tau.to(mass.dtype) * (mass + rho)
    pull = weight * tau.to(total.dtype) * total  # whose gradient it is; the value is that of the average
    return Robust(worst + (pull - pull.detach()) - pairs.positives.mean(1), mass, slope)
