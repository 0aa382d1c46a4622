r"""Temperatures: a number, a learnable number, a schedule, or a function τ(s) of the similarity.

`scaled(temperature)` turns any of them into the energy E(s) = s/τ(s) that every softmax loss uses, for its
positives and its negatives alike. Similarity-dependent profiles are those of DySTreSS (Manna et al. 2024,
arXiv:2308.01140). `detach=True` (their Alg. 3) treats τ(s) as a constant for the gradient of s, so that
dE/ds = 1/τ; `detach=False` gives the full (τ − s τ')/τ² of their eq. 6–7.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor, nn

from isotherm import engine
from isotherm.checks import positive
from isotherm.engine.elementwise import temperature_on_device
from isotherm.schedules import CosineSchedule as CosineSchedule
from isotherm.schedules import LinearSchedule as LinearSchedule
from isotherm.schedules import RandomSchedule as RandomSchedule
from isotherm.schedules import Schedule as Schedule
from isotherm.schedules import StepSchedule as StepSchedule
from isotherm.schedules import temperature_range
from isotherm.types import TemperatureLike
from isotherm.waiting import may_wait, spoilt


@dataclass(frozen=True)
class Constant:
    """The same temperature everywhere."""

    value: float
    detach: bool = True

    def __post_init__(self) -> None:
        positive("temperature", self.value)

    @property
    def lowest(self) -> float:
        return self.value

    def __call__(self, s: Tensor) -> Tensor:
        return torch.full_like(s, self.value)


@dataclass(frozen=True)
class _Profile:
    """A temperature between tau_min and tau_max that depends on the similarity."""

    tau_min: float
    tau_max: float

    def __post_init__(self) -> None:
        temperature_range(self.tau_min, self.tau_max)

    @property
    def lowest(self) -> float:
        return self.tau_min

    @property
    def _half(self) -> float:
        return (self.tau_max - self.tau_min) / 2


@functools.lru_cache(maxsize=16)
def _cosine_coefficients(factor: float, constant: float) -> tuple[Tensor, ...]:
    """−½, then those of factor · cos(πs) + constant as a polynomial in v = s² − ½: within 1.2e-8 of it for |s| ≤ 1."""
    wave = Chebyshev.interpolate(lambda u: np.cos(np.pi * np.sqrt(u)), 6, domain=[0, 1])
    first, *rest = wave.convert(kind=Polynomial, domain=[0, 1], window=[-0.5, 0.5]).coef.tolist()
    numbers = [factor * first + constant, *(factor * x for x in rest)]
    with torch.inference_mode(False):
        return tuple(torch.tensor(float(x), dtype=torch.float32) for x in (-0.5, *numbers))


@dataclass(frozen=True)
class Cosine(_Profile):
    r"""Low around s = 0, high at both ends: the default of DySTreSS.

    .. math:: \tau(s) = \tau_- + \tfrac12 (\tau_+ - \tau_-)\,(1 + \cos(\pi (1 + s)))

    DySTreSS (arXiv:2308.01140), Alg. 1. Values: τ₊ at ±1, τ₋ at 0.
    """

    detach: bool = True

    def __call__(self, s: Tensor) -> Tensor:
        # 1 + cos(π(1 + s)) = 1 − cos(πs)
        return torch.cos(s * math.pi).mul(-self._half).add(self.tau_min + self._half)

    def write(self, s: Tensor, out: Tensor, spare: Tensor) -> Tensor:
        """τ(s) into `out`; on a processor by a polynomial in s² − ½, as exact as float32's cosine at half its time."""
        if s.dtype != torch.float32 or s.device.type != "cpu":
            return torch.mul(s, math.pi, out=out).cos_().mul_(-self._half).add_(self.tau_min + self._half)
        half, *lower, one_before, highest = _cosine_coefficients(-self._half, self.tau_min + self._half)
        v = torch.addcmul(half, s, s, out=spare)
        torch.add(one_before, v, alpha=float(highest), out=out)
        for coefficient in reversed(lower):
            torch.addcmul(coefficient, out, v, out=out)
        return out

    def on_device(self) -> tuple[str, tuple[float, ...]]:
        return "cosine", (self._half, self.tau_min + self._half)


