"""The linear probe where an item may show several classes: one logistic regression per class, each at its optimum."""

from __future__ import annotations

import torch
from torch import Tensor

from isotherm.data.images import Images
from isotherm.probes.extract import feature_matrix
from isotherm.probes.linear import chosen
from isotherm.probes.scores import MultiLabelScore, multi_label_score

ABSENT = -1e9
"""The logit of a class that the training part cannot tell: nobody is shown to have it."""
SINGLE = 1e-2
"""Regularisation where a class has too few items to hold some out."""


@torch.no_grad()
def multi_label_linear(
    train: Tensor, train_images: Images, test: Tensor, test_images: Images, seed: int = 0, held_out: float = 0.1
) -> tuple[MultiLabelScore, Tensor]:
    """How well linear classifiers say which classes an item shows, and their logits (N, classes).

    Each class against the rest (`linear.fit`), its regularisation chosen on a held-out share; items of which nobody
    knows it are left out.
    """
    train, test = feature_matrix(train, "train"), feature_matrix(test, "test")
    logits = torch.full((len(test), len(train_images.classes)), ABSENT, dtype=test.dtype)
    skipped = []
    for c, name in enumerate(train_images.classes):
        column = train_images.more_labels[name]
        known = column >= 0
        counts = torch.bincount(column[known], minlength=2)
        if int(counts.min()) == 0:
            skipped.append(name)
            continue
        regularisation = None if int(counts.min()) > 1 else SINGLE
        classifier, _ = chosen(train[known], column[known], 2, regularisation, held_out, seed)
        two = classifier(test)
        logits[:, c] = two[:, 1] - two[:, 0]
    if len(skipped) == len(train_images.classes):
        raise ValueError(f"{train_images.name}: no class is both shown and not shown in the training part.")
    truth = torch.stack([test_images.more_labels[name] for name in train_images.classes], 1)
    settings = {"held_out": held_out, "without_examples": skipped}
    return multi_label_score("linear", logits, truth, seed, settings), logits
