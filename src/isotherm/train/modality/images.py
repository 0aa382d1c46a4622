"""A run's images: the part it learns from, the part it is judged on, their views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn

from isotherm import world
from isotherm.data import fingerprints, imbalance, probing
from isotherm.data.images import Images
from isotherm.data.loaders.images import Loader
from isotherm.data.parts import NoSplit
from isotherm.data.sets import load
from isotherm.encoders import NETWORKS, Encoder, encoder
from isotherm.encoders.fitting import fitted
from isotherm.encoders.text import is_text_encoder
from isotherm.methods import Network
from isotherm.methods.build import method_spec
from isotherm.train import monitor, outside_data
from isotherm.train.choice import Choice
from isotherm.train.config import Config
from isotherm.train.layers import Settings
from isotherm.train.lookup import build_encoder, encoder_maker
from isotherm.train.modality.modality import Weights, provenance
from isotherm.train.networks import networks
from isotherm.train.outcome import Learnt
from isotherm.train.state import export_encoder
from isotherm.views import Recipe, multi_crop, recipe

ENCODER = "encoder.safetensors"
COMPARED = 2000
"""Images of each part by which a network is compared with the one it was."""


@dataclass(frozen=True, eq=False)
class OpenedImages:
    """A trained run on images: its network, its data, how they are shown."""

    out: Path
    config: Config
    network: Network
    images: Images
    test: Images | None
    recipe: Recipe


@dataclass(frozen=True, eq=False)
class ImageModality:
    """What a run learns from and is judged on, and how it is shown."""

    config: Config
    images: Images
    recipe: Recipe

    noun: ClassVar[str] = "images"
    method: ClassVar[str] = "simclr"
    criterion: ClassVar[str] = "knn"
    own_files: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def reads(cls, data: str, encoder: str | None, method: str | None = None) -> bool:
        return True

    @classmethod
    def of(cls, config: Config, folder: Path | None = None) -> ImageModality:
        if is_text_encoder(config.encoder.name):
            raise ValueError(
                f"encoder '{config.encoder.name}' reads sentences; {config.data} holds images. "
                "Sentences are --data text:PATH."
            )
        images = images_of(config, config.split)
        return cls(config, images, views(config, images))

    @classmethod
    def reopen(cls, out: Path, config: Config, weights: Weights) -> OpenedImages:
        given = cls.of(config)
        return given.opened(out, fitted(lambda: networks(config, given.encoder())[0], weights))

    @property
    def ids(self) -> torch.Tensor:
        return self.images.ids

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know of the data."""
        return self.images.notes

    @property
    def classes(self) -> int:
        return len(self.images.classes)

    @property
    def hard_negatives(self) -> bool:
        return False

    @property
    def views(self) -> int:
        return len(self.recipe.views)

    @property
    def small_crops(self) -> int:
        return len(self.recipe.small)

    @property
    def size(self) -> int:
        """The edge of a view."""
        return self.recipe.views[0].size or self.images.shape[1]

    @cached_property
    def test(self) -> Images | None:
        """The part to judge on, if there is one."""
        if self.config.test == self.config.split:
            return None
        try:
            return images_of(self.config, self.config.test)
        except NoSplit:
            if self.config.test != "test":
                raise
            return None

    def encoder(self) -> Encoder:
        """The network, with new weights."""
        network = encoder_of(self.config.encoder, self.images.shape[0] + self.images.bits, self.size)
        small = self.recipe.small[0].size if self.recipe.small else None
        why = network.refuses(small, small) if small is not None and isinstance(network, Encoder) else None
        if why is not None:
            if network.refuses(2 * self.size, 2 * self.size):
                why = "It takes one size only: use a convnet, a ResNet or a ViT"
            raise ValueError(
                f"encoder '{self.config.encoder.name}' cannot take small crops of {small} pixels beside views of "
                f"{self.size}. {why}."
            )
        return network

    def loader(self, network: Network, device: torch.device, prefetch: int) -> Loader:
        return Loader(
            self.images,
            self.recipe,
            self.config.batch,
            self.config.seed,
            device=device,
            prefetch=prefetch,
            rank=world.rank(),
            world=world.size(),
        )

    def monitor(self, network: Network, at_most: int | None = None) -> dict[str, float]:
        """Measures of a network (`monitor.monitor`)."""
        config = self.config
        return monitor.monitor(network, self.images, self.test, self.recipe, at_most, config.seed, config.loss)

    def learnt(self, network: Network) -> Learnt | None:
        """kNN of the network, and of the one that the run started from."""
        if self.test is None:
            return None
        train, test = (monitor.some(images, COMPARED, self.config.seed) for images in (self.images, self.test))
        torch.manual_seed(self.config.seed)
        untrained, _ = networks(self.config, self.encoder())
        untrained.to(next(network.parameters()).device)
        before, after = (monitor.knn_of(each.encoder, train, test, self.recipe) for each in (untrained, network))
        return None if before is None or after is None else Learnt(before, after, len(test))

    def check(self) -> None:
        """The part to judge on, read now."""
        _ = self.test

    def keep(self, folder: Path) -> None:
        """Nothing: the images are where they are."""

    def fingerprint(self) -> str:
        return fingerprints.of_images(self.images)

    def data(self) -> str:
        return data_of(self.images, self.test)

    def export(self, out: Path, trained: nn.Module) -> None:
        """The encoder's weights, and a card that says how to build it."""
        card = {
            "encoder": self.config.encoder.as_dict(),
            "channels": self.images.shape[0] + self.images.bits,
            "size": self.size,
            "width": trained.width,
            "normalize": {"mean": list(self.recipe.mean), "std": list(self.recipe.std)},
            **oddities(self.images, self.recipe),
            **provenance(self.config),
        }
        export_encoder(out / ENCODER, trained, card)

    def opened(self, out: Path, network: Network) -> OpenedImages:
        try:
            test = self.test
        except (ValueError, FileNotFoundError):
            test = None
        return OpenedImages(out, self.config, network.eval(), self.images, test, self.recipe)


