"""The softmax family: how surprised a softmax over the candidates is by the positive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from isotherm import temperature as temperatures
from isotherm import world
from isotherm.checks import number, one_of, positive
from isotherm.engine import Elementwise, LogSumExp, Total, reduce
from isotherm.losses.loss import Loss, full_precision, refuse_unlike, uncompiled
from isotherm.pairing import as_views, cross_view, labelled
from isotherm.temperature import scaled
from isotherm.types import Pairs, Reduction, TemperatureLike
from isotherm.waiting import may_wait

__all__ = ["CMCLoss", "DySTreSSLoss", "InfoNCELoss", "MACLLoss", "NTXentLoss", "SupConLoss"]

Profile = Literal["cosine", "linear", "exponential", "monotone", "shifted", "left-half"]


def gap(positives: Tensor, negatives: Tensor) -> Tensor:
    """By how much a positive's rivals outweigh it: the log-sum-exp of all other candidates less its energy, (n, p).

    `positives` are the energies (n, p); `negatives` the log-sum-exp of the negatives, (n,) or (n, p).
    """
    if negatives.ndim == 1:
        negatives = negatives[:, None]
    if positives.shape[1] == 1:
        return negatives - positives
    # the other positives: those before and those after
    nobody = positives.new_full((len(positives), 1), -torch.inf)
    before = torch.cat([nobody, positives.logcumsumexp(1)[:, :-1]], 1)
    after = torch.cat([positives.flip(1).logcumsumexp(1).flip(1)[:, 1:], nobody], 1)
    return torch.logaddexp(torch.logaddexp(before, after), negatives) - positives


def surprise(positives: Tensor, negatives: Tensor) -> Tensor:
    """−log of the softmax probability of each positive, all candidates in the denominator: log(1 + e^gap), (n, p)."""
    return torch.logaddexp(gap(positives, negatives), positives.new_zeros(()))


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
    With `negatives` view 0 asks alone, and the other views are its positives together, each among all.
    """

    def __init__(
        self, temperature: TemperatureLike = 0.2, symmetric: bool = True, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature
        self.symmetric = symmetric

    two_by_two = True

    @property
    def only_for_pairing(self) -> str:
        return "" if self.symmetric else "symmetric=False"

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
    Differs from the paper: the mean over pairs of views, where it has the sum. With `negatives` view 0 asks alone, and
    the other views are its positives together, each among all.
    """

    def __init__(self, temperature: TemperatureLike = 0.07, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature

    two_by_two = True

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
    `profile="shifted"`), Table 10 (linear, exponential), appendix C (monotone) or §5.8 (left-half, its "Shifted Minima
    Ver. 3"); the same as `NTXentLoss` with that `isotherm.temperature`. `detach=False` lets the gradient flow through
    τ(s), eq. 6–7.

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
        self.shift, self.scale = number("shift", shift), positive("scale", scale)
        moved = shift != 0 or scale != 1
        if moved and profile not in ("cosine", "shifted"):
            raise ValueError(f"shift and scale move the cosine profile only, not {profile!r}.")
        if scale != 1 and shift == 0 and profile == "cosine":
            raise ValueError('scale needs a shift to go with it (Alg. 2); for Alg. 2 at shift 0 say profile="shifted".')
        scaled(self.temperature)

    @property
    def temperature(self) -> TemperatureLike:
        """The temperature these settings describe."""
        if self.shift != 0 or self.profile == "shifted":
            return temperatures.Shifted(self.tau_min, self.tau_max, self.shift, self.scale, self.detach)
        shapes: dict[str, Callable[..., Callable[[Tensor], Tensor]]] = {
            "cosine": temperatures.Cosine,
            "linear": temperatures.Linear,
            "exponential": temperatures.Exponential,
            "monotone": temperatures.Monotone,
            "left-half": temperatures.LeftHalf,
        }
        return shapes[self.profile](self.tau_min, self.tau_max, detach=self.detach)

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
    Differs from the paper: computed so that P → 1 gives 1, with its gradient, and not 0/0.
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
        self.temperature = temperature
        self.alpha, self.threshold = positive("alpha", alpha), number("threshold", threshold)

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = self._energy(world.mean(pairs.positives.detach().mean(1)))
        (negatives,) = reduce(pairs, LogSumExp(energy))
        behind = gap(energy(pairs.positives), negatives)
        x = torch.logaddexp(behind, behind.new_zeros(())).detach()  # −log P
        value = torch.where(x < 1e-4, 1 + x / 2, x / -torch.expm1(-x))  # x/(1 − P)
        # d(−log P) = (1 − P) d(gap), so the weighted gradient is that of the gap itself, also where 1 − P underflows
        return (behind + (value - behind).detach()).mean(1)

    def _energy(self, alignment: Tensor) -> Elementwise:
        aware, base = temperatures.AlignmentAware(self.alpha, self.threshold), self.temperature
        if may_wait() or not isinstance(base, int | float | temperatures.Learnable):
            return scaled(base, times=1 / aware.factor(alignment.item()))
        return scaled(aware.temperature(base.value() if isinstance(base, temperatures.Learnable) else base, alignment))


class SupConLoss(Loss):
    r"""How surprised a softmax over everything else is by the embeddings of the same class, on average.

    .. math::
        \mathcal{L}_i = -\frac{1}{|P(i)|} \sum_{p \in P(i)} \log \frac{e^{s_{ip}/\tau}}{\sum_{k \ne i} e^{s_{ik}/\tau}}

    Khosla et al. 2020 (arXiv:2004.11362), eq. 2 ("out"). Called ``loss(embeddings, labels)``, a label each, or
    ``loss(z0, z1, *more_views, labels=labels)``, one label for all views of an item. :math:`P(i)` holds the other
    embeddings with the label of i.

    Fixed points: log(n − 1) when all similarities are equal, n embeddings.
    """

    def __init__(self, temperature: TemperatureLike = 0.1, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.temperature = temperature

    takes_labels = True
    is_potential = False  # its positives are a sum as well, over a mask of labels

    @uncompiled
    def forward(  # type: ignore[override]
        self, *embeddings: Tensor, labels: Tensor | None = None, weights: Tensor | None = None, **other: object
    ) -> Tensor:
        """The loss of embeddings with a label each, or of views of items with a label each."""
        if other:
            raise TypeError(self._takes_no(next(iter(other))))
        if labels is None:
            if len(embeddings) != 2 or getattr(embeddings[1], "ndim", 1) == 2:
                raise ValueError(
                    f"labels are missing: loss(embeddings, labels) or loss({_listed(embeddings)}labels=y)."
                )
            *embeddings, labels = embeddings  # type: ignore[assignment]
        refuse_unlike(embeddings, weights=weights)
        with full_precision(embeddings):
            z = embeddings[0]
            if len(embeddings) > 1:
                z = torch.cat(as_views(embeddings))
                labels = _one_each(labels, embeddings[0]).repeat(len(embeddings))
            return self.weighted(lambda loss: loss.of(labelled(z, labels)), embeddings, weights)

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = scaled(self.temperature)
        everything, attraction = reduce(
            pairs, LogSumExp(energy, where=pairs.itself), Total(energy, where=pairs.only_positives)
        )
        return everything - attraction / pairs.positive_counts  # type: ignore[operator]  # `of` saw to it


def _listed(views: Sequence[Tensor]) -> str:
    return "".join(f"z{i}, " for i in range(max(2, len(views))))


def _one_each(labels: Tensor, view: Tensor) -> Tensor:
    labels = torch.as_tensor(labels, device=view.device)
    if labels.shape != (len(view),):
        raise ValueError(
            f"labels must hold one label per item, shape ({len(view)},), for all its views; got {tuple(labels.shape)}."
        )
    return labels
