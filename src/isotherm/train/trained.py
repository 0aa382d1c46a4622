"""Training from Python: settings as they are typed in a notebook, and what comes back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from isotherm import files
from isotherm.checks import parameters
from isotherm.encoders import Encoder
from isotherm.encoders.text import TextEncoder
from isotherm.losses.loss import Loss
from isotherm.measures.catalogue import measure
from isotherm.report import Line, Lines, Page
from isotherm.train import loop, names, runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.result import RunResult

PLACE = {f.name for f in dataclasses.fields(Runtime)} - {"out"}


@dataclass(frozen=True)
class Trained:
    """A run that has ended: its folder, its result, its encoder."""

    out: Path
    result: RunResult

    @property
    def measures(self) -> Mapping[str, float]:
        """What was measured of it, by name."""
        return self.result.measures

    @cached_property
    def encoder(self) -> Encoder | TextEncoder:
        """The network whose features are probed, in evaluation mode."""
        return runs.load_encoder(self.out)

    @cached_property
    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """What was logged on the way, by name: (step, value) each."""
        lines = [json.loads(line) for line in files.lines(self.out / names.METRICS)]
        curves: dict[str, list[tuple[int, float]]] = {}
        for line in lines:
            for name, value in line.items():
                if name not in ("step", "epoch") and isinstance(value, int | float) and "step" in line:
                    curves.setdefault(name, []).append((line["step"], value))
        return curves

    def page(self) -> Page:
        """Its measures, and its curves as charts."""
        config = self.result.config
        parts = [config["data"], *(config[part]["name"] for part in ("method", "loss", "encoder") if config[part])]
        page = Page(
            f"Run {self.out}", f"{', '.join(parts)}: {self.result.steps:,} steps in {self.result.seconds:.1f} s."
        )
        page.facts([(fact.heading, fact.text(value)) for fact, value in self._measured()])
        for note in self.result.notes:
            page.text(note)
        curves = {name: points for name, points in self.curves.items() if len(points) > 1}
        if curves:
            page.figures(*(_chart(name, points) for name, points in curves.items()))
        return page

    def _measured(self) -> list[tuple[Any, float]]:
        return [(measure(name), value) for name, value in self.measures.items()]

    def __repr__(self) -> str:
        said = ", ".join(f"{fact.heading} {fact.text(value)}" for fact, value in self._measured())
        warnings = "".join(f"\n{warning}" for warning in self.result.warnings)
        return f"{self.out}: {said}; {self.result.steps:,} steps, {self.result.seconds:.1f} s{warnings}"

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()


def _chart(name: str, points: Sequence[tuple[int, float]]) -> Lines:
    return Lines(name.replace("_", " "), [Line(name, [x for x, _ in points], [y for _, y in points])], x="step")


def train(out: str | Path, preset: str | None, settings: Mapping[str, Any]) -> Trained:
    """Run these settings to their end in `out`; `isotherm.train` says what they may be."""
    place = {name: value for name, value in settings.items() if name in PLACE}
    own = {name: _plain(name, value) for name, value in settings.items() if name not in PLACE}
    config = configure(own, preset)
    runtime = Runtime(out=Path(out), **{"resume": True, **place})
    return Trained(Path(out), loop.train(config, runtime))


def _plain(name: str, value: Any) -> Any:
    """A setting as a file would have it; a loss that is made already becomes its name and settings."""
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, Loss):
        return value
    settings = {setting: getattr(value, setting) for setting in parameters(type(value)) if hasattr(value, setting)}
    strange = [s for s, v in settings.items() if not isinstance(v, bool | int | float | str | None)]
    if type(value).__module__.partition(".")[0] != "isotherm" or strange:
        what = f"its {strange[0]} is no plain value" if strange else "it is from outside the package"
        raise ValueError(
            f"a run records its {name} by name and plain settings, and {type(value).__name__} has none: {what}. Give "
            f'{{"name": …, setting: …}}, or "./file.py:Class" for one of your own.'
        )
    if settings.pop("reduction", "mean") != "mean":
        raise ValueError(f"training takes the mean over the queries; leave reduction={value.reduction!r} out.")
    settings.pop("generator", None)
    return {"name": type(value).__name__, **settings}
