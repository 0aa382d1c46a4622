"""What a study is: arms of runs, scales, claims, figures, the paper's own numbers. Studies are found by looking.

A study is a module of this folder with a docstring (question, command, cost, expectation) and the names `base`, `arms`,
`scales`, `figures`, `claims` and `paper`; if it wants, `measure` (groups of `measuring`) and `compare` (with whom). No
loops over runs, no files: `runner` and `telling` do that.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from isotherm.checks import did_you_mean
from isotherm.data import sets
from isotherm.data.sentences import is_text
from isotherm.measures.catalogue import USUAL, in_groups
from isotherm.train.commandline import configure
from isotherm.train.config import Config
from isotherm.train.layers import merge, nested

if TYPE_CHECKING:
    from isotherm.experiments.records import Records
    from isotherm.report.charts import Drawing


@dataclass(frozen=True)
class Arm:
    """One kind of run: settings, and what is varied."""

    name: str
    settings: Mapping[str, Any]
    over: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    once: bool = False
    """One seed is enough."""


@dataclass(frozen=True)
class Scale:
    """How large the runs are, how many seeds, and which values of what is varied."""

    about: str
    settings: Mapping[str, Any]
    seeds: int = 1
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Just these values of something varied."""
    once: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """These values with one seed."""
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings for a named set of images."""
    adjust: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda settings: {}
    """What follows from the settings of a run, such as a batch that keeps the number of views; varied values win."""


@dataclass(frozen=True)
class Point:
    """One run of a study."""

    arm: str
    varied: Mapping[str, Any]
    seed: int
    config: Config
    measure: Sequence[str] = USUAL
    """Groups of measures to take."""

    @property
    def name(self) -> str:
        shown = ", ".join(f"{k.rpartition('.')[2]} {v}" for k, v in self.varied.items())
        return f"{self.arm}{', ' if shown else ''}{shown}, seed {self.seed}"


@dataclass(frozen=True)
class Verdict:
    """Whether a claim held, and the numbers that say so."""

    held: bool
    evidence: Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """What a paper found, in our words, as something that can fail."""

    claim: str
    paper: str
    measures: tuple[str, ...]
    """What it needs to know of every run."""
    judge: Callable[[Records], Verdict]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, drawn from our records."""

    name: str
    paper: str
    measures: tuple[str, ...]
    draw: Callable[[Records], Sequence[Drawing]]


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, and which of our runs belong in its columns."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    points: Sequence[tuple[str, Mapping[str, Any]]]
    """Arm and varied settings of each column of numbers."""
    measures: Sequence[tuple[str, str]]
    """Title and measure of each row of ours."""
    titled: bool = True
    """Whether the second column names the measure."""


@dataclass(frozen=True)
class Comparison:
    """A measure by which arms are compared with one of them, seed by seed.

    An arm's run is paired with the reference's run of the same seed whose varied settings are also its own.
    """

    against: str
    measure: str
    arms: Sequence[str] = ()
    """Which; none: all others."""


@dataclass(frozen=True)
class Study:
    """A study as the runner sees it."""

    name: str
    doc: str
    base: Mapping[str, Any]
    arms: Sequence[Arm]
    scales: Mapping[str, Scale]
    claims: Sequence[Claim]
    figures: Sequence[Figure]
    paper: Mapping[str, Any]
    """title, address, differs (what is different here), tables: name → PaperTable"""
    measure: Sequence[str] = USUAL
    compare: Sequence[Comparison] = ()

    @property
    def question(self) -> str:
        return self.doc.strip().splitlines()[0]

    def points(self, scale: str, data: str | None = None, seeds: int | None = None) -> list[Point]:
        """Every run of a scale; a value that is impossible is told before anything runs."""
        if scale not in self.scales:
            raise ValueError(f"study {self.name} has no scale '{scale}'; it has: {', '.join(self.scales)}.")
        chosen = self.scales[scale]
        named = data or chosen.settings.get("data") or self.base.get("data", "digits")
        if ":" not in str(named) and not is_text(str(named)):
            sets.named(str(named))
        made = []
        for arm in self.arms:
            over = {k: [v for v in values if v in chosen.only.get(k, values)] for k, values in arm.over.items()}
            for values in itertools.product(*over.values()):
                varied = dict(zip(over, values, strict=True))
                once = arm.once or any(v in chosen.once.get(k, ()) for k, v in varied.items())
                for seed in range(1 if once else seeds or chosen.seeds):
                    made.append(self._point(arm, varied, seed, chosen, str(named)))
        return made

    def _point(self, arm: Arm, varied: Mapping[str, Any], seed: int, scale: Scale, data: str) -> Point:
        settings: dict[str, Any] = {}
        layers: list[Mapping[str, Any]] = [self.base, scale.settings, scale.data.get(data, {}), {"data": data}]
        for layer in (*layers, arm.settings, varied):
            settings = merge(settings, nested(layer))
        for layer in (scale.adjust(settings), varied, {"seed": seed}):
            settings = merge(settings, nested(layer))
        try:
            return Point(arm.name, varied, seed, configure(settings), tuple(self.measure))
        except (ValueError, TypeError) as error:
            shown = ", ".join(f"{k} = {v}" for k, v in varied.items())
            raise ValueError(f"study {self.name}, {arm.name} {shown}: {error}") from error


def names() -> list[str]:
    """Every study, by looking."""
    here = importlib.import_module("isotherm.studies").__path__
    found = [m.name for m in pkgutil.iter_modules(here)]
    return sorted(name.replace("_", "-") for name in found if _is_study(name))


def _is_study(name: str) -> bool:
    try:
        return hasattr(_module(name), "arms")
    except ValueError:  # somebody's file with a mistake: it is told when it is asked for
        return True


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"isotherm.studies.{name}")
    except Exception as error:
        raise ValueError(f"study {name} does not load: {type(error).__name__}: {error}") from error


def load(name: str) -> Study:
    """A study by its name, checked: its claims and figures may only speak of what is measured."""
    if name not in names():
        raise ValueError(f"no study '{name}'{did_you_mean(name, names())}")
    return made(name, _module(name.replace("-", "_")))


def made(name: str, module: Any) -> Study:
    study = Study(
        name,
        module.__doc__ or "",
        module.base,
        module.arms,
        module.scales,
        module.claims,
        module.figures,
        module.paper,
        getattr(module, "measure", USUAL),
        getattr(module, "compare", ()),
    )
    try:
        taken = [m.name for m in in_groups(study.measure)]
    except ValueError as error:
        raise ValueError(f"study {name}: {error}") from error
    needs = [(c.claim, c.measures) for c in study.claims] + [(f.name, f.measures) for f in study.figures]
    needs += [(f"compared with {c.against}", (c.measure,)) for c in study.compare]
    for title, measures in needs:
        for measure in measures:
            if measure not in taken:
                hint = did_you_mean(measure, taken)
                raise ValueError(f"study {name}: '{title}' names the measure '{measure}', which nobody takes{hint}")
    return study
