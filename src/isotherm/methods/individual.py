"""A temperature for every item: predicted by the network (TaU), or learnt for each of them (iSogCLR)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from isotherm import world
from isotherm.checks import not_negative, positive
from isotherm.losses.individual import robust, uncertain
from isotherm.losses.loss import full_precision
from isotherm.methods.method import Given, Method, Network, through
from isotherm.pairing import in_batch
from isotherm.schedules import temperature_range
from isotherm.types import Batch
from isotherm.waiting import may_wait

STEEPEST = 3.0
"""The largest gradient that a temperature follows, as in the authors' code."""


class TaU(Method):
    r"""SimCLR in which the network says of every view how sure it is of it: NT-Xent at temperature :math:`\tau/c_i`.

    .. math::
        \mathcal{L}_i = -\log \frac{e^{c_i s_{ip}/\tau}}{\sum_{k \ne i} e^{c_i s_{ik}/\tau}},
        \qquad c_i = \frac{1}{1 + e^{-o(x_i)}}

    Zhang et al. 2021 (Temperature as Uncertainty, arXiv:2110.04403); τ = 0.1 in their experiments. o is one more output
    of the network, and :math:`\tau/c_i`, the view's own temperature, is its `uncertainty`: the paper finds it high for
    images that could be many things, or that are unlike all it has seen.

    Fixed points: log(1 + m) when all certainties are 0, m negatives: there nothing more is learnt. Steps that are too
    large can lead there: in one run on the digits each, SGD at 0.3 did and at 0.1 did not.

    Differs from the paper: o is a linear output of the encoder's features, beside the head and not its last number, so
    that any head will do, also one that ends in BN. The authors' code leaves the positive out of the sum below, and
    takes view 0's certainty for both directions of a positive; here each is as in the equation.
    """

    compares = True

    def __init__(self, network: Network, temperature: float = 0.1) -> None:
        super().__init__(network)
        width = network.encoder.width
        assert isinstance(width, int)
        self.temperature = positive("temperature", temperature)
        self.certainty = nn.Linear(width, 1)

    def embed(self, batch: Batch) -> list[Tensor]:
        features = through(self.network.encoder, batch.views)
        return [*through(self.network.head, features), *through(self.certainty, features)]

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        views = len(embedded) // 2
        with full_precision(embedded):
            (pairs,) = in_batch(embedded[:views])
            outputs = torch.cat(list(embedded[views:]))[:, 0].to(pairs.queries.dtype)
            return world.mean(uncertain(pairs, torch.sigmoid(outputs), self.temperature))

    @torch.no_grad()
    def uncertainty(self, views: Tensor) -> Tensor:
        """The temperature of each of these views, (n,): the higher, the less the network knows what it sees."""
        training = self.training
        self.eval()
        output = self.certainty(self.network.encoder(views))[:, 0]
        self.train(training)
        return self.temperature / torch.sigmoid(output.to(torch.promote_types(output.dtype, torch.float32)))


