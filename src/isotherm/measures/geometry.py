"""What an embedding is like: numbers that explain what a loss did to it. No plots.

All take embeddings as they leave a network, (N, D), tensors or arrays of any kind, and normalize them (but `rankme`,
`lidar` and `alpha_req`); all are exact, and none holds an N×N matrix.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from isotherm.checks import at_least, number, positive
from isotherm.engine import Expectation, Linear, LogSumExp, Periodic, reduce
from isotherm.engine.select import largest_values
from isotherm.engine.sizes import ROWS
from isotherm.measures.arrays import takes_arrays
from isotherm.measures.sweep import one_label_each
from isotherm.pairing import unit, unit_views
from isotherm.temperature import scaled
from isotherm.types import Pairs, TemperatureLike

RANKME_EPS = 1e-7
"""Of `rankme`, as its authors have it for float32."""
LIDAR_DELTA = 1e-4
"""Of `lidar`: what keeps the scatter of views invertible."""
STRIP = 1 << 24
"""Similarities held at a time where whole rows are needed: tall enough strips for a fast matrix product, 64 MB."""


@takes_arrays
@torch.no_grad()
def uniformity(z: Tensor, t: float = 2.0) -> float:
    r"""How evenly the embedding is spread over the sphere: 0 for one point, about −2t for many, evenly spread ones.

    .. math:: \log \mathbb{E}_{i \ne j}\, e^{-t \|z_i - z_j\|^2}

    Wang & Liu 2021 (arXiv:2012.09740), eq. 10, over distinct pairs. The papers plot its negative.
    """
    pairs = _with_itself(z)
    (log_sums,) = reduce(pairs, LogSumExp(Linear(2 * positive("t", t))))
    value = float(log_sums.double().logsumexp(0) - 2 * t - math.log(len(log_sums) * pairs.negatives))
    return min(0.0, value)  # above it is rounding


@takes_arrays
@torch.no_grad()
def tolerance(z: Tensor, labels: Tensor) -> float:
    r"""Mean similarity of two different items of the same class.

    .. math:: \mathbb{E}_{i \ne j,\; l_i = l_j}\, z_i \cdot z_j

    Wang & Liu 2021 (arXiv:2012.09740), eq. 11, as a mean over same-class pairs: as printed, over all pairs with an
    indicator, the values of their Table 1 would be impossible.
    """
    sums, counts = _class_sums(z, labels)
    pairs = float((counts * (counts - 1)).sum())
    if pairs == 0:
        raise ValueError("tolerance needs at least one class with 2 items.")
    return min(1.0, float((sums.square().sum() - counts.sum()) / pairs))


@takes_arrays
@torch.no_grad()
def alignment(z0: Tensor, z1: Tensor) -> float:
    r"""Mean squared distance of the two views of an item.

    .. math:: \mathbb{E}_i\, \|z_i - z'_i\|^2

    Wang & Isola 2020 (arXiv:2005.10242); DySTreSS (arXiv:2308.01140), eq. 17. DySTreSS's Table 13 takes same-class
    pairs instead: that is 2 − 2 · `tolerance`.
    """
    a, b = unit_views([z0, z1])
    return float((a - b).square().sum(1).double().mean())


@takes_arrays
@torch.no_grad()
def modality_gap(images: Tensor, texts: Tensor) -> float:
    r"""How far the centres of two modalities lie apart: 0 when they share one, 2 at most.

    .. math:: \Big\| \tfrac1N \sum_i x_i - \tfrac1C \sum_j y_j \Big\|

    Liang et al. 2022 (arXiv:2203.02053), §2.2, of unit embeddings x of images and y of texts.
    """
    x, y = (unit(z.double(), name).mean(0) for z, name in ((images, "images"), (texts, "texts")))
    return float((x - y).norm())


@takes_arrays
@torch.no_grad()
def interclass_uniformity(z: Tensor, labels: Tensor) -> float:
    r"""How evenly the centres of the classes are spread.

    .. math:: \log \mathbb{E}_{a \ne b}\, e^{-2 \|c_a - c_b\|^2}

    DySTreSS (arXiv:2308.01140), eq. 18. :math:`c_a` is the mean of the unit embeddings of class a, not normalized
    again.
    """
    sums, counts = _class_sums(z, labels)
    if len(counts) < 2:
        raise ValueError(f"interclass_uniformity needs at least 2 classes, got {len(counts)}.")
    centres = sums / counts[:, None]
    n = len(centres)
    rows = []
    for at in (slice(i, min(i + ROWS, n)) for i in range(0, n, ROWS)):
        kernel = torch.cdist(centres[at], centres).square().mul_(-2)
        Periodic(n).hide(kernel, at, slice(0, n), -math.inf)
        rows.append(kernel.logsumexp(1))
    return float(torch.cat(rows).logsumexp(0) - math.log(n * (n - 1)))


@takes_arrays
@torch.no_grad()
def conditional_entropy(z: Tensor, t_neg: float = 2.0) -> float:
    r"""How evenly a query's repulsion is shared by its negatives; at most log(N − 1).

    .. math:: H(X^-|X) = -\mathbb{E}_i \sum_j \pi_{ij} \log \pi_{ij}, \qquad \pi_{ij} \propto e^{-t^- \|z_i - z_j\|^2}

    CACR (arXiv:2105.03746), eq. 8 and figure 3.
    """
    energy = Linear(2 * number("t_neg", t_neg))
    log_sums, means = reduce(_with_itself(z), LogSumExp(energy), Expectation(energy, energy))
    return float((log_sums - means).double().mean())


@takes_arrays
@torch.no_grad()
def local_separation(z0: Tensor, z1: Tensor, k: int = 10) -> tuple[float, Tensor]:
    """Mean similarity of an item's two views, and of view 0 to its 1st, …, k-th nearest *other* item of view 1.

    Wang & Liu 2021 (arXiv:2012.09740), §5.2 and figure 8.
    """
    a, b = unit_views([z0, z1])
    n = len(a)
    if not isinstance(k, int) or not 1 <= k < n:
        raise ValueError(f"k must lie between 1 and the {n - 1} other items, got {k}.")
    total = torch.zeros(k, dtype=torch.float64, device=a.device)
    step = min(n, max(ROWS, STRIP // n))
    strip = a.new_empty(step, n)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        s = torch.mm(a[rows], b.T, out=strip[: rows.stop - start])
        Periodic(n).hide(s, rows, slice(0, n), -math.inf)
        total += largest_values(s, k).double().sum(0)
    return float((a * b).sum(1).double().mean()), total / n


@takes_arrays
@torch.no_grad()
def effective_rank(z: Tensor) -> float:
    r"""How many directions the embedding really uses: e to the entropy of its covariance spectrum; 0 if nothing varies.

    .. math:: \exp\Big(-\sum_i p_i \log p_i\Big), \qquad p_i = \lambda_i / \sum_j \lambda_j

    Roy & Vetterli 2007. :math:`\lambda_i` are the eigenvalues of the covariance of the unit embeddings.
    """
    eigenvalues = spectrum(z)
    if eigenvalues.sum() < 1e-12:
        return 0.0
    p = eigenvalues / eigenvalues.sum()
    return float(torch.exp(-torch.special.xlogy(p, p).sum()))


@takes_arrays
@torch.no_grad()
def rankme(z: Tensor) -> float:
    r"""How many directions features really use: e to the entropy of their singular values.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big), \qquad p_k = \frac{\sigma_k}{\sum_j \sigma_j} + 10^{-7}

    RankMe, Garrido et al. 2023 (arXiv:2210.02885), eq. 3. :math:`\sigma_k` are the singular values of the features as
    they are, neither centred nor normalized; there are min(N, D). `effective_rank` takes variances of unit vectors.
    """
    z = matrix(z, "rankme")
    return smooth_rank(torch.linalg.svdvals(z.double()))


@takes_arrays
@torch.no_grad()
def lidar(*views: Tensor, delta: float = LIDAR_DELTA) -> float:
    r"""How many directions tell items apart and not views of one: e to the entropy of the spectrum of an LDA.

    .. math::
        \exp\Big(-\sum_k p_k \log p_k\Big), \quad p_k = \frac{\lambda_k}{\sum_j \lambda_j} + 10^{-7}, \quad
        \lambda = \operatorname{eig} \Sigma_w^{-1/2} \Sigma_b \Sigma_w^{-1/2}, \quad
        \Sigma_w = \frac{1}{nq} \sum_{i,a} (z_{ia} - \mu_i)(z_{ia} - \mu_i)^\top + \delta I

    LiDAR, Thilak et al. 2023 (arXiv:2312.04000), §4. The q views of an item are a class with the mean :math:`\mu_i`;
    :math:`\Sigma_b` is the covariance of these means. Embeddings as they are, neither centred nor normalized, (N, D)
    for each of two views or more. At most min(D, N − 1), but for the 10⁻⁷.
    """
    shapes = {tuple(v.shape) for v in views}
    if len(views) < 2 or len(shapes) > 1 or len(views[0]) < 2:
        raise ValueError(f"lidar takes 2 views or more of 2 items or more, all (N, D); got {sorted(shapes)}.")
    z = torch.stack([matrix(v, "lidar").double() for v in views])
    means = z.mean(0)
    within = (z - means).flatten(0, 1)
    between = means - means.mean(0)
    d = z.shape[2]
    scatter = within.T @ within / len(within) + positive("delta", delta) * torch.eye(d, dtype=z.dtype, device=z.device)
    root, failed = torch.linalg.cholesky_ex(scatter)
    if failed:
        raise ValueError(f"lidar adds {delta} to each dimension, which numbers as large as these swallow; scale them.")
    spread = torch.linalg.solve_triangular(root, between.T, upper=False)  # has the spectrum of Σ_w^−½ Σ_b Σ_w^−½
    return smooth_rank(torch.linalg.eigvalsh(spread @ spread.T / len(means)).clamp_min(0))


@takes_arrays
@torch.no_grad()
def alpha_req(z: Tensor, first: int = 11, last: int = 100) -> float:
    r"""How fast the variance of features falls along their principal directions: the exponent of a power law.

    .. math:: \lambda_k \propto k^{-\alpha}

    α-ReQ, Agrawal et al. 2022 (openreview:ii9X4vtZGTZ), §2. Near 1 the features are neither a few directions (large α)
    nor noise in all of them (small α). :math:`\lambda_k` are the eigenvalues of the covariance of the features as they
    are; α is the slope of :math:`\log \lambda_k` over :math:`-\log k` for k from `first` to `last`, least squares
    weighted by 1/k, as in the authors' code. Directions in which nothing varies are left out.
    """
    z = matrix(z, "alpha_req")
    at_least(1, first=first)
    centred = z.double() - z.double().mean(0)
    n, d = centred.shape
    gram = centred.T @ centred if d <= n else centred @ centred.T
    eigenvalues = torch.linalg.eigvalsh(gram / n).flip(0)[: min(n - 1, d)]
    there = eigenvalues[eigenvalues > eigenvalues[:1].clamp_min(1e-300) * 1e-12]
    if min(last, len(there)) - first < 2:
        raise ValueError(
            f"alpha_req fits directions {first} to {last}, but the features vary in {len(there)}. Give a smaller first."
        )
    y = there[first - 1 : last].log()
    k = torch.arange(first, first + len(y), dtype=y.dtype, device=y.device)
    x, w = -k.log(), 1 / k
    x, y = x - (w * x).sum() / w.sum(), y - (w * y).sum() / w.sum()
    return float((w * x * y).sum() / (w * x * x).sum())


def smooth_rank(values: Tensor) -> float:
    """e to the entropy of what is not negative, as parts of its sum, each with 1e-7 on top (RankMe, eq. 3)."""
    if not float(values.sum()):
        return 0.0
    p = values / values.sum() + RANKME_EPS
    return float(torch.exp(-(p * p.log()).sum()))


@takes_arrays
@torch.no_grad()
def spectrum(z: Tensor) -> Tensor:
    """The variance of the unit embeddings along each principal direction, (D,), the largest first, in float64."""
    z = unit(z, "z").double()
    centred = z - z.mean(0)
    wide = z.shape[1] - len(z)  # then the few rows have the same products as the many columns, but for zeros
    products = centred @ centred.T if wide > 0 else centred.T @ centred
    eigenvalues: Tensor = torch.linalg.eigvalsh(products / len(z)).clamp_min(0).flip(0)
    return torch.nn.functional.pad(eigenvalues, (0, wide)) if wide > 0 else eigenvalues


@takes_arrays
@torch.no_grad()
def projections(z: Tensor, count: int = 64, seed: int = 0) -> Tensor:
    """The embedding seen along `count` random directions, (count, N).

    Chen & Li 2021 (arXiv:2011.02803), figure 3. Of points spread evenly over the sphere each row has mean 0 and
    variance 1/D, and is nearly normal.
    """
    z = unit(z, "z")
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"at least 1 direction is needed, got {count}.")
    directions = torch.randn(count, z.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return unit(directions, "directions").to(z) @ z.T


@takes_arrays
@torch.no_grad()
def prior_distance(z: Tensor, count: int = 64, seed: int = 0) -> float:
    r"""How far the embedding is from evenly spread, along random directions: 0 as the prior, about √2 one point.

    .. math:: \sqrt{D\; \mathbb{E}_w\, W_2^2\big(\{w \cdot z_i\},\; \mathcal{N}(0, 1/D)\big)}

    Sliced Wasserstein distance to the prior of Chen & Li 2021 (arXiv:2011.02803), §3, in units of its own spread.
    Differs from the paper: the normal limit of the prior's projections stands for them, which is close from D = 10.
    """
    seen = projections(z, count, seed).double().sort(1).values
    n, d = seen.shape[1], z.shape[1]
    middles = (torch.arange(n, dtype=torch.float64, device=seen.device) + 0.5) / n
    wanted = torch.special.ndtri(middles) / math.sqrt(d)
    return math.sqrt(d * float((seen - wanted).square().mean()))


@takes_arrays
def hardness(s: Tensor, temperature: TemperatureLike) -> Tensor:
    r"""Each negative's share of the gradient that the negatives of one query receive together.

    .. math:: r_i(s_{ij}) = \frac{e^{s_{ij}/\tau}}{\sum_{k \ne i} e^{s_{ik}/\tau}}

    Wang & Liu 2021 (arXiv:2012.09740), eq. 5. `s` holds the similarities of a query to its negatives along the last
    dimension; the result has its shape and sums to 1 there. At low temperature the nearest negatives take it all.
    """
    return torch.softmax(scaled(temperature)(s.to(torch.promote_types(s.dtype, torch.float32))), dim=-1)


def matrix(z: Tensor, measure: str) -> Tensor:
    """Features (N, D) as they are, if a measure of their spectrum can be taken."""
    if z.ndim != 2 or not z.is_floating_point():
        raise ValueError(f"{measure} takes floating-point features (N, D), got {tuple(z.shape)} of {z.dtype}.")
    if not z.numel() or not bool(torch.isfinite(z).all()) or not bool(z.any()):
        raise ValueError(f"{measure} needs features that are finite and not all 0.")
    return z


def _with_itself(z: Tensor) -> Pairs:
    """Every item against every other one."""
    z = unit(z, "z")
    if len(z) < 2:
        raise ValueError(f"at least 2 embeddings are needed, got {len(z)}.")
    return Pairs(z, None, z.new_empty(len(z), 0), Periodic(len(z)), len(z) - 1)


def _class_sums(z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """For each class that occurs, the sum of its unit embeddings and how many there are, in float64."""
    z = unit(z, "z").double()
    _, place, counts = torch.unique(one_label_each(labels, z), return_inverse=True, return_counts=True)
    sums = z.new_zeros(len(counts), z.shape[1]).index_add(0, place, z)
    return sums, counts.double()
