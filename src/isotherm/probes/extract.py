"""Features to probe: those of images, from a frozen encoder; and the checks every probe makes at its door."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from isotherm.checks import at_least
from isotherm.data.images import Images
from isotherm.data.probing import append_bits
from isotherm.encoders.features import features
from isotherm.views.recipes import Recipe


def features_of(
    encoder: nn.Module,
    images: Images,
    recipe: Recipe,
    size: int | None = None,
    batch: int = 512,
    layer: str | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """The features of every image as it is, not augmented: float32 (N, width), on the CPU.

    The encoder runs in eval mode without gradients and is left as it was found; nothing can flow back into it from
    the result. Images are normalized as the recipe does and have its first view's size unless `size` is given;
    RandBit planes are appended as the loader does. `layer` names a layer (`encoders.features`), such as the one that
    is probed (`probed_layer`); `device` is by default the encoder's own.
    """
    at_least(1, batch=batch)
    device = home(encoder) if device is None else device
    size = recipe.views[0].size if size is None else size
    all_features: Tensor | None = None
    for start in range(0, len(images), batch):
        indices = torch.arange(start, min(start + batch, len(images)))
        x = recipe.plain(images.at(indices).to(device), size)
        part = features(encoder, append_bits(x, images, indices), layer)
        if all_features is None:
            all_features = torch.empty(len(images), part.shape[1])
        all_features[indices] = part.float().cpu()
    assert all_features is not None  # a set of images is never empty
    return all_features


def probed_layer(encoder: nn.Module) -> str | None:
    """The layer of an encoder that probes look at, where it is not the last (`Encoder.probed`).

    SmallAlexNet ends in its own embedding, fc8; the papers probe fc7 (CACR C.1). Every probe asks here.
    """
    layer: str | None = getattr(encoder, "probed", None)
    return layer


def home(module: nn.Module) -> torch.device:
    """Where a module's numbers are; the CPU if it has none."""
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device


@dataclass(frozen=True, eq=False)
class Parts:
    """Checked features and labels of the training part and of the test part, out of reach of any gradient."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    classes: int


def parts(train: Tensor, train_labels: Tensor, test: Tensor, test_labels: Tensor, classes: int | None = None) -> Parts:
    """Refuse what cannot be probed; features in float32 (float64 stays), labels in int64 on the features' device."""
    train, test = feature_matrix(train, "train"), feature_matrix(test, "test")
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"train has {train.shape[1]} features per item, test has {test.shape[1]}; extract both alike.")
    if train.device != test.device:
        raise ValueError(f"train is on {train.device}, test on {test.device}; move one of them.")
    dtype = torch.promote_types(train.dtype, test.dtype)
    train_labels = label_column(train_labels, len(train), "train_labels").to(train.device)
    test_labels = label_column(test_labels, len(test), "test_labels").to(test.device)
    count = count_classes(train_labels, test_labels, classes)
    return Parts(train.to(dtype), train_labels, test.to(dtype), test_labels, count)


def count_classes(train_labels: Tensor, test_labels: Tensor, classes: int | None = None) -> int:
    """How many classes there are; every one that is asked about must be there to learn from."""
    largest = int(torch.maximum(train_labels.max(), test_labels.max()))
    if classes is None:
        classes = largest + 1
    else:
        at_least(1, classes=classes)
        if largest >= classes:
            raise ValueError(f"labels reach up to {largest}, but classes is {classes}.")
    learned = torch.bincount(train_labels, minlength=classes) > 0
    asked = torch.bincount(test_labels, minlength=classes) > 0
    missing = torch.nonzero(asked & ~learned)[:, 0].tolist()
    if missing:
        some = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
        raise ValueError(
            f"{len(missing)} of the {classes} classes are tested but not in the training part: {some}. "
            "Leave them out of the test part."
        )
    if int(learned.sum()) < 2:
        raise ValueError("all training labels are the same: a probe needs at least 2 classes to tell apart.")
    return classes


def label_column(labels: Tensor, n: int, name: str) -> Tensor:
    """Labels as int64 (n,), none of them unknown."""
    labels = torch.as_tensor(labels).detach()
    if labels.shape != (n,):
        raise ValueError(f"{name} must hold one label per item, shape ({n},); got {tuple(labels.shape)}.")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"{name} must hold whole numbers, got {labels.dtype}.")
    if int(labels.min()) < 0:
        raise ValueError(f"{name} holds {int(labels.min())}: below 0 means unknown. Leave those items out.")
    return labels.long()


def feature_matrix(x: Tensor, name: str) -> Tensor:
    """Features as (N, D) floating-point numbers, all finite, out of reach of any gradient."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor of features (N, D), got {type(x).__name__}.")
    if x.ndim != 2:
        raise ValueError(f"{name} must have shape (N, D), one row per item; got {tuple(x.shape)}.")
    if not x.is_floating_point():
        raise TypeError(f"{name} must hold floating-point features, got {x.dtype}. Convert them: {name}.float().")
    if not x.numel():
        raise ValueError(f"{name} holds no features: shape {tuple(x.shape)}.")
    if not bool(torch.isfinite(x.sum())) and not bool(torch.isfinite(x).all()):  # the sum alone may overflow
        bad = torch.nonzero(~torch.isfinite(x).all(1))[:, 0]
        raise ValueError(f"{name} holds NaN or infinite features in {len(bad)} rows, first in row {int(bad[0])}.")
    return x.detach().to(torch.promote_types(x.dtype, torch.float32))
