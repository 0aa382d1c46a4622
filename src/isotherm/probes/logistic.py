"""Logistic regression at its optimum: the solver of every probe that fits a linear classifier.

Two shapes of problem need two kinds of step. One problem with many rows and classes (`minimum`) has no room for its
curvature, and takes L-BFGS along the axes of its features, where it is about 1. Hundreds that differ in the rows they
see and little else (`solve`) share one curvature, and take conjugate gradients in its metric. Both go from strong
regularisation to weak, each from the optimum before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

Vector = NDArray[np.float64]
LOGITS = 1 << 24
"""Logits at once (64 MB): with ten classes all of them. Strips that stay in the cache would be faster on a quiet
machine, but each makes the threads wait for each other, which on a busy one costs several times
what it saves."""
LARGE = 2.0**20
"""What the objective is multiplied with: scipy takes a decrease relative to the value, or to 1 where that is less, and
features that tell classes apart well have optima far below 1."""
MOST_EVALUATIONS = 4000
"""Of the objective of one problem, in at most half as many steps."""
MOST_AXES = 4096
"""Features whose axes are looked for: seconds."""
LOOKED_AT = 4096
"""Rows that say how bent an objective is."""
MOST_STEPS = 400
"""Of many problems at once."""
REFRESH = 8
"""Steps between looks at the curvature. Each costs as much as a few steps."""
TRIALS = 40
"""Lengths tried for one step."""


def standardised(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features with mean 0 and standard deviation 1 and a column of ones, and what these were.

    A constant feature becomes 0.
    """
    scale, mean = torch.std_mean(x, 0, correction=0)
    varies = scale > 4 * torch.finfo(x.dtype).eps * mean.abs()  # less is rounding
    scale = torch.where(varies, scale, 1)
    z = torch.ones(len(x), x.shape[1] + 1, dtype=x.dtype, device=x.device)
    torch.sub(x, mean, out=z[:, :-1])
    z[:, :-1].div_(scale).mul_(varies)
    return z, mean, scale


@dataclass(frozen=True, eq=False)
class Axes:
    """The principal axes of standardised features, and the variance along each."""

    directions: Vector
    """(D, D), a column each."""
    variance: Vector


def axes_of(z: Tensor) -> Axes | None:
    """The axes of features whose last column is 1; None where finding them would take longer than it saves."""
    if z.shape[1] - 1 > min(len(z), MOST_AXES):
        return None
    variance, directions = np.linalg.eigh((z[:, :-1].T @ z[:, :-1]).double().cpu().numpy() / len(z))
    return Axes(directions, np.maximum(variance, torch.finfo(z.dtype).eps * variance[-1]))  # less is rounding


@dataclass(frozen=True, eq=False)
class Stretched:
    r"""Weights along the axes of the features, each as long as a step along it should be: :math:`\theta = P \varphi`.

    With :math:`P = (h \Sigma + \lambda)^{-1/2}`, :math:`\Sigma` the covariance of the features and `h` the mean of
    p(1 − p), the curvature by φ is about 1 in every direction. Features that nearly lie on a line, as after a collapse,
    take L-BFGS thousands of steps in θ and some fifty in φ, to the same optimum.
    """

    axes: Vector
    """(D, D)"""
    bias: float
    classes: int

    def weights(self, phi: Vector) -> Vector:
        both = phi.reshape(self.classes, -1)
        return np.column_stack([both[:, :-1] @ self.axes.T, self.bias * both[:, -1]]).ravel()

    def gradient(self, of_weights: Vector) -> Vector:
        """By φ, from that by the weights."""
        both = of_weights.reshape(self.classes, -1)
        return np.column_stack([both[:, :-1] @ self.axes, self.bias * both[:, -1]]).ravel()

    def phi(self, weights: Vector) -> Vector:
        both = weights.reshape(self.classes, -1)
        return np.column_stack(
            [both[:, :-1] @ (self.axes / np.square(self.axes).sum(0)), both[:, -1] / self.bias]
        ).ravel()


