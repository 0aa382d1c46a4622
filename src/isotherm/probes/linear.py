"""The linear probe, solved: multinomial logistic regression to its optimum, in seconds.

The papers' protocols train the same classifier by tens of thousands of small steps (`protocols`). The optimum needs no
learning rate, and its strength of regularisation is chosen on a held-out part of the training set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from isotherm.checks import positive
from isotherm.probes.extract import count_classes, feature_matrix, label_column, parts
from isotherm.probes.scores import Score, ranks, score

GRID = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Regularisations to choose from, strong to weak: each starts from the optimum of the one before."""
LOGITS = 1 << 24
"""Logits at once (64 MB): with ten classes all of them. Strips that stay in the cache would be faster on a quiet
machine, but each makes the threads wait for each other, which on a busy one costs several times
what it saves."""
COARSE = 1e-5
"""Relative decrease of the objective at which one of the choices is done …"""
FINE = {torch.float32: 1e-8, torch.float64: 1e-15}
"""… and the final fit: as far as rounding lets it."""
MOST_STEPS = 2000
Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Classifier:
    """A linear classifier of standardised features."""

    weight: Tensor
    """(classes, D), for standardised features"""
    bias: Tensor
    mean: Tensor
    scale: Tensor
    objective: float
    """The value of what it minimises."""

    def __call__(self, features: Tensor) -> Tensor:
        """The logits of every class, (N, classes)."""
        return torch.addmm(self.bias, (features - self.mean) / self.scale, self.weight.T)


@torch.no_grad()
def linear(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    regularisation: float | None = None,
    held_out: float = 0.1,
    seed: int = 0,
    classes: int | None = None,
) -> Score:
    """How often the best linear classifier of the frozen features (`fit`) is right.

    Its regularisation is by default the one of `GRID` that is right most often on a `held_out` share of every class of
    the training set, drawn with `seed`; of equally good ones that with the lower loss there. With it the whole training
    set is fitted.
    """
    given = parts(train, train_labels, test, test_labels, classes)
    settings: dict[str, float] = {}
    start: Vector | None = None
    if regularisation is None:
        regularisation, start = _chosen(given.train, given.train_labels, given.classes, held_out, seed)
        settings["held_out"] = held_out
    found = _fit(given.train, given.train_labels, regularisation, given.classes, start)
    rank = ranks(found(given.test), given.test_labels)
    drawn = seed if settings else None
    settings["regularisation"] = regularisation
    return score("linear", rank, given.test_labels, given.classes, drawn, settings)


@torch.no_grad()
def fit(train: Tensor, labels: Tensor, regularisation: float, classes: int | None = None) -> Classifier:
    r"""Multinomial logistic regression of standardised features, at its optimum.

    .. math:: \min_{W, b} \; \frac{1}{n} \sum_i -\log \mathrm{softmax}(W x_i + b)_{l_i} + \frac{\lambda}{2} \|W\|^2

    :math:`x_i` are the features less their mean, divided by their standard deviation over the training set (a constant
    one becomes 0), :math:`l_i` the labels, :math:`\lambda` the `regularisation`; scikit-learn's ``C`` is 1/(λn).
    """
    train = feature_matrix(train, "train")
    labels = label_column(labels, len(train), "labels").to(train.device)
    return _fit(train, labels, regularisation, count_classes(labels, labels, classes))


def _fit(train: Tensor, labels: Tensor, regularisation: float, classes: int, start: Vector | None = None) -> Classifier:
    regularisation = positive("regularisation", regularisation)
    z, mean, scale = standardised(train)
    theta, value = _minimum(z, labels, classes, regularisation, FINE[z.dtype], start)
    both = torch.from_numpy(theta).to(z.device, z.dtype).view(classes, -1)
    return Classifier(both[:, :-1].contiguous(), both[:, -1].contiguous(), mean, scale, value)


