"""Sets to judge an encoder on: both parts of any source, at the size the encoder wants, with labels to be asked."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from isotherm.checks import parameters
from isotherm.data import fingerprints
from isotherm.data.images import Images
from isotherm.data.imbalance import fraction
from isotherm.data.parts import NoSplit
from isotherm.data.sets import FORMATS, load, named, there
from isotherm.data.sources.reading import count
from isotherm.evaluate.models import Model, fitted
from isotherm.probes.extract import features_of
from isotherm.probes.tasks import CLASS_WEIGHTS, ClassWeights, shows_several
from isotherm.train import outside_data

TESTS = ("test", "val", "validation")
"""What the part to judge on may be called, the first first."""


@dataclass(frozen=True, eq=False)
class Target:
    """A set as a model sees it."""

    name: str
    train: Images
    test: Images
    several: bool
    """Whether an image may show several classes at once."""
    notes: tuple[str, ...]
    items: str
    """What tells its images from others of that name, whatever size or channels the model wants."""

    @property
    def class_weights(self) -> ClassWeights:
        """Those that DySTreSS gives for its medical sets; None for others."""
        return self.name if self.name in CLASS_WEIGHTS else None  # type: ignore[return-value]

    def features(self, model: Model, part: str, index: Tensor | None = None) -> Tensor:
        """What the model says about one part, or about some images of it."""
        images = self.train if part == "train" else self.test
        images = images if index is None else images.subset(index)
        return features_of(model.encoder, images, model.recipe, model.size, layer=model.layer)


def open_target(
    name: str,
    model: Model,
    at_most: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Target:
    """Both parts of a set for a model; what cannot be asked about is left out and counted.

    `at_most` takes a seeded choice of so many training images; `options` are the source's own, such as which column
    has the labels.
    """
    raw = [part_of(name, splits, model.size, options) for splits in (("train",), TESTS)]
    items = "-".join(_items(images, name) for images in raw)
    train, test = (fitted(images, model) for images in raw)
    notes = [f"{part}: {note}" for part, images in (("train", train), ("test", test)) for note in images.notes]
    if shows_several(train):
        return Target(name, _some(train, at_most, seed), test, True, tuple(notes), items)
    train, test = (_labelled(images, part, notes) for images, part in ((train, "training"), (test, "test")))
    train = _some(train, at_most, seed)
    classes = torch.unique(train.labels)
    if len(classes) < 2:
        raise ValueError(f"{name} has one class in its training part; at least 2 are needed to tell apart.")
    known = torch.isin(test.labels, classes)
    if not bool(known.any()):
        raise ValueError(f"{name}: no class of the test part is in the training part.")
    if not bool(known.all()):
        notes.append(f"{count(int((~known).sum()), 'test image')} left out: their classes are not in the training part")
        test = test.subset(known.nonzero()[:, 0])
    return Target(name, train, test, False, tuple(notes), items)


def _items(images: Images, name: str) -> str:
    """Ids and labels, and the pixels: as they are, or with the model's size, to which they were brought.

    `measured.same_items` compares two of them.
    """
    of = hashlib.sha256(images.ids.numpy().tobytes() + images.labels.numpy().tobytes()).hexdigest()[:16]
    pixels = fingerprints.of_images(images)
    own_size = outside_data.data_address(name) is None and not _takes_size(name)
    return f"{of}.{pixels}" if own_size else f"{of}@{'x'.join(map(str, images.shape[1:]))}={pixels}"


def part_of(name: str, splits: tuple[str, ...], size: int, given: Mapping[str, Any] = MappingProxyType({})) -> Images:
    """The first of these splits that there is."""
    if outside_data.data_address(name) is not None:
        return outside_data.images(name, splits[0], dict(given))
    there(name)
    options: dict[str, Any] = ({"size": size} if _takes_size(name) else {}) | dict(given)
    problem: Exception | None = None
    for split in splits:
        try:
            return load(name, split, **options)
        except NoSplit as error:
            if len(splits) == 1:
                raise
            problem = problem or error
    raise ValueError(f"{name} has no part to judge on ({problem}).")


def _takes_size(name: str) -> bool:
    """Whether the set is decoded to a size, which then is the model's own."""
    form, colon, _ = name.partition(":")
    source = form if colon and form in FORMATS else named(name).source
    return "size" in parameters(importlib.import_module(f"isotherm.data.sources.{source}").read)


def _labelled(images: Images, part: str, notes: list[str]) -> Images:
    known = images.labels >= 0
    if not bool(known.any()):
        raise ValueError(f"{images.name} has no labels in its {part} part, which nothing can be judged by.")
    if bool(known.all()):
        return images
    notes.append(f"{count(int((~known).sum()), f'{part} image')} left out: without a label")
    return images.subset(known.nonzero()[:, 0])


def _some(images: Images, at_most: int | None, seed: int) -> Images:
    return images if at_most is None or at_most >= len(images) else fraction(images, at_most, seed)