def _stretched(axes: Axes, z: Tensor, start: Vector, classes: int, regularisation: float) -> Stretched:
    """For a problem that begins there: how far from 0 and 1 some rows' probabilities are says how bent it is."""
    both = torch.from_numpy(start).to(z.device, z.dtype).view(classes, -1)
    p = (z[:: -(-len(z) // LOOKED_AT)] @ both.T).softmax(1)
    bent = max(float((p - p * p).mean()), torch.finfo(z.dtype).eps)
    return Stretched(axes.directions / np.sqrt(bent * axes.variance + regularisation), 1 / math.sqrt(bent), classes)


def minimum(
    z: Tensor,
    labels: Tensor,
    classes: int,
    regularisation: float,
    tolerance: float,
    start: Vector | None = None,
    axes: Axes | None = None,
) -> tuple[Vector, float]:
    r"""Where the objective of one problem is least, as one vector (W, then b for each class), and its value.

    .. math:: \min_{W, b} \; \frac{1}{n} \sum_i -\log \mathrm{softmax}(W x_i + b)_{l_i} + \frac{\lambda}{2} \|W\|^2

    The last column of `z` is 1 and its weight, the bias, is not regularised. L-BFGS of scipy: as many evaluations as
    torch's takes, and it stops by the relative decrease. `axes` are those of `z`, or of features much
    like them; without them it takes more evaluations.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import, and needed only here

    if start is None:
        start = np.zeros(classes * z.shape[1])
    goal = _objective(z, labels, classes, regularisation)
    most = {"maxiter": MOST_EVALUATIONS // 2, "maxfun": MOST_EVALUATIONS}
    options = {**most, "ftol": tolerance, "gtol": LARGE * tolerance}
    if axes is None:
        optimum = minimize(goal, start, jac=True, method="L-BFGS-B", options=options)
        return optimum.x, float(optimum.fun) / LARGE
    along = _stretched(axes, z, start, classes, regularisation)

    def goal_along(phi: Vector) -> tuple[float, Vector]:
        value, slope = goal(along.weights(phi))
        return value, along.gradient(slope)

    optimum = minimize(goal_along, along.phi(start), jac=True, method="L-BFGS-B", options=options)
    return along.weights(optimum.x), float(optimum.fun) / LARGE


def _objective(
    z: Tensor, labels: Tensor, classes: int, regularisation: float
) -> Callable[[Vector], tuple[float, Vector]]:
    """`LARGE` times the value and the gradient of the objective of `minimum`."""
    n, rows = len(z), max(1, LOGITS // classes)
    truth = F.one_hot(labels, classes).T.to(z.dtype, memory_format=torch.contiguous_format)

    def evaluate(theta: Vector) -> tuple[float, Vector]:
        both = torch.from_numpy(theta).to(z.device, z.dtype).view(classes, -1)
        slope = torch.zeros_like(both)
        loss = torch.zeros((), dtype=torch.float64, device=z.device)
        for first in range(0, n, rows):
            x, t = z[first : first + rows], truth[:, first : first + rows]
            # One class per row: sums over few classes are slow along rows of that few.
            log_p = (x @ both.T).T.contiguous().log_softmax(0)
            loss -= (log_p * t).sum(dtype=torch.float64)
            slope.addmm_(log_p.exp_().sub_(t), x)
        gradient = slope.double().cpu().numpy() / n
        w = theta.reshape(classes, -1)[:, :-1]
        gradient[:, :-1] += regularisation * w
        value = float(loss) / n + regularisation / 2 * float(np.square(w).sum())
        return LARGE * value, LARGE * gradient.ravel()

    return evaluate


def predicted_classes(logits: Tensor) -> Tensor:
    """The class each problem gives each row, (problems, N), from (logits, problems, N)."""
    return (logits[0] > 0).long() if len(logits) == 1 else logits.argmax(0)


def solve(
    x: Tensor, truth: Tensor, on: Tensor, strength: float, tolerance: float, start: Tensor | None = None
) -> tuple[Tensor, Tensor, bool]:
    r"""Regularised logistic regressions at their optimum: weights, the logits of all rows, and whether all got there.

    .. math:: \min_W \; C \sum_{i \in \mathrm{on}} -\log p(l_i | W x_i) + \frac{1}{2} \|W\|^2

    `x` is (N, D + 1), its last column 1, whose weight, the bias, is not regularised; `truth` (logits, N) is 1 at the
    class of each row; `on` (problems, N) are the rows each problem sees, :math:`C` the `strength` of all.

    Conjugate gradients in the metric of the problems' mean curvature (of each logit by itself), which is nearly that of
    each, since they share most rows: a handful of steps. A step's length is found along the line, where the logits are
    linear and need no product. It ends when a step moves no logit of any problem by more than `tolerance`.
    """
    d = x.shape[1]
    rows, y = on.to(x.dtype), truth.to(x.dtype)[:, None]
    w = torch.zeros(len(truth), len(on), d, dtype=x.dtype) if start is None else start.clone()
    shrink = torch.ones(d, dtype=x.dtype)
    shrink[-1] = 0
    z = _times(w, x)
    p = _probabilities(z)
    factors: list[Tensor] = []
    before: Step | None = None
    for step in range(MOST_STEPS):
        gradient = (strength * ((p - y) * rows).flatten(0, 1) @ x).view_as(w) + shrink * w
        if step % REFRESH == 0:
            factors = [_metric(x, spread, strength) for spread in ((p - p * p) * rows).mean(1)]
            before = None
        scaled = _scaled(gradient, factors)
        direction = _conjugate(gradient, scaled, before)
        before = Step(direction, gradient, _dot(gradient, scaled))
        along = _times(direction, x)
        pull, stiffness = _dot(shrink * w, direction), _dot(shrink * direction, direction)
        length, p = _search(z, along, p, y, rows * strength, pull, stiffness, tolerance)
        w += length[:, None] * direction
        along *= length[:, None]
        z += along
        if along.abs().max() <= tolerance:
            return w, z, True
    return w, z, False


@dataclass(frozen=True, eq=False)
class Step:
    """What the next step of conjugate gradients remembers of the last."""

    direction: Tensor
    gradient: Tensor
    decrease: Tensor
    """The gradient's square in the metric."""


def _conjugate(gradient: Tensor, scaled: Tensor, before: Step | None) -> Tensor:
    """Where to go: downhill in the metric, turned by the step before (Polak & Ribière) where that still goes down."""
    if before is None:
        return -scaled
    turn = _dot(gradient - before.gradient, scaled) / before.decrease.clamp_min(_tiny(gradient))
    turned = turn.clamp_min(0)[:, None] * before.direction - scaled
    return torch.where((_dot(gradient, turned) < 0)[:, None], turned, -scaled)


def _search(
    z: Tensor, along: Tensor, p: Tensor, y: Tensor, weight: Tensor, pull: Tensor, stiffness: Tensor, tolerance: float
) -> tuple[Tensor, Tensor]:
    """How far to go, for each problem, to halve the slope at least, and the probabilities there.

    `p` are those at the start, where the regularisation's slope is `pull`; its second derivative is `stiffness`.
    Newton's steps, kept between the ends known to go down and up. Usually the first is enough.
    """
    seen = along * weight
    largest = along.abs().amax((0, 2))
    length = low = torch.zeros_like(pull)
    high = torch.full_like(pull, math.inf)
    limit = torch.full_like(pull, -1.0)  # the start is not good enough
    for trial in range(TRIALS):
        slope = _dot(p - y, seen) + pull + length * stiffness
        good = (slope.abs() <= limit) | ((length * largest <= tolerance) & (limit >= 0))
        if bool(good.all()):
            break
        if trial == 0:
            limit = slope.abs() / 2
        bend = _bend(p, along, seen) + stiffness
        high = torch.where(~good & (slope > 0), length, high)
        low = torch.where(~good & (slope < 0), length, low)
        newton = length - slope / bend.clamp_min(_tiny(p))
        middle = torch.where(high.isinf(), 2 * length, (low + high) / 2)
        length = torch.where(good, length, torch.where((newton > low) & (newton < high), newton, middle))
        p = _probabilities(torch.addcmul(z, along, length[:, None]))
    return length, p


def _bend(p: Tensor, along: Tensor, seen: Tensor) -> Tensor:
    """The second derivative of the losses along the line: the variance of `along` under p."""
    mean = p * along
    if len(p) == 1:
        return _dot(mean - mean * p, seen)
    return _dot(mean, seen) - (mean.sum(0) * (p * seen).sum(0)).sum(-1)


def _times(w: Tensor, x: Tensor) -> Tensor:
    return (w.flatten(0, 1) @ x.T).view(*w.shape[:2], len(x))


def _probabilities(z: Tensor) -> Tensor:
    return z.sigmoid() if len(z) == 1 else z.softmax(0)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """For each problem, over logits and the last dimension."""
    return (a * b).sum((0, 2))


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny


def _metric(x: Tensor, spread: Tensor, strength: float) -> Tensor:
    """The Cholesky factor of a logit's mean curvature, float64; `spread` (N) is the mean of p(1 − p)."""
    curvature = (x.T @ (x * (strength * spread)[:, None])).double()
    curvature.diagonal()[:-1] += 1
    curvature.diagonal().add_(torch.finfo(x.dtype).eps * curvature.trace())  # more than rounding took
    factor: Tensor = torch.linalg.cholesky(curvature)
    return factor


def _scaled(gradient: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """The gradient in the metric. Of several logits the sum stays 0, as it is at the optimum."""
    by_logit = [torch.cholesky_solve(g.T.double(), f).T for g, f in zip(gradient, factors, strict=True)]
    scaled = torch.stack(by_logit)
    if len(scaled) > 1:
        scaled = scaled - scaled.mean(0)
    return scaled.to(gradient.dtype)
