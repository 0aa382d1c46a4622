"""Views that predict each other's place among prototypes: what SwAV and DINO share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from isotherm import world
from isotherm.checks import at_least
from isotherm.methods.method import Given

SHARE = 10
"""Items per prototype, at least, where nobody says how many prototypes there are."""


def prototype_count(method: str, asked: int | None, usual: int, given: Given) -> int:
    """How many prototypes: as many as are asked for, else the paper's, or a tenth of the items if these are few."""
    fitting = min(usual, max(2, given.items // SHARE)) if given.items else usual
    at_least(2, prototypes=asked)
    if asked is not None and given.items and asked > given.items:
        raise ValueError(
            f"{method} cannot place {given.items:,} items among {asked:,} prototypes: most would be nobody's. "
            f"Use --method.prototypes {fitting}, or more items."
        )
    return fitting if asked is None else asked


@torch.no_grad()
def sinkhorn(scores: Tensor, epsilon: float = 0.05, iterations: int = 3) -> Tensor:
    r"""Codes (n, K): each item's place among the prototypes, such that all prototypes have equally much of everyone.

    .. math::
        \mathbf{Q}^* = \mathrm{Diag}(\mathbf{u}) \exp\left(\frac{\mathbf{C}^\top \mathbf{Z}}{\varepsilon}\right)
        \mathrm{Diag}(\mathbf{v})

    Caron et al. 2020 (SwAV, arXiv:2006.09882), eq. 3 to 5, by Sinkhorn and Knopp's algorithm: in turn, all prototypes
    get the same sum over the items of all processes, and each item's code sums to one. In logarithms, so that no ε is
    too small. `scores` (n, K) are an item's similarities to the prototypes; no gradient flows.

    Fixed points: 1/K everywhere when all scores are equal.
    """
    log_q = scores / epsilon
    for _ in range(iterations):
        prototypes = world.gather(log_q.logsumexp(0, keepdim=True)).logsumexp(0)
        log_q = log_q - prototypes
        log_q = log_q - log_q.logsumexp(1, keepdim=True)
    return log_q.exp()


def swapped_prediction(targets: Sequence[Tensor], scores: Sequence[Tensor], temperature: float) -> Tensor:
    r"""How surprised each view's softmax over the prototypes is by the targets of the item's other views.

    .. math::
        \mathcal{L} = \frac{1}{T (V - 1)} \sum_{t \le T} \sum_{v \ne t}
        - \frac{1}{n} \sum_i \sum_k q_{tik} \log \frac{e^{s_{vik}/\tau}}{\sum_{k'} e^{s_{vik'}/\tau}}

    Caron et al. 2020 (SwAV, arXiv:2006.09882), eq. 1, 2 and 6; Caron et al. 2021 (DINO, arXiv:2104.14294), eq. 2 and 3,
    divided by the number of terms as in the authors' code. :math:`q_t` are the targets of view t, one for each of the
    first T of the V views, (n, K); :math:`s_v` the scores of view v, (n, K). n counts the items of all processes.

    Fixed points: log K when a view's scores are all equal.
    """
    terms = len(targets) * (len(scores) - 1)
    total = torch.zeros_like(scores[0][:, 0])
    for v, score in enumerate(scores):
        others = [q for t, q in enumerate(targets) if t != v]
        if others:
            total = total - (torch.stack(others).sum(0) * torch.log_softmax(score / temperature, 1)).sum(1)
    return world.mean(total / terms)