@dataclass(frozen=True)
class Linear(_Profile):
    r"""A straight line from τ₋ at s = 0 to τ₊ at both ends.

    .. math:: \tau(s) = \tau_- + (\tau_+ - \tau_-)\,|s|

    DySTreSS (arXiv:2308.01140), Table 10 (the paper names the shape and gives no formula).
    """

    detach: bool = True

    def __call__(self, s: Tensor) -> Tensor:
        return s.abs().mul(2 * self._half).add(self.tau_min)

    def on_device(self) -> tuple[str, tuple[float, ...]]:
        return "straight", (2 * self._half, self.tau_min)


@dataclass(frozen=True)
class Exponential(_Profile):
    r"""Rises steeply from τ₋ at s = 0 and flattens towards τ₊ at both ends.

    .. math:: \tau(s) = \tau_+ - (\tau_+ - \tau_-)\, e^{-c |s|}

    DySTreSS (arXiv:2308.01140), Table 10. The paper states only the signs of the slopes; the rate c = 3.5 is ours
    (it leaves 3 % of the range at |s| = 1).
    """

    rate: float = 3.5
    detach: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("rate", self.rate)

    def __call__(self, s: Tensor) -> Tensor:
        return s.abs().mul(-self.rate).exp().mul(-2 * self._half).add(self.tau_max)

    def on_device(self) -> tuple[str, tuple[float, ...]]:
        return "exponential", (2 * self._half, self.tau_max, self.rate)


@dataclass(frozen=True)
class Monotone(_Profile):
    r"""Rises all the way, from τ₋ at s = −1 to τ₊ at s = 1.

    .. math:: \tau(s) = \tau_- + \tfrac12 (\tau_+ - \tau_-)\,(1 - \cos(\pi (1 + s)/2))

    DySTreSS (arXiv:2308.01140), appendix C, Table 16.
    """

    detach: bool = True

    def __call__(self, s: Tensor) -> Tensor:
        return torch.cos((s + 1) * (math.pi / 2)).mul(-self._half).add(self.tau_min + self._half)

    def on_device(self) -> tuple[str, tuple[float, ...]]:
        return "monotone", (self._half, self.tau_min + self._half)


@dataclass(frozen=True)
class Shifted(_Profile):
    r"""The cosine profile with its minimum moved, and flat at τ₊ on the far side of its peak.

    .. math::
        \tau(s) = \tau_- + \tfrac12 (\tau_+ - \tau_-)\,(1 + \cos(\pi (\Delta s + s)/k))
        \quad\text{on the side of } {-\Delta s} \text{ that holds the minimum, else } \tau_+

    DySTreSS (arXiv:2308.01140), Alg. 2. Δs = −0.4, k = 0.7 has its minimum at s = −0.3 and is flat above 0.4. Figure 7
    calls Δs > 0, whose minimum lies in the right half, "Shifted Minima Ver. 1" and Δs < 0 "Ver. 2"; "Ver. 3" is
    `LeftHalf`. At Δs = 0, k = 1 the formula has its *peak* at 0: it is not Alg. 1, use `Cosine` for that.
    """

    shift: float = -0.4
    scale: float = 0.7
    detach: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("scale", self.scale)

    def __call__(self, s: Tensor) -> Tensor:
        wave = torch.cos((s + self.shift) * (math.pi / self.scale)).mul(self._half).add(self.tau_min + self._half)
        if self.shift == 0:
            return wave
        inside = s <= -self.shift if self.shift < 0 else s >= -self.shift
        return torch.where(inside, wave, self.tau_max)

    def on_device(self) -> tuple[str, tuple[float, ...]]:
        return "shifted", (self._half, self.tau_min + self._half, self.shift, 1 / self.scale)


