"""What a study is: arms of runs, scales, claims, figures, the paper's own numbers. Definitions only, and light ones.

A study is a module with a docstring (question, command, cost, expectation) that ends in ``STUDY = Study(...)``. No
loops over runs, no files: `find` finds it, `points` makes runs of it, `execute` and `report` do the rest. Listing
studies must not take longer than reading them, so nothing here or in a study imports torch.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from isotherm.experiments.claims.verdict import Verdict

if TYPE_CHECKING:
    from isotherm.experiments.records import Records
    from isotherm.report.charts import Drawing
    from isotherm.train.config import Config

Settings = Mapping[str, Any]
"""Settings of a run by their dotted names."""
ArmName = str
"""An arm, all of it. Where a rule's field is declared so, `spoken_of` knows that it names one."""
USUAL = ("probes", "geometry", "separation")
"""The groups of measures that a study takes which does not say."""


@dataclass(frozen=True)
class Arm:
    """One kind of run: settings, and what is varied."""

    name: str
    settings: Settings
    over: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    once: bool = False
    """One seed is enough."""


@dataclass(frozen=True)
class Where:
    """An arm, at values of what is varied in it; without any: all of it."""

    arm: ArmName
    varied: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        fits(self)
        object.__setattr__(self, "varied", as_recorded(self.varied))

    @property
    def label(self) -> str:
        values = varied_label(self.varied)
        return f"{self.arm}{' ' if values else ''}{values}"

    def at(self, more: Settings) -> Where:
        """The same at further values."""
        return Where(self.arm, {**self.varied, **more})


def as_recorded(value: Any) -> Any:
    """A value as records have it, which know lists and no tuples."""
    if isinstance(value, Mapping):
        return {name: as_recorded(each) for name, each in value.items()}
    return [as_recorded(each) for each in value] if isinstance(value, list | tuple) else value


def fits(part: Any) -> None:
    """Refuse values that are not what a part of a study declares; an arm's name will do for all of the arm.

    A mistake is told with its line while the file is read, and not when hours of runs are to be judged.
    """
    for each in fields(part):
        kind = str(each.type)
        value = getattr(part, each.name)
        what = f"{each.name} of {type(part).__name__}"
        if kind.startswith("Sequence[") and kind[9:-1] in PLAIN:
            if isinstance(value, str | Where):
                value = (value,)
            if not isinstance(value, Sequence):
                raise TypeError(f"{what} must be a tuple of {PLAIN[kind[9:-1]]}s, got {value!r:.60}.")
            object.__setattr__(part, each.name, tuple(_fitting(what, one, kind[9:-1]) for one in value))
        elif kind in PLAIN:
            object.__setattr__(part, each.name, _fitting(what, value, kind))


PLAIN = {"Where": "Where(arm, {setting: value})", "ArmName": "name of an arm", "str": "word", "float": "number"}
PLAIN |= {"int": "whole number", "Settings": "dict of settings and values"}
"""Kinds of fields that are checked, in words."""


def _fitting(what: str, value: Any, kind: str) -> Any:
    if kind == "Where" and isinstance(value, str):
        return Where(value)
    wanted = {"Where": Where, "float": (int, float), "int": int, "Settings": Mapping}.get(kind, str)
    if not isinstance(value, wanted):  # type: ignore[arg-type]
        raise TypeError(f"{what} must be a {PLAIN[kind]}, got {value!r:.60}.")
    return value


def varied_label(varied: Settings) -> str:
    """Values of what is varied, as tables and legends name them."""
    return ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in varied.items())


def run_name(arm: str, varied: Settings, seed: int) -> str:
    """A run, as messages and evidence name it."""
    return ", ".join(part for part in (arm, varied_label(varied), f"seed {seed}") if part)


@dataclass(frozen=True)
class Scale:
    """How large the runs are, how many seeds, and which values of what is varied."""

    about: str
    settings: Settings
    seeds: int = 1
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Just these values of something varied."""
    once: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """These values with one seed."""
    data: Mapping[str, Settings] = field(default_factory=dict)
    """Settings for a named set of images."""
    adjust: Callable[[Settings], Settings] = lambda settings: {}
    """What follows from the settings of a run, such as a batch that keeps the number of views; varied values win."""
    measure: Sequence[str] = ()
    """Groups of measures that are taken at this scale besides the study's."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Measures that claims, comparisons, figures and the paper's tables read at this scale in place of those they name,
    such as the paper's own linear protocol in place of the exact probe. They are taken besides."""


@dataclass(frozen=True)
class Point:
    """One run of a study."""

    arm: str
    varied: Settings
    seed: int
    config: Config
    measure: Sequence[str] = USUAL
    """Groups of measures to take."""

    @property
    def name(self) -> str:
        return run_name(self.arm, self.varied, self.seed)


