"""What a preset is: settings, the paper and tables they are from, and the numbers printed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Published:
    """A number that a paper prints for a preset."""

    table: str
    value: float
    measure: str = "linear"
    """What it is: linear (top-1), fine-tuned, 1-NN, 10-NN, 200-NN, STS (the average of seven), or "accuracy" where the
    paper does not say."""


@dataclass(frozen=True)
class Preset:
    """A recipe: where it is from, its settings, and what the paper reports for it."""

    about: str
    settings: Settings
    paper: str = ""
    """Whose table or figure it is for (`PAPERS`); none: ours."""
    tables: tuple[str, ...] = ()
    """Where in the paper."""
    published: tuple[Published, ...] = ()
    probe: str = "linear"
    """By which probe of `isotherm evaluate` the paper judges it."""


def with_loss(settings: Settings, loss: str, **own: Any) -> dict[str, Any]:
    """The settings with another loss, and its own settings."""
    others = {name: value for name, value in settings.items() if name.split(".")[0] != "loss"}
    return {**others, "loss": loss, **{f"loss.{name}": value for name, value in own.items()}}


def with_method(settings: Settings, method: str, **own: Any) -> dict[str, Any]:
    """The settings with another method, and its own settings."""
    others = {name: value for name, value in settings.items() if name.split(".")[0] != "method"}
    return {**others, "method": method, **{f"method.{name}": value for name, value in own.items()}}


def printed(table: str, value: float | None, measure: str = "linear") -> tuple[Published, ...]:
    """What a table prints, if it does."""
    return () if value is None else (Published(table, value, measure),)


def of(paper: str, probe: str, presets: Mapping[str, Preset]) -> dict[str, Preset]:
    """Presets of one paper; one that names no tables is from those of its numbers, one without a probe has this."""
    return {
        name: replace(
            preset,
            paper=paper,
            tables=preset.tables or tuple(dict.fromkeys(p.table for p in preset.published)),
            probe=preset.probe if preset.probe != "linear" else probe,
        )
        for name, preset in presets.items()
    }
