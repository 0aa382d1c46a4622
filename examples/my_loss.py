"""A loss of one's own: candidates weighed by a power of their nearness instead of an exponential.

    isotherm check ./examples/my_loss.py:PowerLoss      the laws, and its equation as loops (`oracle` below)
    isotherm train --loss ./examples/my_loss.py:PowerLoss --loss.power 4 --data digits --epochs 2 --out runs/power
    isotherm bench losses --loss ./examples/my_loss.py:PowerLoss --pairs 1024

A loss is a subclass of `Loss` that writes `per_query`; the arguments of its constructor are its settings. The study of
this one is `examples/my_study.py`.
"""

import math

import numpy as np
from torch import Tensor
from torch.nn.functional import softplus

from isotherm.checks import positive
from isotherm.engine import LogSumExp, Smooth, reduce
from isotherm.nn import Loss
from isotherm.types import Pairs, Reduction


class PowerLoss(Loss):
    r"""How surprised one is by the positive if candidates are drawn in proportion to a power of their nearness.

    .. math::
        \mathcal{L}_i = -\log \frac{c_{ip}^k}{c_{ip}^k + \sum_{j \in N(i)} c_{ij}^k}, \qquad
        c_{ij} = \frac{1 + s_{ij}}{2} + 0.01

    `power` is k: the larger, the more the nearest negatives count. Fixed points: log(1 + m) when all similarities are
    equal, m the number of negatives.
    """

    def __init__(self, power: float = 8.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.power = positive("power", power)

    def per_query(self, pairs: Pairs) -> Tensor:
        energy = Smooth(lambda s: self.power * ((1 + s).clamp_min(0) / 2 + 0.01).log())
        (negatives,) = reduce(pairs, LogSumExp(energy))
        return softplus(negatives[:, None] - energy(pairs.positives)).mean(1)


def oracle(views, power=8.0):
    """The equation as plain loops over arrays: one value per query, all of view 0, then view 1, …"""
    z = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in views]
    weight = [[[[float((a @ b + 1) / 2 + 0.01) ** power for b in w] for w in z] for a in v] for v in z]
    values = []
    for a in range(len(z)):
        for i in range(len(z[a])):
            others = sum(weight[a][i][b][j] for b in range(len(z)) for j in range(len(z[b])) if j != i)
            own = [weight[a][i][b][i] for b in range(len(z)) if b != a]
            values.append(sum(-math.log(w / (w + others)) for w in own) / len(own))
    return values
