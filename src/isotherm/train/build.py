"""From a configuration to the things it names: images or sentences, their views, networks, the method."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isotherm import temperature
from isotherm.methods import Given, Method, method
from isotherm.train.config import Config
from isotherm.train.lookup import build_loss
from isotherm.train.modality import Modality, modality_of
from isotherm.train.networks import networks as networks


@dataclass(frozen=True, eq=False)
class Built:
    """A run before its first step."""

    material: Modality
    """What it learns from."""
    method: Method
    tau: temperature.Schedule | None
    """How the loss's temperature changes over epochs, if it does."""


def build(config: Config, folder: Path | None = None) -> Built:
    """Everything a configuration names; the weights are those of its seed.

    In `folder`, the run's, is what a run that began there has kept: a tokenizer. Nothing is written.
    """
    given = material(config, folder)
    torch.manual_seed(config.seed)
    network, predictor = networks(config, given.encoder())
    loss, tau = build_loss(config.loss)
    width = network.head.width
    assert isinstance(width, int)
    brought = Given(
        width=width,
        items=len(given.ids),
        classes=given.classes,
        bits=config.randbit,
        seed=config.seed,
        hard_negatives=given.hard_negatives,
        predictor=predictor,
        views=given.views - given.hard_negatives,
        small_crops=given.small_crops,
    )
    built = method(config.method.name, network, loss, brought, **config.method.settings)
    built.check_views(brought.views)
    return Built(given, built, tau)


def material(config: Config, folder: Path | None = None) -> Modality:
    """What a configuration learns from."""
    return modality_of(config).of(config, folder)


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
