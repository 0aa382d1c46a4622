"""The softmax family: how surprised a softmax over the candidates is by the positive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from isotherm import temperature as temperatures
from isotherm import world
from isotherm.engine import LogSumExp, Total, reduce
from isotherm.losses.loss import Loss, full_precision, one_of, uncompiled
from isotherm.pairing import cross_view, labelled
from isotherm.temperature import scaled
from isotherm.types import Pairs, Reduction, TemperatureLike

__all__ = ["CMCLoss", "DySTreSSLoss", "InfoNCELoss", "MACLLoss", "NTXentLoss", "SupConLoss"]

Profile = Literal["cosine", "linear", "exponential", "monotone", "shifted"]


def surprise(positives: Tensor, negatives: Tensor) -> Tensor:
    """−log of the softmax probability of each positive energy, all candidates in the denominator: (n, p).

    `positives` are the energies (n, p); `negatives` the log-sum-exp of the others, (n,) or (n, p).
    """
    n, p = positives.shape
    if negatives.ndim == 1:
        negatives = negatives[:, None].expand(n, p)
    if p == 1:
        return torch.logaddexp(negatives - positives, positives.new_zeros(()))
    others = (
        positives[:, None, :]
        .expand(n, p, p)
        .masked_fill(torch.eye(p, dtype=torch.bool, device=positives.device), -torch.inf)
    )
    rivals = torch.cat([others, negatives[:, :, None]], 2).logsumexp(2)
    return torch.logaddexp(rivals - positives, torch.zeros_like(rivals))


def contrastive(pairs: Pairs, temperature: TemperatureLike, top_k: int | None = None) -> Tensor:
    energy = scaled(temperature)
    (negatives,) = reduce(pairs, LogSumExp(energy), top_k=top_k)
    return surprise(energy(pairs.positives), negatives).mean(1)


class NTXentLoss(Loss):
    r"""How surprised a softmax over the candidates is by the positive.

    .. math::
        \mathcal{L}_i = -\log \frac{e^{s_{ip}/\tau}}{e^{s_{ip}/\tau} + \sum_{k \in N(i)} e^{s_{ik}/\tau}}

    Wang & Liu 2021 (arXiv:2012.09740), eq. 1; Chen & Li 2021 (arXiv:2011.02803), eq. 2.
    :math:`p` is a positive of query i, :math:`N(i)` its negatives; every embedding of the batch is a query (SimCLR).

    Fixed points: log(1 + m) when all similarities are equal, m the number of negatives.
    Differs from the papers: several positives are averaged, each against all candidates; mean over queries, not sum.
    """

    def __init__(self, temperature: TemperatureLike = 0.2, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature

    def per_query(self, pairs: Pairs) -> Tensor:
        return contrastive(pairs, self.temperature)


class InfoNCELoss(Loss):
    r"""How surprised a view is by which item of the other view is its own.

    .. math::
        \mathcal{L}_i = -\log \frac{e^{s_{ii}/\tau}}{\sum_{k} e^{s_{ik}/\tau}},
        \qquad s_{ik} = z^a_i \cdot z^b_k

    Wang & Liu 2021 (arXiv:2012.09740), eq. 1, with the other view's items as candidates: CLIP, SimCSE.
    `symmetric` asks both ways and takes the mean; more than two views: the mean over pairs of views.

    Fixed points: log(n) when all similarities are equal, n items.
    """

    def __init__(
        self, temperature: TemperatureLike = 0.2, symmetric: bool = True, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature
        self.symmetric = symmetric

    def pair(self, views: Sequence[Tensor]) -> list[Pairs]:
        return cross_view(views, self.symmetric)

    def per_query(self, pairs: Pairs) -> Tensor:
        return contrastive(pairs, self.temperature)


class CMCLoss(Loss):
    r"""InfoNCE between every two views: contrastive multiview coding with any number of views.

    .. math::
        \mathcal{L} = \frac{2}{V(V-1)} \sum_{a<b} \tfrac12 \left(\mathcal{L}^{a \to b} + \mathcal{L}^{b \to a}\right)

    Tian et al. 2019 (arXiv:1906.05849), eq. 8, the baseline of CACR (arXiv:2105.03746), Table 2.
    :math:`\mathcal{L}^{a \to b}` is `InfoNCELoss` with view a asking and view b answering.

    Fixed points: log(n) when all similarities are equal, n items.
    Differs from the paper: the mean over pairs of views, where it has the sum.
    """

    def __init__(self, temperature: TemperatureLike = 0.07, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature

    def pair(self, views: Sequence[Tensor]) -> list[Pairs]:
        return cross_view(views)

    def per_query(self, pairs: Pairs) -> Tensor:
        return contrastive(pairs, self.temperature)


class DySTreSSLoss(Loss):
    r"""NT-Xent with a temperature that depends on each pair's similarity.

    .. math::
        \mathcal{L}_i = -\log \frac{e^{s_{ip}/\tau(s_{ip})}}
            {e^{s_{ip}/\tau(s_{ip})} + \sum_{k \in N(i)} e^{s_{ik}/\tau(s_{ik})}}

    Manna et al. 2024 (DySTreSS, arXiv:2308.01140), eq. 1 with Alg. 1 (`profile="cosine"`), Alg. 2 (`shift` ≠ 0 or
    `profile="shifted"`), Table 10 (linear, exponential) or appendix C (monotone); the same as `NTXentLoss` with
    that `isotherm.temperature`. `detach=False` lets the gradient flow through τ(s), eq. 6–7.

    Fixed points: log(1 + m) when all similarities are equal, m the number of negatives.
    """

    def __init__(
        self,
        tau_min: float = 0.07,
        tau_max: float = 0.2,
        profile: Profile = "cosine",
        shift: float = 0.0,
        scale: float = 1.0,
        detach: bool = True,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.tau_min, self.tau_max, self.detach = tau_min, tau_max, detach
        self.profile = one_of("profile", profile, get_args(Profile))
        self.shift, self.scale = shift, scale
        moved = shift != 0 or scale != 1
        if moved and profile not in ("cosine", "shifted"):
            raise ValueError(f"shift and scale move the cosine profile only, not {profile!r}.")
        if scale != 1 and shift == 0 and profile == "cosine":
            raise ValueError('scale needs a shift to go with it (Alg. 2); for Alg. 2 at shift 0 say profile="shifted".')
        if moved or profile == "shifted":
            self.temperature: TemperatureLike = temperatures.Shifted(tau_min, tau_max, shift, scale, detach)
        else:
            self.temperature = {
                "cosine": temperatures.Cosine,
                "linear": temperatures.Linear,
                "exponential": temperatures.Exponential,
                "monotone": temperatures.Monotone,
            }[profile](tau_min, tau_max, detach=detach)

    def per_query(self, pairs: Pairs) -> Tensor:
        return contrastive(pairs, self.temperature)


class MACLLoss(Loss):
    r"""NT-Xent that softens its temperature as the model aligns, and undoes the vanishing of its gradient.

    .. math::
        \mathcal{L}_i = -\mathrm{sg}\!\left(\frac{1}{1 - P_i}\right) \log P_i, \qquad
        \tau = \tau_0 (1 + \alpha (A - A_0)), \quad A = \text{mean of } \mathrm{sg}(s_{ip})

    Huang et al. 2023 (MACL, arXiv:2207.07874), a baseline in Table 1 of DySTreSS (arXiv:2308.01140).
    :math:`P_i` is the softmax probability of the positive at temperature τ, A the batch's alignment, `threshold` A₀.

    Fixed points: (1 + 1/m) log(1 + m) when all similarities are equal, m the number of negatives.
    Differs from the paper: 1 − P is computed as −expm1(log P), so P → 1 gives 1 and not 0/0.
    """

    def __init__(
        self,
        temperature: TemperatureLike = 0.1,
        alpha: float = 0.5,
        threshold: float = 0.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature, self.alpha, self.threshold = temperature, alpha, threshold

    def per_query(self, pairs: Pairs) -> Tensor:
        alignment = world.mean(pairs.positives.detach().mean(1)).item()
        factor = temperatures.AlignmentAware(self.alpha, self.threshold).factor(alignment)
        energy = scaled(self.temperature, times=1 / factor)
        (negatives,) = reduce(pairs, LogSumExp(energy))
        value = surprise(energy(pairs.positives), negatives)
        missing = -torch.expm1(-value.detach())  # 1 − P
        return (value / missing.clamp_min(torch.finfo(value.dtype).tiny)).mean(1)


class SupConLoss(Loss):
    r"""How surprised a softmax over everything else is by the embeddings of the same class, on average.

    .. math::
        \mathcal{L}_i = -\frac{1}{|P(i)|} \sum_{p \in P(i)} \log \frac{e^{s_{ip}/\tau}}{\sum_{k \ne i} e^{s_{ik}/\tau}}

    Khosla et al. 2020 (arXiv:2004.11362), eq. 2 ("out"). Called ``loss(embeddings, labels)``;
    :math:`P(i)` holds the other embeddings with the label of i.

    Fixed points: log(n − 1) when all similarities are equal, n embeddings.
    """

    def __init__(self, temperature: TemperatureLike = 0.1, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature

    @uncompiled
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:  # type: ignore[override]
        with full_precision([embeddings]):
            return self.of(labelled(embeddings, labels))

    def per_query(self, pairs: Pairs) -> Tensor:
        if pairs.positive_counts is None:
            raise ValueError("SupConLoss needs labelled pairs (isotherm.pairing.labelled).")
        energy = scaled(self.temperature)
        everything, attraction = reduce(
            pairs, LogSumExp(energy, where=pairs.itself), Total(energy, where=pairs.only_positives)
        )
        return everything - attraction / pairs.positive_counts
