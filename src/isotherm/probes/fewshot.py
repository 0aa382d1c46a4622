"""Few-shot probes: how far a handful of labels per class goes, and how much that depends on which ones they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from torch import Tensor, nn

from isotherm.data.images import Images
from isotherm.probes.extract import label_column, parts
from isotherm.probes.finetune import EPOCHS, finetune
from isotherm.probes.linear import linear
from isotherm.probes.scores import Score, Spread, different, spread
from isotherm.probes.splits import few_shot_split
from isotherm.probes.tasks import ClassWeights
from isotherm.views.recipes import Recipe

SEEDS = (0, 1, 2)
"""Three draws, as ELEVATER (arXiv:2204.08790) and, after it, CACR §5.2."""
SINGLE = 1e-2
"""Regularisation where one item per class leaves none to choose it on."""
HELD_OUT = 0.25


def few_shot(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    per_class: int,
    seeds: Sequence[int] = SEEDS,
    regularisation: float | None = None,
    classes: int | None = None,
) -> Spread:
    """The exact linear probe on `per_class` training items of every class, drawn anew with each seed.

    The regularisation is chosen on a quarter of them; with one item per class it is `SINGLE`.
    """
    given = parts(train, train_labels, test, test_labels, classes)
    different(seeds)
    if regularisation is None and per_class == 1:
        regularisation = SINGLE
    scores = []
    for seed in seeds:
        some, _ = few_shot_split(given.train_labels, per_class, seed)
        few = (given.train[some], given.train_labels[some], given.test, given.test_labels)
        one = linear(*few, regularisation, HELD_OUT, seed, given.classes)
        scores.append(replace(one, seed=seed))  # which items were drawn, even if nothing else was
    return spread("few-shot linear", scores, seeds, {"per_class": per_class})


def few_shot_finetune(
    encoder: nn.Module,
    train: Images,
    test: Images,
    recipe: Recipe,
    per_class: int,
    seeds: Sequence[int] = SEEDS,
    class_weights: ClassWeights = None,
    epochs: int = EPOCHS,
    lr: float | Literal["search"] | None = None,
    size: int | None = None,
) -> Spread:
    """Fine-tuning (`finetune`) on `per_class` images of every class, drawn anew with each seed."""
    labels = label_column(train.labels, len(train), f"{train.name}: labels")
    different(seeds)
    scores = []
    for seed in seeds:
        some, _ = few_shot_split(labels, per_class, seed)
        few = train.subset(some, f"{per_class} images per class, seed {seed}")
        one = finetune(encoder, few, test, recipe, class_weights, epochs, lr=lr, seed=seed, size=size)
        assert isinstance(one, Score)  # `label_column` has seen to it
        scores.append(one)
    return spread("few-shot finetune", scores, seeds, {"per_class": per_class, "epochs": epochs})
