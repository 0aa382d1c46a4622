"""What a run comes to: the contents of its result.json."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy
import torch

import isotherm
from isotherm.train.config import Config

WARNING = "warning: "
"""How notes begin that say what is wrong."""


@dataclass(frozen=True)
class RunResult:
    """A finished run: what it was, what was measured of it, what it took."""

    key: str
    config: Mapping[str, Any]
    """As it was recorded, by whatever version."""
    measures: Mapping[str, float]
    seconds: float
    steps: int
    versions: Mapping[str, str]
    seed: int
    data: str = ""
    """What tells the items learnt from and judged on from others; early results lack it."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the data and of what came out; what is wrong begins with "warning:"."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with what came out."""
        return tuple(note for note in self.notes if note.startswith(WARNING))

    @classmethod
    def of(
        cls,
        config: Config,
        measures: Mapping[str, float],
        seconds: float,
        steps: int,
        data: str = "",
        notes: tuple[str, ...] = (),
    ) -> Self:
        """Of a run that has ended here and now."""
        versions = {
            "isotherm": isotherm.__version__,
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "python": platform.python_version(),
        }
        return cls(config.key, config.as_dict(), measures, round(seconds, 3), steps, versions, config.seed, data, notes)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Self:
        """From what result.json holds; what a version does not know is left out."""
        known = {f.name for f in dataclasses.fields(cls)}
        values = {name: value for name, value in entry.items() if name in known}
        return cls(**{**values, "notes": tuple(values.get("notes", ()))})

    def as_dict(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**values, "notes": list(self.notes)}