def data_of(images: Images, test: Images | None) -> str:
    """What tells both parts from others."""
    return "-".join(fingerprints.of_images(part) for part in (images, test) if part is not None)


def oddities(images: Images, recipe: Recipe) -> Settings:
    """What channels and size do not say of the images an encoder learnt from: RandBit planes, or that they are no
    squares; empty of most."""
    tall, wide = images.shape[1:]
    planes = {"randbit": images.bits} if images.bits else {}
    return planes | ({"shape": [tall, wide]} if tall != wide and recipe.views[0].size is None else {})


def images_of(config: Config, split: str) -> Images:
    """One part of the data, with what the configuration does to it.

    Only the part learnt from is made smaller, and only it is limited to so many unique digits: others show all there
    are (Chen & Li §3.2).
    """
    if outside_data.data_address(config.data) is None:
        images = load(config.data, split, **config.data_options)
    else:
        images = outside_data.images(config.data, split, {k: v for k, v in config.data_options.items() if k != "code"})
    if config.digits:
        images = with_digits(images, config, learnt=split == config.split)
    if config.randbit:
        images = probing.randbit(images, config.randbit)
    if split != config.split:
        return images
    if config.imbalance == "long-tail":
        images = imbalance.long_tail(images, config.ratio, config.seed)
    elif config.imbalance == "linear":
        images = imbalance.linear(images, config.seed)
    elif config.imbalance == "linear-groups":
        images = imbalance.linear(images, config.seed, groups=10)
    elif config.imbalance == "exponential":
        images = imbalance.exponential(images, config.seed)
    elif config.imbalance == "imagenet100-lt":
        images = imbalance.imagenet100_lt(images, config.seed)
    if config.images is not None and config.images != len(images):
        images = imbalance.fraction(images, config.images, config.seed)
    return images


def with_digits(images: Images, config: Config, learnt: bool) -> Images:
    digits = load(config.digit_source, "train" if learnt else "test")
    unique = config.digits if learnt else len(digits)
    how = (config.digit_size, config.digit_places, config.digit_blend)
    return probing.digits_on_images(images, digits, unique, config.seed, *how)


def views(config: Config, images: Images) -> Recipe:
    channels, height, _ = images.shape
    fitting = "digits" if channels != 3 else "simclr-cifar" if height <= 64 else "simclr"
    name = config.recipe or fitting
    count = config.views or method_spec(config.method.name).views
    fitted = recipe(name, count, config.size, config.normalize)
    edge = fitted.views[0].size or height
    fitted = multi_crop(fitted, edge, config.small_crops, config.small_size, config.small_scale, config.crop_scale)
    if fitted.mean and len(fitted.mean) != channels:
        raise ValueError(
            f"normalize: {config.normalize} is for {len(fitted.mean)} channels; {images.name} has {channels}."
        )
    return fitted


def encoder_of(choice: Choice, channels: int, size: int) -> Encoder:
    make = None if choice.name in NETWORKS else encoder_maker(choice.name)
    if make is not None:
        return encoder(build_encoder(choice, make, channels, size), channels, size)
    settings = {k: v for k, v in choice.settings.items() if v is not None}
    return encoder(choice.name, channels, size, **settings.pop("settings", {}), **settings)
