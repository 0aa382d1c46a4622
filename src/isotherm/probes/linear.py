"""The linear probe, solved: multinomial logistic regression to its optimum, in seconds.

The papers' protocols train the same classifier by tens of thousands of small steps (`protocols`). The optimum needs no
learning rate, and its strength of regularisation is chosen on a held-out part of the training set.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.checks import positive
from isotherm.probes.extract import count_classes, feature_matrix, label_column, parts
from isotherm.probes.logistic import Axes, Vector, axes_of, minimum, standardised
from isotherm.probes.scores import Score, ranks, score
from isotherm.probes.splits import held_out_split

GRID = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Regularisations to choose from, strong to weak: each starts from the optimum of the one before."""
COARSE = 1e-5
"""Relative decrease of the objective at which one of the choices is done …"""
FINE = {torch.float32: 1e-8, torch.float64: 1e-15}
"""… and the final fit: as far as rounding lets it."""


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
    classifier, settings = chosen(given.train, given.train_labels, given.classes, regularisation, held_out, seed)
    logits = classifier(given.test)
    split_seed = seed if "held_out" in settings else None
    rank = ranks(logits, given.test_labels)
    return score("linear", rank, given.test_labels, given.classes, split_seed, settings, logits)


@torch.no_grad()
def chosen(
    train: Tensor, labels: Tensor, classes: int, regularisation: float | None, held_out: float, seed: int
) -> tuple[Classifier, dict[str, float]]:
    """The classifier that `linear` asks, of checked features, and how its regularisation came about."""
    settings: dict[str, float] = {}
    start: Vector | None = None
    axes: Axes | None = None
    if regularisation is None:
        regularisation, start, axes = _choose_regularisation(train, labels, classes, held_out, seed)
        settings["held_out"] = held_out
    settings["regularisation"] = regularisation
    return _fit(train, labels, regularisation, classes, start, axes), settings


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


def _fit(
    train: Tensor,
    labels: Tensor,
    regularisation: float,
    classes: int,
    start: Vector | None = None,
    axes: Axes | None = None,
) -> Classifier:
    regularisation = positive("regularisation", regularisation)
    z, mean, scale = standardised(train)
    theta, value = minimum(z, labels, classes, regularisation, FINE[z.dtype], start, axes or axes_of(z))
    both = torch.from_numpy(theta).to(z.device, z.dtype).view(classes, -1)
    return Classifier(both[:, :-1].contiguous(), both[:, -1].contiguous(), mean, scale, value)


def _choose_regularisation(
    train: Tensor, labels: Tensor, classes: int, held_out: float, seed: int
) -> tuple[float, Vector, Axes | None]:
    """The regularisation of `GRID` that does best on a held-out share of the training set, where its optimum is, and
    the axes of the features.

    The grid is left after two in a row that are right less often than the best: weaker ones take longest.
    """
    kept, held = held_out_split(labels, held_out, seed)
    z, _, _ = standardised(train[torch.cat([kept, held])])  # one copy; its two parts lie side by side
    inside, outside = z[: len(kept)], z[len(kept) :]
    axes = axes_of(z)
    theta: Vector | None = None
    tried: list[tuple[float, float, float, Vector]] = []
    for regularisation in GRID:
        theta, _ = minimum(inside, labels[kept], classes, regularisation, COARSE, theta, axes)
        logits = outside @ torch.from_numpy(theta).to(z.device, z.dtype).view(classes, -1).T
        right = float((ranks(logits, labels[held]) == 0).double().mean())
        tried.append((right, -float(F.cross_entropy(logits, labels[held])), regularisation, theta))
        best = max(tried, key=lambda one: one[:3])
        if all(one[0] < best[0] for one in tried[-2:]):
            break
    return best[2], best[3], axes
