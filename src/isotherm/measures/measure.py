"""What a measure is: everything a table, a figure, a page or a progress line needs to know of a number, in one place.

A `Measure` is made of the function that computes it (`as_measure`), in a module of this folder; `catalogue` finds it
by looking. To add one, write it in a module here (or in a package of your own, entry point ``isotherm.measures``) and
its oracle in the tests: studies, `inspect`, `compare`, the live table and training's progress show it from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, TypedDict, Unpack

Need = Literal["embeddings", "labels", "views", "features", "sentences", "pairs", "towers", "run"]
"""What is at hand: unit embeddings; a label each; a second view of each; the encoder's features, also of the training
part for a probe to learn from; the tasks of SentEval; embeddings of images and of their captions; the towers
that made those, for other images and texts; the folder of a run."""
Level = Literal["good", "look", "bad"]


@dataclass(frozen=True)
class Healthy:
    """Where a measure of one embedding should lie, and how it fares."""

    where: str
    level: Level | None = None


@dataclass(frozen=True)
class Measure:
    """A number about an embedding or a run."""

    name: str
    """In records and files."""
    title: str
    """In tables and figures."""
    meaning: str
    """A sentence."""
    of: Callable[[Any], Any]
    """The number, of a `measures.subject.Subject` that has what it needs; None where it cannot be said."""
    groups: tuple[str, ...]
    """Measures that are taken together; a study names groups."""
    needs: tuple[Need, ...] = ("embeddings",)
    unit: str = ""
    """%: kept as a part of 1, shown in percent."""
    sign: int = 1
    """−1: shown with its sign turned, as the papers print it."""
    better: Literal["higher", "lower"] | None = None
    monitor: bool = False
    """Taken on the way, too, and shown in training's progress."""
    healthy: Callable[[Any], Healthy] | None = None
    """Of a `measures.embedding.Around`: what `inspect` says of it; a measure without is not shown there."""
    curve: bool = False
    """Several numbers, for figures; tables leave it out."""

    @property
    def factor(self) -> float:
        """What its values are multiplied with where they are shown."""
        return 100.0 if self.unit == "%" else float(self.sign)

    @property
    def heading(self) -> str:
        """Its title, as its values are shown."""
        return f"−{self.title}" if self.sign < 0 else self.title

    @property
    def axis(self) -> str:
        """Its heading with the unit."""
        return f"{self.heading}, {self.unit}" if self.unit else self.heading

    def text(self, value: float) -> str:
        """A value for people."""
        digits = 1 if self.unit == "%" else 3
        return f"{self.factor * value:.{digits}f} {self.unit}".rstrip().replace("-", "−")


class Facts(TypedDict, total=False):
    """What `as_measure` may be told of a `Measure` besides its title and groups."""

    needs: tuple[Need, ...]
    unit: str
    sign: int
    better: Literal["higher", "lower"] | None
    monitor: bool
    healthy: Callable[[Any], Healthy] | None
    curve: bool


def as_measure(
    title: str, groups: tuple[str, ...], **facts: Unpack[Facts]
) -> Callable[[Callable[[Any], Any]], Measure]:
    """The measure that a function computes: its name is the function's, its meaning the function's docstring."""

    def decorate(of: Callable[[Any], Any]) -> Measure:
        return Measure(of.__name__, title, " ".join((of.__doc__ or "").split()), of, groups, **facts)

    return decorate


def take(measures: Iterable[Measure], subject: Any) -> dict[str, Any]:
    """Every one of these that the subject has what it needs for, by name; what is no usable value is left out."""
    values = {m.name: m.of(subject) for m in measures if set(m.needs) <= subject.has}
    return {name: value for name, value in values.items() if usable(value)}


def usable(value: Any) -> bool:
    """Whether something counts as a value of a measure: a finite number, or several with nothing else among them."""
    if isinstance(value, Mapping):
        return usable(list(value.values()))
    if isinstance(value, list | tuple):
        return bool(value) and all(map(usable, value))
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