@dataclass(frozen=True)
class LeftHalf(_Profile):
    r"""The whole cosine profile in the left half: lowest at s = −½, and flat at τ₊ from 0 on.

    .. math:: \tau(s) = \tau_- + \tfrac12 (\tau_+ - \tau_-)\,(1 + \cos(2 \pi s)) \text{ where } s \le 0,
        \text{ else } \tau_+

    DySTreSS (arXiv:2308.01140), §5.8 and fig. 7, "Shifted Minima Ver. 3". It is Alg. 2 with Δs = 0, k = 0.5 (the first
    line of Table 15), read as the text says: at Δs = 0 the algorithm as printed takes the formula on both sides of 0.
    Values: τ₊ at −1 and from 0 to 1, τ₋ at −½.
    """

    detach: bool = True

    def __call__(self, s: Tensor) -> Tensor:
        return torch.cos(s.clamp_max(0) * (2 * math.pi)).mul(self._half).add(self.tau_min + self._half)

    def on_device(self) -> tuple[str, tuple[float, ...]]:
        return "left_half", (self._half, self.tau_min + self._half)


class Learnable(nn.Module):
    """A temperature that is trained with the network, as in CLIP (Radford et al. 2021, arXiv:2103.00020, §2.5).

    The parameter is log τ. The value is clamped to [lowest, highest]; the gradient is not, so a parameter
    that left the range can come back.
    """

    def __init__(self, initial: float = 0.07, lowest: float = 0.01, highest: float = 100.0) -> None:
        super().__init__()
        temperature_range(lowest, highest)
        if not lowest <= positive("initial", initial) <= highest:
            raise ValueError(f"a learnable temperature starts between {lowest} and {highest}, got {initial}.")
        self.log_temperature = nn.Parameter(torch.tensor(math.log(initial)))
        self.limits = (lowest, highest)

    @property
    def lowest(self) -> float:
        return float(self.value().detach())

    def value(self) -> Tensor:
        """The temperature in force."""
        log = self.log_temperature
        low, high = (math.log(limit) for limit in self.limits)
        return torch.exp(log + (log.clamp(low, high) - log).detach())

    def forward(self, s: Tensor) -> Tensor:
        return self.value().to(s.dtype).expand_as(s)

    def extra_repr(self) -> str:
        return f"value={self.lowest:.4g}, limits={self.limits}"


@dataclass(frozen=True)
class AlignmentAware:
    r"""How far a batch's alignment moves the temperature: well aligned batches get a softer softmax.

    .. math:: \tau = \tau_0\,(1 + \alpha (A - A_0)), \qquad A = \text{mean of } \mathrm{sg}(s_{ip})

    MACL (Huang et al. 2023, arXiv:2207.07874). `factor` is the bracket; it must stay positive.
    """

    alpha: float = 0.5
    threshold: float = 0.0

    def temperature(self, base: Tensor | float, alignment: Tensor) -> Tensor:
        """The same where the alignment is a tensor that is not asked for its number; NaN if it is not positive."""
        factor = 1 + self.alpha * (alignment - self.threshold)
        return base * spoilt(factor, ~(factor > 0))

    def factor(self, alignment: float) -> float:
        factor = 1 + self.alpha * (alignment - self.threshold)
        if not factor > 0:
            raise ValueError(
                f"alpha={self.alpha} and threshold={self.threshold} make the temperature {factor:.3g} times its "
                f"base value at alignment {alignment:.3g}; it must stay positive. Use a smaller alpha."
            )
        return factor


