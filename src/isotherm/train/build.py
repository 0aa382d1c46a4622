"""From a configuration to the things it names: pictures, views, networks, the method."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from isotherm import temperature
from isotherm.data import imbalance, probing
from isotherm.data.images import Images
from isotherm.data.sets import load
from isotherm.encoders import Encoder, Head, encoder, head
from isotherm.methods import Method, Network, method
from isotherm.methods.build import named
from isotherm.train.config import Choice, Config, build_loss
from isotherm.views import Recipe, recipe


@dataclass(frozen=True, eq=False)
class Built:
    """A run before its first step."""

    images: Images
    recipe: Recipe
    method: Method
    tau: temperature.CosineSchedule | None
    """How the loss's temperature changes over epochs, if it does."""
    size: int

    @property
    def encoder(self) -> Encoder:
        found = self.method.network.encoder
        assert isinstance(found, nn.Module)
        return found  # type: ignore[return-value]


def build(config: Config) -> Built:
    """Everything a configuration names; the weights are those of its seed."""
    images = pictures(config, config.split)
    made = views(config, images)
    size = made.views[0].size or images.shape[1]
    torch.manual_seed(config.seed)
    network, predictor = networks(config, images, size)
    loss, tau = build_loss(config.loss)
    width = network.head.width
    assert isinstance(width, int)
    found = method(
        config.method["name"],
        network,
        loss,
        width=width,
        predictor=predictor,
        items=len(images),
        classes=len(images.classes),
        seed=config.seed,
        **_settings(config.method),
    )
    found.check_views(len(made.views))
    return Built(images, made, found, tau, size)


def networks(config: Config, images: Images, size: int) -> tuple[Network, Head | None]:
    """The encoder with its head, and the predictor if the method has one."""
    backbone = encoder_of(config.encoder, images.shape[0] + images.bits, size)
    name = config.method["name"]
    projector = head(config.head["name"], backbone.width, **_settings(config.head))
    predictor = None
    if named(name).predictor:
        settings = {"width": projector.width, **_settings(config.predictor)}
        settings["width"] = projector.width  # a prediction is compared with an embedding
        predictor = head(config.predictor["name"], projector.width, **settings)
    return Network(backbone, projector), predictor


def encoder_of(choice: Choice, channels: int, size: int) -> Encoder:
    settings = {k: v for k, v in _settings(choice).items() if v is not None}
    return encoder(choice["name"], channels, size, **settings.pop("settings", {}), **settings)


def pictures(config: Config, split: str) -> Images:
    """One part of the data, with what the configuration does to it.

    Only the part learnt from is made smaller, and only it is limited to so many unique digits: others show all there
    are (Chen & Li §3.2).
    """
    images = load(config.data, split, **config.data_options)
    if config.digits:
        drawn = load("digits", "train" if split == config.split else "test")
        unique = config.digits if split == config.split else len(drawn)
        images = probing.digits_on_images(images, drawn, unique, config.seed)
    if config.randbit:
        images = probing.randbit(images, config.randbit)
    if split != config.split:
        return images
    if config.imbalance == "long-tail":
        images = imbalance.long_tail(images, config.ratio, config.seed)
    elif config.imbalance == "linear":
        images = imbalance.linear(images, config.seed)
    elif config.imbalance == "exponential":
        images = imbalance.exponential(images, config.seed)
    if config.images is not None and config.images != len(images):
        images = imbalance.fraction(images, config.images, config.seed)
    return images


def views(config: Config, images: Images) -> Recipe:
    channels, height, _ = images.shape
    fitting = "digits" if channels != 3 else "simclr-cifar" if height <= 64 else "simclr"
    name = config.recipe or fitting
    count = config.views or named(config.method["name"]).views
    made = recipe(name, count, config.size, config.normalise)
    if made.mean and len(made.mean) != channels:
        raise ValueError(
            f"normalise: {config.normalise} is for {len(made.mean)} channels; {images.name} has {channels}."
        )
    return made


def fingerprint(images: Images) -> str:
    """What tells one set of pictures from another: ids, labels, and up to 4 MB of their pixels."""
    digest = hashlib.sha256(repr((tuple(images.pixels.shape), images.bits)).encode())
    digest.update(images.ids.numpy().tobytes())
    digest.update(images.labels.numpy().tobytes())
    each = max(1, images.pixels[0].numel())
    some = torch.linspace(0, len(images) - 1, min(len(images), max(1, (1 << 22) // each))).long()
    digest.update(images.pixels[some].contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def temperature_of(loss: nn.Module | None) -> float | None:
    """The loss's temperature, if it is one number."""
    tau: Any = getattr(loss, "temperature", None)
    if isinstance(tau, temperature.Learnable):
        return float(tau.value().detach())
    if isinstance(tau, temperature.Constant):
        return float(tau.value)
    if isinstance(tau, Tensor):
        return float(tau.detach()) if tau.numel() == 1 else None
    return float(tau) if isinstance(tau, int | float) else None


def _settings(choice: Choice) -> dict[str, Any]:
    return {k: v for k, v in choice.items() if k != "name"}
