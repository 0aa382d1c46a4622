"""Every pair its own yes-or-no question: no query's negatives compete with each other."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

from torch import Tensor, nn, tensor

from isotherm.checks import number, parameters
from isotherm.engine import Softplus, Total, reduce, softplus
from isotherm.losses.loss import Loss
from isotherm.pairing import cross_view
from isotherm.temperature import Learnable, scaled
from isotherm.types import Pairs, Reduction, TemperatureLike

__all__ = ["SigLIPLoss"]

LIMITS = (1e-4, 1e4)
"""Between which a learnable temperature stays; the paper has none."""


class SigLIPLoss(Loss):
    r"""How wrong a yes or no is for every pair of items of two views: yes for an item with itself, no for all others.

    .. math::
        \mathcal{L}_i = \log\left(1 + e^{-(t s_{ii} + b)}\right) + \sum_{k \ne i} \log\left(1 + e^{t s_{ik} + b}\right),
        \qquad s_{ik} = z^a_i \cdot z^b_k

    Zhai et al. 2023 (SigLIP, arXiv:2303.15343), eq. 1 and Alg. 1. The scale t is 1/`temperature`; scale and `bias`
    are trained with the network unless `learnable` is off, the scale as its logarithm. The bias starts low, as nearly
    all answers are no. Both views ask and share the sum of the pairs; more than two: the mean over pairs of views.

    Fixed points: log(1 + e^−x) + (n − 1) log(1 + e^x) when all similarities are s, x = ts + b, n items.
    Differs from the paper: a temperature may depend on the similarity; several positives of a query are summed.
    """

    def __init__(
        self,
        temperature: TemperatureLike = 0.1,
        bias: float = -10.0,
        learnable: bool = True,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        scaled(temperature)
        self.learnable = learnable
        if learnable and isinstance(temperature, numbers.Real):
            temperature = Learnable(float(temperature), *LIMITS)
        self.temperature = temperature
        self.bias: float | nn.Parameter = number("bias", bias)
        if learnable:
            self.bias = nn.Parameter(tensor(float(bias)))

    two_by_two = True

    def pair(self, views: Sequence[Tensor]) -> list[Pairs]:
        return cross_view(views)

    def per_query(self, pairs: Pairs) -> Tensor:
        like = pairs.queries
        energy = scaled(self.temperature)
        bias = self.bias.to(like.dtype) if isinstance(self.bias, Tensor) else like.new_tensor(self.bias)
        (wrong,) = reduce(pairs, Total(Softplus(energy, bias)))
        return wrong + softplus(-(energy(pairs.positives) + bias)).sum(1)

    def extra_repr(self) -> str:
        shown = {n: getattr(self, n) for n in parameters(type(self)) if n not in self._modules}
        return ", ".join(f"{n}={v.item() if isinstance(v, Tensor) else v!r}" for n, v in shown.items())
