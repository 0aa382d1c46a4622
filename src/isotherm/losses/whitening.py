"""Agreement of whitened views: collapse is impossible, since what is compared has no correlations left.

Whitening is a function of the whole batch, so every process gathers everyone's embeddings and whitens all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, ClassVar

import torch
from torch import Tensor

from isotherm import streams, world
from isotherm.checks import at_least, not_negative, positive
from isotherm.engine.once import once_differentiable
from isotherm.losses.loss import exactly, no_value_per_query
from isotherm.losses.negative_free import NegativeFree, less_mean, standardized
from isotherm.pairing import as_views
from isotherm.types import Reduction
from isotherm.waiting import brought, may_wait, spoilt

__all__ = ["ARBLoss", "WMSELoss", "ZeroCLLoss", "ZeroFCLLoss", "ZeroICLLoss"]

SHORTEST = 1e-4
"""Whitened embeddings shorter than this have no direction; on average their length is √d."""
FIRST_STREAM = 1000
"""The random streams of the partitions, apart from those of the views of images."""


class WMSELoss(NegativeFree):
    r"""Squared distance of whitened views on the sphere.

    .. math::
        \mathcal{L} = \frac{2}{n V (V - 1)} \sum_i \sum_{a < b}
            \left\| \frac{w^a_i}{\|w^a_i\|} - \frac{w^b_i}{\|w^b_i\|} \right\|^2, \qquad w = L^{-1} (z - \mu), \quad
        L L^\top = (1 - \epsilon)\, \Sigma + \epsilon I

    Ermolov et al. 2021 (W-MSE, arXiv:2007.06346), eq. 2 and 3; a baseline in Tables 8 and 9 of DySTreSS
    (arXiv:2308.01140). μ and Σ are the mean and covariance of one view of a sub-batch, L its Cholesky factor. The batch
    is cut at random into sub-batches of `size` items or a few more, by default twice as many as an embedding has
    numbers, the same for all views; `iterations` is how often anew. Any number of views: W-MSE 2, W-MSE 4.

    Told by `at` where in a training it is, it cuts as (seed, step) say, on any number of processes; otherwise it draws
    from `generator`, or torch's own.

    Fixed points: 0 when the views agree; 2 when all embeddings are equal, which have no direction once whitened.
    Differs from the authors' code: `eps` is 0 there, and embeddings that depend on each other have no Cholesky factor.
    """

    without_ring = "whitens the whole batch"

    def __init__(
        self,
        size: int | None = None,
        iterations: int = 1,
        eps: float = 1e-4,
        generator: torch.Generator | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        no_value_per_query(self, reduction, "whitening belongs to the batch")
        at_least(2, size=size)
        at_least(1, iterations=iterations)
        if not_negative("eps", eps) >= 1:
            raise ValueError(f"eps is the part of the identity in the covariance, below 1; got {eps}.")
        self.size, self.iterations, self.eps, self.generator = size, iterations, eps, generator
        self.moment: tuple[int, int] | None = None

    def at(self, seed: int, step: int) -> None:
        self.moment = (seed, step)

    def agreement(self, views: Sequence[Tensor]) -> Tensor:
        everyone = torch.stack([world.gather(v) for v in as_views(views, at_least=2)])
        _, n, d = everyone.shape
        parts = max(1, n // (self.size or 2 * d))
        if n // parts <= d:
            raise ValueError(
                f"WMSELoss whitens {n // parts} items at a time, which takes embeddings of fewer numbers than that; "
                f"got {d}. Use a larger batch{' or size' if parts > 1 else ''}, or a narrower head (--head.width)."
            )
        subsets = list(self._subsets(n, parts, everyone.device))

        def mean_distance(z: Tensor) -> Tensor:
            return torch.stack([self._distance(z[:, items]) for items in subsets]).sum() / sum(map(len, subsets))

        return exactly(mean_distance, everyone)

    def _subsets(self, n: int, parts: int, device: torch.device) -> Iterator[Tensor]:
        """The items of each sub-batch of each iteration."""
        if parts == 1:
            yield torch.arange(n, device=device)
            return
        seed, step = self.moment or (self._drawn_seed(device), 0)
        for i in range(self.iterations):
            order = streams.permutation(n, seed=seed, epoch=step, view=FIRST_STREAM + i)
            yield from brought(torch.tensor(order), device).tensor_split(parts)

    def _drawn_seed(self, device: torch.device) -> int:
        where = "cpu" if self.generator is None else self.generator.device
        drawn = torch.randint(1 << 62, (1,), generator=self.generator, device=where)
        return int(world.broadcast(drawn.to(device)))

    def _distance(self, z: Tensor) -> Tensor:
        """Of the views (V, m, d) of one sub-batch: the mean over pairs of views, the sum over items."""
        centred = less_mean(z, 1)
        covariance = centred.mT @ centred / (z.shape[1] - 1)
        identity = torch.eye(z.shape[2], dtype=z.dtype, device=z.device)
        factor, failed = torch.linalg.cholesky_ex((1 - self.eps) * covariance + self.eps * identity)
        if not may_wait():
            factor = spoilt(factor, (failed != 0)[:, None, None])
        elif failed.any():
            raise ValueError(
                f"the covariance of {z.shape[1]} embeddings of {z.shape[2]} numbers has no Cholesky factor: they "
                f"depend on each other. Use a larger eps, got {self.eps:g}, or a narrower head (--head.width)."
            )
        w = torch.linalg.solve_triangular(factor, centred.mT, upper=False).mT
        u = w / torch.linalg.vector_norm(w, dim=2, keepdim=True).clamp_min(SHORTEST)
        return torch.stack([(2 - 2 * (a * b).sum(1)).sum() for a, b in combinations(u, 2)]).mean()


class ZeroCLLoss(NegativeFree):
    r"""How far items and features, each decorrelated, are from correlating with themselves in the other view.

    .. math::
        \mathcal{L} = \mathcal{L}_\text{ICL} + \mathcal{L}_\text{FCL}

    Zhang et al. 2022 (Zero-CL, openreview:RAW9tCdVxLj), a baseline in Table 8 of DySTreSS (arXiv:2308.01140):
    `ZeroICLLoss` decorrelates items, `ZeroFCLLoss` features. `eps` is ε there. The whitening matrices are constants for
    the gradient, as in the authors' code; `detach=False` lets it through. More than two views: the mean over pairs.

    Fixed points: those of its terms.
    """

    items: ClassVar[bool] = True
    features: ClassVar[bool] = True
    """Which of the two are decorrelated."""

    without_ring = "whitens the whole batch"

    def __init__(self, eps: float = 0.01, detach: bool = True, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        no_value_per_query(self, reduction, "whitening belongs to the batch")
        self.eps, self.detach = positive("eps", eps), detach

    def agreement(self, views: Sequence[Tensor]) -> Tensor:
        return exactly(self._of_everyone, *(world.gather(v) for v in as_views(views, at_least=2)))

    def _of_everyone(self, *views: Tensor) -> Tensor:
        terms = []
        if self.items:
            terms.append([decorrelated(standardized(z.T).T, self.eps, self.detach) for z in views])
        if self.features:
            terms.append([decorrelated(standardized(z).T, self.eps, self.detach) for z in views])
        return torch.stack([_apart(a, b) for rows in terms for a, b in combinations(rows, 2)]).sum() / (
            len(views) * (len(views) - 1) / 2
        )


class ZeroICLLoss(ZeroCLLoss):
    r"""How far items that correlate with no other item are from correlating with themselves in the other view.

    .. math::
        \mathcal{L} = \sum_{i=1}^n \left(1 - \tfrac1d\, h^a_i \cdot h^b_i\right)^2, \qquad
        H = \left(\tfrac1d Z Z^\top + \epsilon I\right)^{-1/2} Z

    Zhang et al. 2022 (Zero-ICL, openreview:RAW9tCdVxLj), a baseline in Table 8 of DySTreSS (arXiv:2308.01140). Z is
    standardized item by item: over its d numbers, every embedding has mean 0 and variance 1.

    Fixed points: n (ε/(1 + ε))² when the views agree and items are uncorrelated; n when all numbers are equal. More
    items than numbers cannot be uncorrelated: from n = d on it stays above (n − d + 1)²/n.
    """

    features = False


class ZeroFCLLoss(ZeroCLLoss):
    r"""How far features that correlate with no other one are from correlating with themselves in the other view.

    .. math::
        \mathcal{L} = \sum_{j=1}^d \left(1 - \tfrac1n\, h^a_{\cdot j} \cdot h^b_{\cdot j}\right)^2, \qquad
        H = Z \left(\tfrac1n Z^\top Z + \epsilon I\right)^{-1/2}

    Zhang et al. 2022 (Zero-FCL, openreview:RAW9tCdVxLj), a baseline in Table 8 of DySTreSS (arXiv:2308.01140). Z is
    standardized: over the n items, every feature has mean 0 and variance 1.

    Fixed points: d (ε/(1 + ε))² when the views agree and features are uncorrelated; d when all embeddings are equal.
    """

    items = False


class ARBLoss(NegativeFree):
    r"""How far the features of one view are from the orthonormal basis nearest to those of the other.

    .. math::
        \mathcal{L} = \sum_{j=1}^d \left(1 - \tfrac1n\, z^a_{\cdot j} \cdot \mathrm{sg}(o^b_{\cdot j})\right)^2
        + \left(1 - \tfrac1n\, z^b_{\cdot j} \cdot \mathrm{sg}(o^a_{\cdot j})\right)^2, \qquad
        O = Z \left(\tfrac1n Z^\top Z + \epsilon I\right)^{-1/2}

    Zhang et al. 2022 (ARB, doi:10.1109/CVPR52688.2022.01610), a baseline in Table 8 of DySTreSS (arXiv:2308.01140). Z
    is standardized: over the n items, every feature has mean 0 and variance 1. O has no gradient. With fewer items than
    features, or features that depend on each other, no basis is nearest: `eps` then leaves out the directions that
    nothing points to. More than two views: the mean over pairs of views.

    Fixed points: 0 when views agree and features are uncorrelated (ε → 0); 2d when all embeddings are equal.
    Differs from the authors' code: one group of features, which `eps` alone keeps from failing.
    """

    without_ring = "whitens the whole batch"

    def __init__(self, eps: float = 1e-5, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        no_value_per_query(self, reduction, "a basis belongs to the batch")
        self.eps = positive("eps", eps)

    def agreement(self, views: Sequence[Tensor]) -> Tensor:
        return exactly(self._of_everyone, *(world.gather(v) for v in as_views(views, at_least=2)))

    def _of_everyone(self, *views: Tensor) -> Tensor:
        rows = [standardized(z).T for z in views]
        bases = [decorrelated(z.detach(), self.eps, detach=False) for z in rows]
        both = list(zip(rows, bases, strict=True))
        return torch.stack([_apart(za, ob) + _apart(zb, oa) for (za, oa), (zb, ob) in combinations(both, 2)]).mean()


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """How far the correlations of rows with rows of the same number are from 1."""
    return (1 - (a * b).mean(1)).square().sum()


def decorrelated(z: Tensor, eps: float, detach: bool) -> Tensor:
    r"""Rows (k, m) that no longer correlate, as near to the given ones as can be: :math:`(zz^\top/m + ε)^{-1/2} z`.

    ZCA whitening. `detach`: the matrix is a constant for the gradient. Where it is the larger one, k > m, it is never
    formed: f(zzᵀ) z = z f(zᵀz), and f(zzᵀ) = f(0) + z (f(zᵀz) − f(0)) (zᵀz)⁻¹ zᵀ.
    """
    k, m = z.shape
    held = z.detach() if detach else z
    if k <= m:
        return inverse_root(held @ held.T / m, eps) @ z
    if not detach:
        return z @ inverse_root(z.T @ z / m, eps)
    values, vectors = torch.linalg.eigh(held.T @ held / m)
    root, least = (values.clamp_min(0) + eps).sqrt(), math.sqrt(eps)
    along = held @ vectors  # kept apart: a product with 1/ε^1.5 in it would round away what is small
    result: Tensor = z / least - (along / (m * least * root * (least + root))) @ (along.T @ z)
    return result


class _InverseRoot(torch.autograd.Function):
    """(A + ε)^(−1/2) of a symmetric A ≥ 0, with a gradient that equal eigenvalues do not trouble."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, eps: float) -> Tensor:
        values, vectors = torch.linalg.eigh(a)
        roots = (values.clamp_min(0) + eps).sqrt()
        ctx.save_for_backward(roots, vectors)
        result: Tensor = (vectors / roots) @ vectors.T
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        roots, vectors = ctx.saved_tensors
        # (x^−½ − y^−½)/(x − y) = −1/(√x √y (√x + √y))
        slope = -1 / (roots[:, None] * roots * (roots[:, None] + roots))
        return vectors @ (slope * (vectors.T @ (grad + grad.T) @ vectors) / 2) @ vectors.T, None


def inverse_root(a: Tensor, eps: float) -> Tensor:
    result: Tensor = _InverseRoot.apply(a, eps)  # type: ignore[no-untyped-call]
    return result
