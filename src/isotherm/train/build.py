"""From a configuration to the things it names: images or sentences, their views, networks, the method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isotherm import temperature
from isotherm.checks import did_you_mean
from isotherm.losses import catalogue
from isotherm.losses.loss import Loss
from isotherm.methods import Given, Method, method
from isotherm.train.choice import Choice
from isotherm.train.config import Config
from isotherm.train.modality import Modality, modality_of
from isotherm.train.networks import networks as networks


@dataclass(frozen=True, eq=False)
class Built:
    """A run before its first step."""

    material: Modality
    """What it learns from."""
    method: Method
    tau: temperature.CosineSchedule | None
    """How the loss's temperature changes over epochs, if it does."""


def build(config: Config, folder: Path | None = None) -> Built:
    """Everything a configuration names; the weights are those of its seed.

    In `folder`, the run's, is kept what is made of the data and must stay: a tokenizer.
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
        seed=config.seed,
        hard_negatives=given.hard_negatives,
        predictor=predictor,
    )
    built = method(config.method.name, network, loss, brought, **config.method.settings)
    built.check_views(given.views - given.hard_negatives)
    return Built(given, built, tau)


def material(config: Config, folder: Path | None = None) -> Modality:
    """What a configuration learns from."""
    return modality_of(config).of(config, folder)


def build_loss(choice: Choice) -> tuple[Loss | None, temperature.CosineSchedule | None]:
    """The loss that is named, and the schedule of its temperature if it has one."""
    if not choice:
        return None, None
    settings = dict(choice.settings)
    over_epochs = None
    tau = settings.get("temperature")
    if isinstance(tau, Mapping):
        profile = _temperature(Choice.of(tau))
        if isinstance(profile, temperature.CosineSchedule):
            over_epochs, profile = profile, profile.at(0)
        settings["temperature"] = profile
    return loss_class(choice.name)(**settings), over_epochs


def _temperature(choice: Choice) -> Any:
    """``{name: Cosine, tau_min: 0.07, tau_max: 0.2}`` of isotherm.temperature."""
    known = ("Constant", "Cosine", "Linear", "Exponential", "Monotone", "Shifted", "Learnable", "CosineSchedule")
    name = choice.name
    if name not in known:
        raise ValueError(f"no temperature '{name}'; there is: {', '.join(known)}.")
    kind = getattr(temperature, name)
    try:
        return kind(**choice.settings)
    except TypeError as error:
        raise ValueError(f"temperature {name}: {str(error).partition('__init__() ')[2] or error}.") from error


def loss_class(name: str) -> type[Loss]:
    known = {e.name: e.loss for e in catalogue.losses()}
    if name not in known:
        raise ValueError(f"no loss '{name}'{did_you_mean(name, known)}")
    return known[name]


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
