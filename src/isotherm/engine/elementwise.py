"""Functions of one similarity, applied entry by entry, with the derivative the engine needs.

Each is used in two ways: called on a small tensor (the positives) it is an ordinary differentiable
expression; on a tile it writes its value into a buffer and gives a `pull` that turns dL/df into dL/ds,
so that a tile's gradient is formed without recording the tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

Pull = Callable[[Tensor], tuple[Tensor, tuple[Tensor | None, ...]]]
"""dL/df of a tile ↦ dL/ds of the tile and dL/dθ of each parameter. May overwrite its argument."""


class Elementwise(Protocol):
    """A function f(s) of one similarity, perhaps with learnable parameters."""

    @property
    def bound(self) -> float:
        """An upper bound of \\|f\\| on [−1, 1]; infinite when nobody knows."""

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """The tensors f depends on, learnable or not."""

    def __call__(self, s: Tensor) -> Tensor:
        """f(s) as a differentiable expression."""

    def on_tile(self, s: Tensor, out: Tensor) -> tuple[Tensor, Pull]:
        """f(s) written into `out` (which may be `s` itself), and how its gradient is pulled back."""


@dataclass(frozen=True)
class Linear:
    """f(s) = scale · s."""

    scale: float = 1.0
    parameters: tuple[Tensor, ...] = ()

    @property
    def bound(self) -> float:
        return abs(self.scale)

    def __call__(self, s: Tensor) -> Tensor:
        return s * self.scale

    def on_tile(self, s: Tensor, out: Tensor) -> tuple[Tensor, Pull]:
        if self.scale == 1.0:
            return (s if out is s else out.copy_(s)), lambda g: (g, ())
        return torch.mul(s, self.scale, out=out), lambda g: (g.mul_(self.scale), ())


@dataclass(frozen=True, eq=False)
class Scaled:
    """f(s) = scale · s with a scale that is learnt: `Linear` with a gradient for its number."""

    scale: Tensor

    @property
    def bound(self) -> float:
        return abs(float(self.scale.detach()))

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (self.scale,)

    def __call__(self, s: Tensor) -> Tensor:
        return s * self.scale

    def on_tile(self, s: Tensor, out: Tensor) -> tuple[Tensor, Pull]:
        kept = s.clone()  # what is written into `out` may be overwritten
        scale = self.scale.detach()

        def pull(g: Tensor) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            slope = (g * kept).sum() if self.scale.requires_grad else None
            return g.mul_(scale), (slope,)

        return torch.mul(s, scale, out=out), pull


@dataclass(frozen=True)
class Gaussian:
    """f(s) = exp(−t·d), with d = 2 − 2s the squared distance of unit vectors."""

    t: float
    parameters: tuple[Tensor, ...] = ()

    @property
    def bound(self) -> float:
        return max(1.0, math.exp(-4 * self.t))

    def __call__(self, s: Tensor) -> Tensor:
        return torch.exp((s - 1) * (2 * self.t))

    def on_tile(self, s: Tensor, out: Tensor) -> tuple[Tensor, Pull]:
        value = torch.sub(s, 1, out=out).mul_(2 * self.t).exp_()
        return value, lambda g: (g.mul_(value).mul_(2 * self.t), ())


LINEAR_ABOVE = 40.0
"""Where log(1 + e^x) is x to the last bit of any float type."""


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x)."""
    return functional.softplus(x, threshold=LINEAR_ABOVE)


@dataclass(frozen=True, eq=False)
class Softplus:
    """f(s) = log(1 + e^{E(s) + b}), with a bias b that may be learnt."""

    energy: Elementwise
    bias: Tensor

    @property
    def bound(self) -> float:
        return self.energy.bound + abs(float(self.bias.detach())) + 1.0

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (*self.energy.parameters, self.bias)

    def __call__(self, s: Tensor) -> Tensor:
        return softplus(self.energy(s) + self.bias)

    def on_tile(self, s: Tensor, out: Tensor) -> tuple[Tensor, Pull]:
        energy, pull_energy = self.energy.on_tile(s, out)
        value = out.copy_(softplus(energy.add_(self.bias.detach())))

        def pull(g: Tensor) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            g.mul_(torch.neg(value).expm1_().neg_())  # the slope 1/(1 + e^−x) is 1 − e^−f
            by_bias = g.sum() if self.bias.requires_grad else None
            ds, slopes = pull_energy(g)
            return ds, (*slopes, by_bias)

        return value, pull


@dataclass(frozen=True)
class Smooth:
    """Any differentiable function of s; the slope is found by automatic differentiation of the tile."""

    function: Callable[[Tensor], Tensor]
    parameters: tuple[Tensor, ...] = ()
    bound: float = math.inf

    def __call__(self, s: Tensor) -> Tensor:
        return self.function(s)

    def on_tile(self, s: Tensor, out: Tensor) -> tuple[Tensor, Pull]:
        with torch.enable_grad():
            leaf = s.detach().clone().requires_grad_()
            value = self.function(leaf)
        wanted = (leaf, *(p for p in self.parameters if p.requires_grad))

        def pull(g: Tensor) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            slope, *rest = torch.autograd.grad(value, wanted, g, allow_unused=True)
            # what is hidden has g = 0; a slope that is infinite there (a root at s = 1) must not make it NaN
            slope = torch.zeros_like(s) if slope is None else slope.masked_fill_(g == 0, 0.0)
            gradients = iter(rest)
            return slope, tuple(next(gradients) if p.requires_grad else None for p in self.parameters)

        return out.copy_(value.detach()), pull
