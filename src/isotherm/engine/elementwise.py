"""Functions of one similarity, applied entry by entry, with the derivative the engine needs.

Each is used in two ways: called on a small tensor (the positives) it is an ordinary differentiable
expression; on a tile it writes its value into a buffer and gives a `pull` that turns dL/df into dL/ds,
so that a tile's gradient is formed without recording the tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from isotherm.engine.scratch import Scratch
from isotherm.waiting import may_wait

UNASKED = 1e30
"""A bound for what only the device knows: its exponents are summed as those of a function that may be large."""

Pull = Callable[[Tensor], tuple[Tensor, tuple[Tensor | None, ...]]]
"""dL/df of a tile ↦ dL/ds of the tile and dL/dθ of each parameter. May overwrite its argument."""


@dataclass(frozen=True)
class OnDevice:
    """How a fused kernel evaluates a function (`isotherm.engine.device.functions`).

    `code` is the name of a function there, or one of your own: a `triton.jit` function (s, P) -> (value, slope) that
    reads its numbers from P. `gives` says whether that is f(s) itself or a temperature (τ, τ') of times · s/τ(s), whose
    fifth number is `times`. One learnable number: a tensor that multiplies s (`linear` only).
    """

    code: str | Callable[..., object]
    numbers: tuple[float, ...] | Tensor = ()
    gives: Literal["value", "ratio", "full ratio"] = "value"


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

    def on_tile(self, s: Tensor, out: Tensor, scratch: Scratch) -> tuple[Tensor, Pull]:
        """f(s) written into `out` (which may be `s` itself), and how its gradient is pulled back.

        What the pull needs is kept in buffers of `scratch`, since `out` may be overwritten before; under a name of
        this function's own, since a reduction may have two.
        """


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

    def on_tile(self, s: Tensor, out: Tensor, scratch: Scratch) -> tuple[Tensor, Pull]:
        if self.scale == 1.0:
            return (s if out is s else out.copy_(s)), lambda g: (g, ())
        return torch.mul(s, self.scale, out=out), lambda g: (g.mul_(self.scale), ())

    def on_device(self) -> OnDevice:
        return OnDevice("linear", (self.scale,))


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

    def on_tile(self, s: Tensor, out: Tensor, scratch: Scratch) -> tuple[Tensor, Pull]:
        kept = scratch.take(f"gaussian {id(self)}", s.shape)
        torch.sub(s, 1, out=kept).mul_(2 * self.t).exp_()
        return out.copy_(kept), lambda g: (g.mul_(kept).mul_(2 * self.t), ())

    def on_device(self) -> OnDevice:
        return OnDevice("gaussian", (2 * self.t,))


@dataclass(frozen=True)
class Scaled:
    """f(s) = times · s/τ with a scalar tensor τ that may want a gradient.

    `behind` are the tensors τ was computed from: they must not change before the backward pass.
    """

    tau: Tensor
    times: float = 1.0
    behind: tuple[Tensor, ...] = ()

    @property
    def bound(self) -> float:
        return abs(self.times) / float(self.tau.detach()) if may_wait() else UNASKED

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (self.tau, *self.behind)

    def __call__(self, s: Tensor) -> Tensor:
        return s * self.times / self.tau.reshape(()).to(s.dtype)

    def on_tile(self, s: Tensor, out: Tensor, scratch: Scratch) -> tuple[Tensor, Pull]:
        tau = self.tau.detach().reshape(()).to(s.dtype)
        scale = self.times / tau
        kept = scratch.take("similarity", s.shape).copy_(s) if self.tau.requires_grad else None

        def pull(g: Tensor) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            slope = None
            if kept is not None:  # dL/dτ = −Σ g f/τ
                slope = torch.mul(kept, g, out=scratch.take("spare", s.shape)).sum().mul(-scale / tau)
                slope = slope.to(self.tau.dtype).reshape(self.tau.shape)
            return g.mul_(scale), (slope, *(None for _ in self.behind))

        return torch.mul(s, scale, out=out), pull

    def on_device(self) -> OnDevice:
        return OnDevice("linear", self.times / self.tau.reshape(1))


@dataclass(frozen=True)
class Ratio:
    """f(s) = times · s/τ(s) with τ(s) a constant for the gradient: the slope is times/τ."""

    temperature: Callable[[Tensor], Tensor]
    times: float
    bound: float
    parameters: tuple[Tensor, ...] = ()

    def __call__(self, s: Tensor) -> Tensor:
        return s * self.times / self.temperature(s.detach())

    def on_tile(self, s: Tensor, out: Tensor, scratch: Scratch) -> tuple[Tensor, Pull]:
        tau = scratch.take(f"tau {id(self)}", s.shape)
        write = getattr(self.temperature, "write", None)  # of a profile that needs no memory of its own
        if write is not None:
            write(s, tau, scratch.take("spare", s.shape))
        else:
            tau.copy_(self.temperature(s))
        if self.times != 1:
            tau.div_(self.times)
        return torch.div(s, tau, out=out), lambda g: (g.div_(tau), (None,) * len(self.parameters))

    def on_device(self) -> OnDevice | None:
        return temperature_on_device(self.temperature, self.times, detach=True)


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
        return self.energy.bound + abs(float(self.bias.detach())) + 1.0 if may_wait() else UNASKED

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (*self.energy.parameters, self.bias)

    def __call__(self, s: Tensor) -> Tensor:
        return softplus(self.energy(s) + self.bias)

    def on_tile(self, s: Tensor, out: Tensor, scratch: Scratch) -> tuple[Tensor, Pull]:
        energy, pull_energy = self.energy.on_tile(s, out, scratch)
        energy.add_(self.bias.detach())
        kept = scratch.take(f"softplus {id(self)}", s.shape).copy_(energy)

        def pull(g: Tensor) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            g.mul_(torch.sigmoid(kept, out=scratch.take("spare", s.shape)))
            by_bias = g.sum() if self.bias.requires_grad else None
            ds, slopes = pull_energy(g)
            return ds, (*slopes, by_bias)

        return out.copy_(softplus(energy)), pull


@dataclass(frozen=True)
class Smooth:
    """Any differentiable function of s; the slope is found by automatic differentiation of the tile."""

    function: Callable[[Tensor], Tensor]
    parameters: tuple[Tensor, ...] = ()
    bound: float = math.inf
    device: OnDevice | None = None
    """The same function for fused kernels; without one they are not used, nor with parameters that are learned."""

    def __call__(self, s: Tensor) -> Tensor:
        return self.function(s)

    def on_tile(self, s: Tensor, out: Tensor, scratch: Scratch) -> tuple[Tensor, Pull]:
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

    def on_device(self) -> OnDevice | None:
        return None if any(p.requires_grad for p in self.parameters) else self.device


def temperature_on_device(temperature: object, times: float, detach: bool) -> OnDevice | None:
    """times · s/τ(s) for a kernel, if the temperature says how: `on_device() -> (code, at most four numbers)`."""
    describe = getattr(temperature, "on_device", None)
    if describe is None:
        return None
    code, numbers = describe()
    numbers = (*numbers, *(0.0,) * (4 - len(numbers)), times)
    return OnDevice(code, numbers, "ratio" if detach else "full ratio")
