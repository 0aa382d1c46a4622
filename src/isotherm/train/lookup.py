"""What a name in a configuration stands for: ours, an installed package's, or a thing in a file of the user's.

Code from outside is run here and nowhere else in training; whatever it does wrong becomes one sentence.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from isotherm import doors, temperature
from isotherm.checks import did_you_mean, known_settings, parameters
from isotherm.losses import catalogue
from isotherm.losses.loss import Loss
from isotherm.train.choice import Choice

TEMPERATURES = (
    *("Constant", "Cosine", "Linear", "Exponential", "Monotone", "Shifted", "LeftHalf", "Learnable"),
    *("CosineSchedule", "LinearSchedule", "StepSchedule", "RandomSchedule"),
)
"""Those of isotherm.temperature that have a name."""


def address(name: str, group: str) -> str | None:
    """Where the code of an outside name is: itself, or what an installed package offers under it."""
    return name if doors.is_outside(name) else doors.entry_points(group).get(name)


def code_in(settings: Mapping[str, Any]) -> list[str]:
    """The outside names among settings (nested), wherever one may stand: their code would be run."""
    parts = [settings.get(part) or {} for part in ("encoder", "loss")]
    names = [part.get("name") for part in parts if isinstance(part, Mapping)]
    tau = parts[1].get("temperature") if isinstance(parts[1], Mapping) else None
    names += [settings.get("data"), tau.get("name") if isinstance(tau, Mapping) else tau]
    return [name for name in names if isinstance(name, str) and doors.is_outside(name)]


def loss_class(name: str) -> type[Loss]:
    known = {e.name: e.loss for e in catalogue.losses()}
    if name in known:
        return known[name]
    place = address(name, "losses")
    if place is None:
        raise ValueError(f"no loss '{name}'{did_you_mean(name, [*known, *doors.entry_points('losses')])}")
    thing = loaded(place)
    if not (inspect.isclass(thing) and issubclass(thing, Loss)):
        raise ValueError(f"{name} is {_kind(thing)}; a loss is a class that inherits from isotherm.nn.Loss.")
    return thing


def build_loss(choice: Choice) -> tuple[Loss | None, temperature.Schedule | None]:
    """The loss that is named, and the schedule of its temperature if it has one."""
    if not choice:
        return None, None
    settings = dict(choice.settings)
    over_epochs = None
    tau = settings.get("temperature")
    if isinstance(tau, Mapping):
        profile = build_temperature(Choice.of(tau))
        if isinstance(profile, temperature.Schedule):
            over_epochs, profile = profile, profile.at(0)
        settings["temperature"] = profile
    make = loss_class(choice.name)
    ours = address(choice.name, "losses") is None
    loss = make(**settings) if ours else called(choice.name, make, **settings)
    if over_epochs is not None and isinstance(getattr(loss, "temperature", None), nn.Module):
        raise ValueError(
            f"{choice.name} learns its temperature, and a schedule would take its place: give it a number, or say "
            "--loss.learnable false."
        )
    return loss, over_epochs


def build_temperature(choice: Choice) -> Any:
    """``{name: Cosine, tau_min: 0.07, tau_max: 0.2}`` of isotherm.temperature, or a function s ↦ τ from outside."""
    name, settings = choice.name, choice.settings
    if name in TEMPERATURES:
        kind = getattr(temperature, name)
        known_settings(name, settings, parameters(kind))
    else:
        place = address(name, "temperatures")
        if place is None:
            raise ValueError(f"no temperature '{name}'{did_you_mean(name, TEMPERATURES)}")
        kind = loaded(place)
        if not callable(kind):
            raise ValueError(f"{name} is {_kind(kind)}; a temperature is a function of similarities, or a class.")
        if not inspect.isclass(kind):
            known_settings(name, settings, parameters(kind)[1:])
            return functools.partial(kind, **settings) if settings else kind
    try:
        return kind(**settings)
    except TypeError as error:
        raise ValueError(f"temperature {name}: {str(error).partition('__init__() ')[2] or error}.") from error


def encoder_maker(name: str) -> Callable[..., Any] | None:
    """What makes an encoder from outside; None: the name is one of ours or a library's."""
    place = address(name, "encoders")
    if place is None:
        return None
    make = loaded(place)
    if not callable(make) or isinstance(make, nn.Module):
        raise ValueError(f"{name} is {_kind(make)}; an encoder is a class, or a function that gives an nn.Module.")
    return make  # type: ignore[no-any-return]


def build_encoder(choice: Choice, make: Callable[..., Any], channels: int, size: int) -> nn.Module:
    """A module from outside, told what it is to look at if it asks."""
    shape = {k: v for k, v in {"channels": channels, "size": size}.items() if k in parameters(make)}
    module = called(choice.name, make, **shape, **choice.settings)
    if not isinstance(module, nn.Module):
        raise ValueError(f"{choice.name} gives {_kind(module)}; an encoder is an nn.Module.")
    return module


def loaded(place: str) -> Any:
    """What an outside name stands for."""
    if place.endswith(".py"):
        raise ValueError(f"{place} is a file; say what in it, {place}:NAME.")
    return doors.load(place)


def called(name: str, make: Callable[..., Any], **settings: Any) -> Any:
    """Run the user's code; what it prints goes to standard error, and what goes wrong is told in one sentence."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return make(**settings)
    except SystemExit as error:
        raise ValueError(f"{name} ends the program (exit {error.code}).") from error
    except Exception as error:
        what = (str(error).splitlines() or [""])[0].rstrip(".")
        raise ValueError(f"{name} does not run: {type(error).__name__}: {what}.") from error


def _kind(thing: object) -> str:
    """A thing in words."""
    if inspect.isclass(thing):
        return f"the class {thing.__name__}"
    return f"a {type(thing).__name__}"