def _chosen(train: Tensor, labels: Tensor, classes: int, held_out: float, seed: int) -> tuple[float, Vector]:
    """The regularisation of `GRID` that does best on a held-out share of the training set, and where its optimum is.

    The grid is left after two in a row that are right less often than the best: weaker ones take longest.
    """
    kept, held = stratified(labels, held_out, seed)
    z, _, _ = standardised(train[torch.cat([kept, held])])  # one copy; its two parts lie side by side
    inside, outside = z[: len(kept)], z[len(kept) :]
    theta: Vector | None = None
    tried: list[tuple[float, float, float, Vector]] = []
    for regularisation in GRID:
        theta, _ = _minimum(inside, labels[kept], classes, regularisation, COARSE, theta)
        logits = outside @ torch.from_numpy(theta).to(z.device, z.dtype).view(classes, -1).T
        right = float((ranks(logits, labels[held]) == 0).double().mean())
        tried.append((right, -float(F.cross_entropy(logits, labels[held])), regularisation, theta))
        best = max(tried, key=lambda one: one[:3])
        if all(one[0] < best[0] for one in tried[-2:]):
            break
    return best[2], best[3]


def stratified(labels: Tensor, held_out: float, seed: int) -> tuple[Tensor, Tensor]:
    """The indices to fit on and the indices held out: that share of every class, but at least one item in both.

    A class with a single item is not held out.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out is a share between 0 and 1, got {held_out}.")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(labels.device)
    counts = torch.bincount(labels)
    share = (counts * held_out).round().long().clamp_min(1).minimum((counts - 1).clamp_min(0))
    by_class = order[torch.argsort(labels[order], stable=True)]
    within = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[labels[by_class]]
    held = within < share[labels[by_class]]
    if not bool(held.any()):
        raise ValueError(
            "every class has a single training item: none can be held out to choose the regularisation. Give one."
        )
    return by_class[~held].sort().values, by_class[held].sort().values


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


def _minimum(
    z: Tensor, labels: Tensor, classes: int, regularisation: float, tolerance: float, start: Vector | None = None
) -> tuple[Vector, float]:
    """Where the objective of `fit` is least, as one vector (W, then b for each class), and its value.

    L-BFGS of scipy: as many evaluations as torch's takes, and it stops by the relative decrease.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import, and needed only here

    if start is None:
        start = np.zeros(classes * z.shape[1])
    goal = _objective(z, labels, classes, regularisation)
    options = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "ftol": tolerance, "gtol": tolerance}
    found = minimize(goal, start, jac=True, method="L-BFGS-B", options=options)
    return found.x, float(found.fun)


def _objective(
    z: Tensor, labels: Tensor, classes: int, regularisation: float
) -> Callable[[Vector], tuple[float, Vector]]:
    """The value and the gradient of the objective of `fit`; the last column of z is 1 and not regularised."""
    n, rows = len(z), max(1, LOGITS // classes)
    truth = F.one_hot(labels, classes).T.to(z.dtype, memory_format=torch.contiguous_format)

    def evaluate(theta: Vector) -> tuple[float, Vector]:
        both = torch.from_numpy(theta).to(z.device, z.dtype).view(classes, -1)
        slope = torch.zeros_like(both)
        loss = torch.zeros((), dtype=torch.float64, device=z.device)
        for first in range(0, n, rows):
            x, t = z[first : first + rows], truth[:, first : first + rows]
            # A class a row: sums over few classes are slow along rows of that few.
            log_p = (x @ both.T).T.contiguous().log_softmax(0)
            loss -= (log_p * t).sum(dtype=torch.float64)
            slope.addmm_(log_p.exp_().sub_(t), x)
        gradient = slope.double().cpu().numpy() / n
        w = theta.reshape(classes, -1)[:, :-1]
        gradient[:, :-1] += regularisation * w
        return float(loss) / n + regularisation / 2 * float(np.square(w).sum()), gradient.ravel()

    return evaluate