class ISogCLR(Method):
    r"""SimCLR with a temperature for every item, learnt by distributionally robust optimization.

    .. math::
        \min_{w, \tau} \frac{1}{n} \sum_i \tau_i \log \mathbb{E}_{k \in N(i)} e^{(s_{ik} - s_{ip})/\tau_i}
            + \tau_i \rho, \qquad \tau_- \le \tau_i \le \tau_+

    Qiu et al. 2023 (iSogCLR, arXiv:2305.11965), Alg. 1: items that many others are like get a high temperature, rare
    ones a low one. For each item it remembers a moving average of the sum over its negatives (`gamma`), its
    temperature, and a moving average of that one's gradient (`beta`), which it follows at the rate `eta`
    (`losses.individual.robust` has the estimators). `rho` is the radius of the KL ball. The defaults are those of the
    authors' example for CIFAR-100; there the learning rate is 0.8 for a batch of 128.

    Like the authors' code, not the paper: the average is of :math:`e^{s_{ik}/\tau_i}` without the positive; the views
    of an item share its average, their mean; gradients of temperatures are cut at ±3. An item's first average is its
    first batch's (in the code: that of the first epoch). The loss is the mean over views; the code has their sum.
    """

    compares = True

    def __init__(
        self,
        network: Network,
        given: Given,
        temperature: float = 0.1,
        tau_min: float = 0.05,
        tau_max: float = 1.0,
        rho: float = 0.4,
        gamma: float = 0.8,
        beta: float = 0.5,
        eta: float = 0.03,
    ) -> None:
        super().__init__(network)
        temperature_range(tau_min, tau_max)
        if not tau_min <= positive("temperature", temperature) <= tau_max:
            raise ValueError(f"temperature must lie in [{tau_min}, {tau_max}], got {temperature}.")
        for name, value in {"gamma": gamma, "beta": beta}.items():
            if not 0 < value <= 1:
                raise ValueError(f"{name}, the weight of what is new in a moving average, lies in (0, 1], got {value}.")
        if given.items < 1:
            raise ValueError("iSogCLR remembers a temperature for every item: say how many there are, Given(items=…).")
        self.tau_min, self.tau_max, self.rho = tau_min, tau_max, not_negative("rho", rho)
        self.gamma, self.beta, self.eta = gamma, beta, not_negative("eta", eta)
        self.register_buffer("temperatures", torch.full((given.items,), float(temperature)))
        self.register_buffer("log_masses", torch.full((given.items,), -torch.inf))
        self.register_buffer("slopes", torch.zeros(given.items))
        self.pending: tuple[Tensor, Tensor, Tensor] | None = None

    temperatures: Tensor
    """Of every item."""
    log_masses: Tensor
    """Logarithms of the moving averages of the sums over negatives; −∞: the item has not been seen."""
    slopes: Tensor
    """Moving averages of the gradients of the temperatures."""

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        items = self._known(batch, len(embedded[0]))
        views = len(embedded)
        with full_precision(embedded):
            (pairs,) = in_batch(embedded)
            tau, mass = (state[items].repeat(views) for state in (self.temperatures, self.log_masses))
            result = robust(pairs, tau, mass, self.tau_min, self.gamma, self.rho)
            value = world.mean(result.value)
        mass = result.log_mass.unflatten(0, (views, -1)).logsumexp(0) - math.log(views)
        slope = result.slope.unflatten(0, (views, -1)).mean(0).clamp(-STEEPEST, STEEPEST)
        self.pending = (world.gather(items), world.gather(mass), world.gather(slope))
        return value

    def _known(self, batch: Batch, n: int) -> Tensor:
        """The items of the batch, if each has a place in what is remembered."""
        items = batch.indices
        if not isinstance(items, Tensor) or items.shape != (n,):
            raise ValueError(
                f"iSogCLR has a temperature for every item and must know which {n} these are: give their indices with "
                f"the batch, shape ({n},); got {None if items is None else tuple(items.shape)}."
            )
        room = len(self.temperatures)
        if may_wait() and len(items) and not (int(items.min()) >= 0 and int(items.max()) < room):
            raise ValueError(
                f"items {int(items.min())} to {int(items.max())} came, and iSogCLR remembers {room}: make it for as "
                "many as the data has, Given(items=…), and number them from 0."
            )
        return items

    @torch.no_grad()
    def after_step(self) -> None:
        assert self.pending is not None
        items, mass, slope = self.pending
        self.log_masses[items] = mass.to(self.log_masses.dtype)
        self.slopes[items] = torch.lerp(self.slopes[items], slope.to(self.slopes.dtype), self.beta)
        moved = self.temperatures[items] - self.eta * self.slopes[items]
        self.temperatures[items] = moved.clamp(self.tau_min, self.tau_max)
        self.pending = None
