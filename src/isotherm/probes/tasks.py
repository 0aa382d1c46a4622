"""What fine-tuning is asked: one of several classes, of two, or which of several at once; its loss and score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.data.images import Images
from isotherm.probes.extract import count_classes, label_column
from isotherm.probes.scores import MultiLabelScore, Score, multi_label_score, ranks, score

Kind = Literal["multi-class", "binary", "multi-label"]
ClassWeights = Literal["balanced", "mura", "isic2016", "mhist", "chaoyang"] | Sequence[float] | None
CLASS_WEIGHTS: Mapping[str, Sequence[float]] = {
    "mura": (1.0, 0.7097),
    "isic2016": (1.0, 4.24),
    "mhist": (1.0, 2.45),
    "chaoyang": (1.264, 1.667, 1.0, 2.114),
}
"""Of DySTreSS's medical sets (A.2); of two classes the second is the positive one."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is asked of images, and how classes weigh."""

    kind: Kind
    classes: int
    weights: Tensor
    """One per class; with two classes and with several at once relative to what is not it."""

    @property
    def outputs(self) -> int:
        """Logits of the classifier: one where there are two classes."""
        return 1 if self.kind == "binary" else self.classes

    def targets(self, images: Images) -> Tensor:
        """What the images show: int64 (N,), or of several classes at once (N, classes) of 1, 0, and −1 for unknown."""
        if self.kind == "multi-label":
            return torch.stack([images.more_labels[name] for name in images.classes], 1)
        return label_column(images.labels, len(images), f"{images.name}: labels")

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The mean cross entropy of a batch."""
        weights = self.weights.to(logits.device)
        if self.kind == "multi-class":
            return F.cross_entropy(logits, targets, weight=weights)
        if self.kind == "binary":
            return F.binary_cross_entropy_with_logits(logits[:, 0], targets.float(), pos_weight=weights[1] / weights[0])
        known = (targets >= 0).float()
        each = F.binary_cross_entropy_with_logits(
            logits, targets.clamp_min(0).float(), pos_weight=weights, reduction="none"
        )
        return (each * known).sum() / known.sum().clamp_min(1)

    def full(self, logits: Tensor) -> Tensor:
        """Logits of every class: the one of two classes stands for the second, against 0 for the first."""
        return torch.cat([torch.zeros_like(logits), logits], 1) if self.kind == "binary" else logits

    def score(
        self, probe: str, logits: Tensor, targets: Tensor, seed: int, settings: Mapping[str, Any]
    ) -> Score | MultiLabelScore:
        """What `full` logits are worth."""
        if self.kind == "multi-label":
            return multi_label_score(probe, logits, targets, seed, settings)
        return score(probe, ranks(logits, targets), targets, self.classes, seed, settings, logits)


def shows_several(images: Images) -> bool:
    """Whether images may show several classes at once: every class is a column of `more_labels` (1, 0, −1 unknown)."""
    return bool(images.classes) and all(name in images.more_labels for name in images.classes)


def task_of(train: Images, test: Images, class_weights: ClassWeights = None) -> Task:
    """What is asked of these two parts of a set."""
    if shows_several(train):
        if train.classes != test.classes or not shows_several(test):
            raise ValueError(f"the parts of {train.name} name other classes; they must be the same.")
        columns = torch.stack([train.more_labels[name] for name in train.classes], 1)
        shown, hidden = (columns == 1).sum(0), (columns == 0).sum(0)
        if not bool(((shown > 0) & (hidden > 0)).any()):
            raise ValueError(f"{train.name}: no class is both shown and not shown in the training part.")
        weights = _weights(class_weights, hidden / shown.clamp_min(1), len(train.classes))
        return Task("multi-label", len(train.classes), weights)
    labels = label_column(train.labels, len(train), f"{train.name}: labels")
    asked = label_column(test.labels, len(test), f"{test.name}: labels")
    classes = count_classes(labels, asked, len(train.classes) or None)
    counts = torch.bincount(labels, minlength=classes)
    # A class without images is never asked for.
    weights = _weights(class_weights, counts.max() / counts.clamp_min(1), classes)
    return Task("binary" if classes == 2 else "multi-class", classes, weights)


def _weights(given: ClassWeights, balanced: Tensor, classes: int) -> Tensor:
    if given is None:
        return torch.ones(classes)
    if isinstance(given, str):
        if given == "balanced":
            return balanced.float().clamp_min(1e-3)
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
