"""Functions of one similarity for the kernels, each as f(s, P) -> (value, slope), or (τ, τ') for a temperature.

P points at the function's numbers on the device, so that a temperature can change, be scheduled or be learned without
another compilation and without waiting for the device. A function of somebody else's looks the same.
"""

from __future__ import annotations

import triton
import triton.language as tl

VALUE, RATIO, FULL_RATIO = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""What a function gives: f; or the τ of times · s/τ(s), for the gradient a constant or not; `times` is P[4]."""
SHAPES = {"value": 0, "ratio": 1, "full ratio": 2}
PI = tl.constexpr(3.141592653589793)


@triton.jit
def evaluate(s, P, FUNCTION: tl.constexpr, SHAPE: tl.constexpr):
    """Value and slope of a function of either kind."""
    if SHAPE == VALUE:
        value, slope = FUNCTION(s, P)
    else:
        tau, rise = FUNCTION(s, P)
        times = tl.load(P + 4)
        value = times * s / tau
        slope = times / tau if SHAPE == RATIO else (times - value * rise) / tau
    return value, slope


@triton.jit
def linear(s, P):  # a s
    a = tl.load(P)
    return s * a, tl.zeros_like(s) + a


@triton.jit
def gaussian(s, P):  # exp(a (s − 1)), a = 2t
    a = tl.load(P)
    value = tl.exp((s - 1.0) * a)
    return value, value * a


@triton.jit
def cos_pi(s):
    """cos(πs) for |s| ≤ 1 and a little beyond: sin(πx) with x = ½ − |s| by an odd polynomial, to 1e-7."""
    x = 0.5 - tl.abs(s)
    u = x * x
    p = -0.007025621709230415
    p = p * u + 0.08204883489860182
    p = p * u - 0.5992518905697163
    p = p * u + 2.5501632947090545
    p = p * u - 5.167712763967713
    p = p * u + 3.141592653533512
    return x * p


@triton.jit
def sign(s):
    return tl.where(s > 0, 1.0, tl.where(s < 0, -1.0, 0.0))


@triton.jit
def sin_pi(s):
    return cos_pi(tl.abs(s) - 0.5) * sign(s)


@triton.jit
def half_turns(x):
    """x less whole turns, in [−1, 1]: the library's cosine needs many registers to do that for any number."""
    return x - 2.0 * tl.floor((x + 1.0) * 0.5)


@triton.jit
def cosine(s, P):  # b − a cos(πs)
    a = tl.load(P)
    return tl.load(P + 1) - a * cos_pi(s), a * PI * sin_pi(s)


@triton.jit
def straight(s, P):  # b + a |s|
    a = tl.load(P)
    return tl.load(P + 1) + a * tl.abs(s), a * sign(s)


@triton.jit
def exponential(s, P):  # b − a exp(−c |s|)
    c = tl.load(P + 2)
    fall = tl.load(P) * tl.exp(-c * tl.abs(s))
    return tl.load(P + 1) - fall, c * fall * sign(s)


@triton.jit
def monotone(s, P):  # b − a cos(π(1 + s)/2)
    a = tl.load(P)
    x = (s + 1.0) * 0.5
    return tl.load(P + 1) - a * cos_pi(x), a * (PI * 0.5) * cos_pi(x - 0.5)


@triton.jit
def shifted(s, P):  # b + a cos(π(c + s) d) on the side of −c that holds the minimum, else a + b
    a, b, c, d = tl.load(P), tl.load(P + 1), tl.load(P + 2), tl.load(P + 3)
    x = half_turns((s + c) * d)
    inside = (s + c) * sign(c) >= 0
    return tl.where(inside, b + a * cos_pi(x), a + b), tl.where(inside, -a * d * PI * sin_pi(x), 0.0)


@triton.jit
def left_half(s, P):  # b + a cos(2πs) where s ≤ 0, else a + b
    a = tl.load(P)
    x = half_turns(2.0 * tl.minimum(s, 0.0))
    return tl.load(P + 1) + a * cos_pi(x), -2.0 * a * PI * sin_pi(x)


BY_NAME = {f.__name__: f for f in (linear, gaussian, cosine, straight, exponential, monotone, shifted, left_half)}