class Rule(Protocol):
    """How a claim is judged; `claims.rules` has the usual ones."""

    @property
    def measures(self) -> tuple[str, ...]:
        """What it needs to know of every run."""

    def judge(self, records: Records) -> Verdict: ...


class Plot(Protocol):
    """What a figure shows; `figures.plots` has the usual ones."""

    @property
    def measures(self) -> Sequence[str]:
        """What it needs to know of every run."""

    def draw(self, records: Records) -> Sequence[Drawing]: ...


Part = TypeVar("Part", bound=Rule | Plot)


@dataclass(frozen=True)
class OfOneMeasure:
    """What rules and plots of a single measure share."""

    measure: str

    def __post_init__(self) -> None:
        fits(self)

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure,)


@dataclass(frozen=True)
class Together(Generic[Part]):
    """What rules made of rules and plots made of plots share."""

    parts: Sequence[Part]

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(measure for part in self.parts for measure in part.measures))


@dataclass(frozen=True)
class Claim:
    """What a paper found, in our words, as something that can fail."""

    claim: str
    paper: str
    rule: Rule
    at: Sequence[str] = ()
    """The scales at which it can be judged; none: all."""
    figure: str = ""
    """The name of the figure that shows it, which pages put beside it."""

    def __post_init__(self) -> None:
        fits(self)
        if isinstance(self.rule, type) or not (hasattr(self.rule, "judge") and hasattr(self.rule, "measures")):
            raise TypeError(f"rule of Claim must be a rule of claims.rules, got {self.rule!r:.60}.")

    @property
    def measures(self) -> tuple[str, ...]:
        return self.rule.measures

    def judge(self, records: Records) -> Verdict:
        """By the rule, on records of which nothing was asked before; without a run that it needs it is undecided."""
        return self.rule.judge(records).lacking(records.unanswered)


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, drawn from our records."""

    name: str
    paper: str
    plot: Plot
    headline: bool = False
    """It carries the paper's message: the page begins with it."""

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(self.plot.measures)

    def draw(self, records: Records) -> Sequence[Drawing]:
        return self.plot.draw(records)


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, and which of our runs belong in its columns."""

    printed: Path
    """A CSV file: a line of heads, then a line for each row; a cell that the paper left empty is empty."""
    points: Sequence[Where]
    """Of each column of numbers."""
    measures: Sequence[tuple[str, str]]
    """Title and measure of each row of ours."""
    titled: bool = True
    """Whether the second column names the measure."""

    @cached_property
    def _lines(self) -> list[list[str]]:
        with self.printed.open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file))

    @property
    def heads(self) -> list[str]:
        return self._lines[0]

    @property
    def rows(self) -> list[list[str | float | None]]:
        """As printed: words, then a number for each of the points."""
        words = 2 if self.titled else 1
        return [
            [*line[:words], *(float(number) if number else None for number in line[words:])] for line in self._lines[1:]
        ]


@dataclass(frozen=True)
class Paper:
    """What a study reproduces."""

    title: str = ""
    address: str = ""
    differs: str = ""
    """What is different here."""
    tables: Mapping[str, PaperTable] = field(default_factory=dict)
    """Its tables by their names."""


@dataclass(frozen=True)
class Comparison:
    """A measure by which arms are compared with one of them, seed by seed.

    An arm's run is paired with the reference's run of the same seed whose varied settings are also its own.
    """

    against: ArmName
    measure: str
    arms: Sequence[ArmName] = ()
    """Which; none: all others."""


@dataclass(frozen=True)
class Study:
    """A question as data. Its name and its text are those of its module, filled in by `find`."""

    base: Settings
    """Settings of every run."""
    arms: Sequence[Arm]
    scales: Mapping[str, Scale]
    claims: Sequence[Claim] = ()
    figures: Sequence[Figure] = ()
    paper: Paper = Paper()
    measure: Sequence[str] = USUAL
    compare: Sequence[Comparison] = ()
    name: str = ""
    doc: str = ""
    source: str = ""
    """The file or module outside this package that it came from."""

    def __post_init__(self) -> None:
        kinds = {"arms": Arm, "claims": Claim, "figures": Figure, "compare": Comparison}
        for name, kind in kinds.items():
            for part in getattr(self, name):
                if not isinstance(part, kind):
                    raise TypeError(f"{name} of a study must be {kind.__name__} values, got {type(part).__name__}")
        for name, scale in self.scales.items():
            if not isinstance(scale, Scale):
                raise TypeError(f"scale '{name}' of a study must be a Scale, got {type(scale).__name__}")

    @property
    def question(self) -> str:
        return (self.doc.strip() or self.name).partition("\n")[0]
