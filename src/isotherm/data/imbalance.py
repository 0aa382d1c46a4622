"""Subsets with chosen class counts: long tails, linear and exponential imbalance, plain fractions. Seeded and exact."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from isotherm.data.catalogue import IMAGENET100
from isotherm.data.images import Images
from isotherm.streams import uniforms

_LT = """
    137 215 52 229 75 39 392 10 110 27 130 152 290 9 15 12 456 44 8 138 126 86 124 104 82
    14 184 61 102 26 19 31 21 1280 48 189 25 178 65 59 32 133 6 100 37 108 41 85 30 63
    330 149 157 354 34 7 282 83 57 66 20 28 32 45 96 43 78 169 16 93 15 11 36 22 679
    305 73 116 236 89 50 42 47 71 35 165 172 69 55 18 511 120 113 80 248 143 268 201 23 54
"""
IMAGENET100_LT = tuple(map(int, _LT.split()))
"""Images of each class of ImageNet-100-LT, in the order of `catalogue.IMAGENET100`: those of the list that Kukleva et
al. 2023 train on (Annusha/temperature_schedules, split/imagenet-100/imageNet_100_LT_train.txt; Jiang et al. 2021,
SDCLR, made it), 12,205 in all; DySTreSS, Table 5."""


def long_tail_counts(classes: int, largest: int, ratio: float) -> list[int]:
    """⌊n_max · ρ^{c/(C−1)}⌋: class 0 keeps all, the last one the fraction ρ (DySTreSS's long-tail CIFAR)."""
    _check(classes, largest)
    if not 0 < ratio <= 1:
        raise ValueError(f"the ratio of the smallest class to the largest lies in (0, 1], got {ratio}.")
    return [_floor(largest * ratio ** (c / max(1, classes - 1))) for c in range(classes)]


def linear_counts(classes: int, largest: int, groups: int | None = None) -> list[int]:
    """⌊n_max · (c+1)/C⌋ (CACR, linear imbalance), or ⌊n_max · (g+1)/G⌋ for the g-th of `groups` groups of classes.

    The paper's ⌊l/C⌋ says nothing of groups; its authors' code has ten. Of CIFAR-100 that leaves 27,500 images, without
    groups 25,250; of CIFAR-10 both are the same.
    """
    _check(classes, largest)
    groups = classes if groups is None else min(groups, classes)
    return [largest * (c * groups // classes + 1) // groups for c in range(classes)]


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


def linear(images: Images, seed: int = 0, groups: int | None = None) -> Images:
    """A subset whose classes, or groups of them, grow linearly."""
    counts = linear_counts(len(images.classes), _smallest(images), groups)
    return with_counts(images, counts, seed, "linear imbalance" if groups is None else f"linear in {groups} groups")


def imagenet100_lt(images: Images, seed: int = 0) -> Images:
    """ImageNet-100-LT: as many images of every class as its authors' list has; which ones is drawn with `seed`."""
    if images.classes != IMAGENET100:
        raise ValueError(f"imagenet100-lt is a subset of imagenet100, whose classes {images.name} does not have.")
    return with_counts(images, IMAGENET100_LT, seed, "ImageNet-100-LT")


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
