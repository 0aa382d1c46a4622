"""Fine-tuning: the encoder itself, as a copy, trained on labelled images together with a linear classifier."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotherm.checks import at_least, positive
from isotherm.data.images import Images
from isotherm.data.loaders.images import Loader
from isotherm.encoders.features import evaluating
from isotherm.probes.extract import count_classes, features_of, home, label_column
from isotherm.probes.scores import Score, ranks, score
from isotherm.views.recipes import Recipe

EPOCHS, BATCH, MILESTONES, DECAY = 50, 128, (30, 40), 0.1
RATE, BINARY_RATE = 0.1, 1.0
ClassWeights = Literal["balanced", "mura", "isic2016", "mhist", "chaoyang"] | Sequence[float] | None
CLASS_WEIGHTS: Mapping[str, Sequence[float]] = {
    "mura": (1.0, 0.7097),
    "isic2016": (1.0, 4.24),
    "mhist": (1.0, 2.45),
    "chaoyang": (1.264, 1.667, 1.0, 2.114),
}
"""Of DySTreSS's medical sets (A.2); of two classes the second is the positive one."""


def finetune(
    encoder: nn.Module,
    train: Images,
    test: Images,
    recipe: Recipe,
    class_weights: ClassWeights = None,
    epochs: int = EPOCHS,
    batch: int = BATCH,
    lr: float | None = None,
    seed: int = 0,
    size: int | None = None,
) -> Score:
    """How often the encoder is right after it was trained further, with a classifier, on labelled images.

    DySTreSS (arXiv:2308.01140), A.2: SGD, 50 epochs, batch 128, learning rate 0.1, or 1.0 with two classes, times 0.1
    after 30 and 40 epochs (in proportion if `epochs` says otherwise). Momentum and weight decay are not stated: none.

    `class_weights`: None, as the paper has it for natural images; or one number per class; or the name of one of its
    medical sets (`CLASS_WEIGHTS`); or "balanced", which gives each class the size of the largest one over its own, as
    the numbers for Chaoyang look. With two classes there is one logit, and class 1 weighs what `class_weights` says
    relative to class 0: the paper's positive class weight.

    Works on a copy: the given encoder is not changed. Training images are the first view of `recipe`, test images
    are plain, of its size unless `size` is given. A last batch of a single image is left out, which batch
    normalization could not take.
    """
    at_least(1, epochs=epochs)
    at_least(2, batch=batch)
    labels = label_column(train.labels, len(train), f"{train.name}: labels")
    test_labels = label_column(test.labels, len(test), f"{test.name}: labels")
    classes = count_classes(labels, test_labels, len(train.classes) or None)
    weights = _weights(class_weights, labels, classes)
    rate = positive("lr", (BINARY_RATE if classes == 2 else RATE) if lr is None else lr)
    how = Training(epochs, min(batch, len(train)), rate, seed, size)
    rank = ranks(_logits(*_trained(encoder, train, recipe, weights, how), test, recipe, how), test_labels)
    settings = {"epochs": epochs, "batch": how.batch, "lr": rate, "class_weights": weights.tolist()}
    return score("finetune", rank, test_labels, classes, seed, settings)


@dataclass(frozen=True)
class Training:
    """How long, in which steps and with which random numbers a copy is trained."""

    epochs: int
    batch: int
    rate: float
    seed: int
    size: int | None


def _trained(
    encoder: nn.Module, train: Images, recipe: Recipe, weights: Tensor, how: Training
) -> tuple[nn.Module, nn.Linear]:
    """A copy of the encoder and its classifier (one logit for two classes), after training."""
    device, classes = home(encoder), len(weights)
    one_view = replace(recipe, views=recipe.views[:1], small=())
    drop_last = len(train) % how.batch == 1
    loader = Loader(train, one_view, how.batch, seed=how.seed, drop_last=drop_last, device=device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.enable_grad():
        torch.manual_seed(how.seed)  # the classifier's first weights, and whatever the encoder drops
        body = copy.deepcopy(encoder).requires_grad_(True)
        width = features_of(body, train.subset(torch.arange(2)), recipe, how.size).shape[1]
        head = nn.Linear(width, 1 if classes == 2 else classes).to(device)
        body.train()
        optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], how.rate)
        milestones = [round(m * how.epochs / EPOCHS) for m in MILESTONES]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, DECAY)
        for epoch in range(how.epochs):
            for views, known, _ in loader.epoch(epoch):
                optimizer.zero_grad()
                _loss(head(body(views[0])), known, weights.to(device)).backward()
                optimizer.step()
            schedule.step()
    return body, head


@torch.no_grad()
def _logits(body: nn.Module, head: nn.Linear, test: Images, recipe: Recipe, how: Training) -> Tensor:
    """Of every class, for plain test images."""
    with evaluating(body):
        logits: Tensor = head(features_of(body, test, recipe, how.size).to(home(body))).cpu()
    if not bool(torch.isfinite(logits).all()):
        raise ValueError(f"fine-tuning with a learning rate of {how.rate:g} diverged; use a smaller one (lr=…).")
    return torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits


def _loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], labels.float(), pos_weight=weights[1] / weights[0])
    return F.cross_entropy(logits, labels, weight=weights)


def _weights(given: ClassWeights, labels: Tensor, classes: int) -> Tensor:
    counts = torch.bincount(labels, minlength=classes)
    if given is None:
        return torch.ones(classes)
    if isinstance(given, str):
        if given == "balanced":
            return counts.max() / counts.clamp_min(1)  # a class without images is never asked for
        if given not in CLASS_WEIGHTS:
            known = ", ".join(CLASS_WEIGHTS)
            raise ValueError(
                f"class_weights is 'balanced', None or one number per class, or one of {known}; got '{given}'."
            )
        given = CLASS_WEIGHTS[given]
    weights = torch.tensor([float(w) for w in given])
    if len(weights) != classes:
        raise ValueError(f"class_weights must hold one number for each of the {classes} classes, got {len(weights)}.")
    if not bool((torch.isfinite(weights) & (weights > 0)).all()):
        raise ValueError(f"class_weights must be positive numbers, got {weights.tolist()}.")
    return weights
