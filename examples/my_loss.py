"""A loss of one's own: candidates weighed by a power of their nearness instead of an exponential.

    isotherm train --loss ./examples/my_loss.py:PowerLoss --loss.power 4 --data digits --epochs 2 --out runs/power

A loss is a subclass of `Loss` that writes `per_query`; the arguments of its constructor are its settings. The study of
this one is `examples/my_study.py`.
"""

from torch import Tensor
from torch.nn.functional import softplus

from isotherm.checks import positive
from isotherm.engine import LogSumExp, Smooth, reduce
from isotherm.losses.loss import Loss
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
