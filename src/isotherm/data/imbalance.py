"""Subsets with chosen class counts: long tails, linear and exponential imbalance, plain fractions. Seeded and exact."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from isotherm.data.images import Images
from isotherm.streams import uniforms


def long_tail_counts(classes: int, largest: int, ratio: float) -> list[int]:
    """⌊n_max · ρ^{c/(C−1)}⌋: class 0 keeps all, the last one the fraction ρ (DySTreSS's long-tail CIFAR)."""
    _check(classes, largest)
    if not 0 < ratio <= 1:
        raise ValueError(f"the ratio of the smallest class to the largest lies in (0, 1], got {ratio}.")
    return [_floor(largest * ratio ** (c / max(1, classes - 1))) for c in range(classes)]


def linear_counts(classes: int, largest: int) -> list[int]:
    """⌊n_max · (c+1)/C⌋ (CACR, linear imbalance)."""
    _check(classes, largest)
    return [largest * (c + 1) // classes for c in range(classes)]


def exponential_counts(classes: int, largest: int, groups: int = 10, minimum: int = 0) -> list[int]:
    """⌊n_max · e^{g+1−G}⌋ for the g-th of `groups` groups of classes (CACR, exponential imbalance).

    Some classes may become empty: that is how the paper's set was built; ``minimum=1`` avoids it.
    """
    _check(classes, largest)
    if groups < 1 or minimum < 0:
        raise ValueError(f"groups must be 1 or more and minimum 0 or more, got {groups} and {minimum}.")
    groups = min(groups, classes)
    return [max(minimum, _floor(largest * math.exp(c * groups // classes + 1 - groups))) for c in range(classes)]


def with_counts(images: Images, counts: Sequence[int], seed: int = 0, kind: str = "chosen counts") -> Images:
    """The first so many images of each class in a seeded order; the image order stays that of the set."""
    have = _classes(images)
    if len(counts) != len(have):
        raise ValueError(f"{images.name} has {len(have)} classes, got {len(counts)} counts.")
    for name, wanted, there in zip(images.classes, counts, have, strict=True):
        if not 0 <= wanted <= there:
            raise ValueError(f"{images.name} has {there} images of '{name}', cannot take {wanted}.")
    keys = uniforms(images.ids, 1, seed=seed, epoch=0, view=-6)[:, 0]
    order = torch.argsort(keys, stable=True)
    kept = [order[images.labels[order] == c][:n] for c, n in enumerate(counts)]
    index = torch.cat(kept).sort().values
    empty = sum(n == 0 for n in counts)
    notes = [f"{kind}: {min(counts)} to {max(counts)} images per class, {len(index)} in all"]
    if empty:
        notes.append(f"{empty} of {len(counts)} classes are empty")
    return images.subset(index, *notes)


def long_tail(images: Images, ratio: float, seed: int = 0) -> Images:
    """A long-tailed subset: exponentially fewer images of each next class."""
    counts = long_tail_counts(len(images.classes), _smallest(images), ratio)
    return with_counts(images, counts, seed, f"long tail {ratio:g}")


def linear(images: Images, seed: int = 0) -> Images:
    """A subset whose classes grow linearly."""
    return with_counts(images, linear_counts(len(images.classes), _smallest(images)), seed, "linear imbalance")


def exponential(images: Images, seed: int = 0, minimum: int = 0) -> Images:
    """A subset whose groups of classes grow exponentially."""
    counts = exponential_counts(len(images.classes), _smallest(images), minimum=minimum)
    return with_counts(images, counts, seed, "exponential imbalance")


def fraction(images: Images, part: float | int, seed: int = 0) -> Images:
    """A random subset: so many images (an integer) or that fraction of them (a float in (0, 1])."""
    n = len(images)
    if isinstance(part, float):
        if not 0 < part <= 1:
            raise ValueError(f"a fraction lies in (0, 1], got {part}; write a whole number to count images.")
        part = round(part * n)
    if not 1 <= part <= n:
        raise ValueError(f"{images.name} has {n} images, cannot take {part}.")
    keys = uniforms(images.ids, 1, seed=seed, epoch=0, view=-7)[:, 0]
    index = torch.argsort(keys, stable=True)[:part].sort().values
    return images.subset(index, f"{part} of {n} images, seed {seed}")


def save_index(images: Images, path: Path) -> None:
    """Which images a subset holds, so that anybody can build it again without this code."""
    path.write_text(json.dumps({"name": images.name, "notes": images.notes, "ids": images.ids.tolist()}) + "\n")


def from_index(images: Images, path: Path) -> Images:
    """The subset that `save_index` wrote down, from the whole set."""
    try:
        ids = torch.tensor(json.loads(path.read_text())["ids"], dtype=torch.int64)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no index that `save_index` wrote ({error}).") from error
    return images.subset(_places(images, ids), f"as saved in {path.name}")


def _places(images: Images, ids: Tensor) -> Tensor:
    order = torch.argsort(images.ids)
    nearest = torch.searchsorted(images.ids[order], ids).clamp_max(len(order) - 1)
    indices = order[nearest]
    missing = int((images.ids[indices] != ids).sum())
    if missing:
        raise ValueError(f"{images.name} lacks {missing} of the {len(ids)} images the index names.")
    return indices


def _classes(images: Images) -> list[int]:
    """How many images each class has."""
    if not images.classes:
        raise ValueError(f"{images.name} has no classes to make smaller or larger.")
    return images.counts()


def _smallest(images: Images) -> int:
    """How many images every class has at least; imbalance starts from a balanced set."""
    have = _classes(images)
    if min(have) == 0:
        raise ValueError(f"{images.name} has no images of '{images.classes[have.index(0)]}' to begin with.")
    return min(have)


def _check(classes: int, largest: int) -> None:
    if classes < 1 or largest < 1:
        raise ValueError(f"at least 1 class of at least 1 image is needed, got {classes} and {largest}.")


def _floor(x: float) -> int:
    """⌊x⌋ where 49.99999999 is 50 written in floating point."""
    return math.floor(x + 1e-9)