def ode_solution(s: Tensor, tau_max: float, delta: float, k: float, blend: float) -> Tensor:
    r"""The exact temperature that makes every negative's gradient equal, which the profiles approximate.

    .. math:: \tau(s) = \frac{s}{\log(\delta K s - c)}, \qquad
        c = (1 - b)\,c^- + b\,c^+,\; c^- = -\delta K - e^{-1/\tau_+},\; c^+ = \delta K - e^{1/\tau_+}

    DySTreSS (arXiv:2308.01140), eq. 14 and 15 (figure 2). The paper prints :math:`c^+ = -\delta K - e^{1/\tau_+}`;
    :math:`\tau(1) = \tau_+` needs the sign used here. NaN where the logarithm does not exist.
    """
    low, high = -delta * k - math.exp(-1 / tau_max), delta * k - math.exp(1 / tau_max)
    c = (1 - blend) * low + blend * high
    return s / torch.log(delta * k * s - c)


def scaled(temperature: TemperatureLike, times: float = 1.0) -> engine.Elementwise:
    """The energy E(s) = times · s/τ(s) of a temperature of any kind."""
    if isinstance(temperature, Constant):
        temperature = temperature.value
    if isinstance(temperature, Tensor):
        if temperature.numel() != 1:
            raise ValueError(f"a temperature tensor must hold one number, got shape {tuple(temperature.shape)}.")
        if not may_wait():
            return engine.Scaled(temperature, times)
        value = positive("temperature", float(temperature.detach()))
        return engine.Scaled(temperature, times) if temperature.requires_grad else engine.Linear(times / value)
    if isinstance(temperature, Learnable):
        return engine.Scaled(temperature.value(), times, (temperature.log_temperature,))
    if isinstance(temperature, Schedule):
        raise TypeError(
            f"a {type(temperature).__name__} is a temperature over the epochs; a loss takes its value in one: "
            "schedule.at(epoch). `isotherm train` takes the schedule."
        )
    if not callable(temperature):
        return engine.Linear(times / positive("temperature", temperature))
    detach = bool(getattr(temperature, "detach", True))
    lowest = None if isinstance(temperature, type) else getattr(temperature, "lowest", None)
    bound = math.inf if lowest is None else abs(times) / float(lowest)
    held = (*temperature.parameters(), *temperature.buffers()) if isinstance(temperature, nn.Module) else ()
    tau: Any = temperature
    if lowest is None:
        tau = _on_the_sphere(temperature)
    if detach and not any(tensor.requires_grad for tensor in held):
        return engine.Ratio(tau, times, bound, held)
    if detach:
        return engine.Smooth(lambda s: s * times / tau(s.detach()), held, bound)
    on_device = temperature_on_device(tau, times, detach=False)
    return engine.Smooth(lambda s: s * times / tau(s), held, bound, on_device)


def _on_the_sphere(temperature: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function somebody else wrote, kept to where similarities can be: rounding takes them beyond ±1.

    It must be positive on [−1, 1], keep the shape of s, and hold its parameters where they can be found.
    """
    if isinstance(temperature, type):
        raise TypeError(f"a temperature is a number or a function of s, got the class {temperature.__name__}.")
    device = next((p.device for p in temperature.parameters()), None) if isinstance(temperature, nn.Module) else None
    grid = torch.linspace(-1, 1, 201, device=device)
    tau = torch.as_tensor(temperature(grid.clone()))
    if tau.requires_grad and not isinstance(temperature, nn.Module):
        raise TypeError(
            "a temperature function with learnable parameters must be an nn.Module, so that they can be found."
        )
    if tau.shape not in (grid.shape, torch.Size([]), torch.Size([1])):
        raise ValueError(f"a temperature function must keep the shape of s; (201,) gave {tuple(tau.shape)}.")
    if not (torch.isfinite(tau).all() and (tau > 0).all()):
        raise ValueError(
            f"a temperature function must be positive and finite on [-1, 1]; its minimum there is {tau.min():.3g}."
        )

    def bounded(s: Tensor) -> Tensor:
        limit = 1 - torch.finfo(s.dtype).eps  # just inside, where a root still has a slope
        return temperature(s.clamp(-limit, limit))

    return bounded
