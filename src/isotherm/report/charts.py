"""What a chart shows: small values that a page draws interactively and matplotlib draws as an image.

Numbers are lists or numpy arrays; whatever is not finite is a gap. Nothing here draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from isotherm.screen import visible

Values = Sequence[float] | NDArray[Any]
Series = TypeVar("Series")


@dataclass(frozen=True, eq=False)
class Line:
    """One curve, perhaps with a band around it (`low` to `high`: a spread over seeds, say)."""

    name: str
    x: Values
    y: Values
    low: Values | None = None
    high: Values | None = None
    labels: Sequence[str] = ()
    """What hovering says about each point, besides its numbers."""
    dashed: bool = False
    """For what is not measured: a limit, a paper's numbers."""
    colour: int | None = None
    """Which colour of the palette, where charts should agree on it; else its place among the series."""

    def __post_init__(self) -> None:
        _alike(f"line '{self.name}'", x=self.x, y=self.y, low=self.low, high=self.high, labels=self.labels or None)


@dataclass(frozen=True, eq=False)
class Points:
    """One cloud of points; hovering shows a point's label."""

    name: str
    x: Values
    y: Values
    labels: Sequence[str] = ()
    pale: bool = False
    """For the rest, which stands behind the others."""

    def __post_init__(self) -> None:
        _alike(f"points '{self.name}'", x=self.x, y=self.y, labels=self.labels or None)


@dataclass(frozen=True, eq=False)
class Heights:
    """One value a bin or category, perhaps with errors (half the length of its interval)."""

    name: str
    values: Values
    errors: Values | None = None

    def __post_init__(self) -> None:
        _alike(f"heights '{self.name}'", values=self.values, errors=self.errors)


@dataclass(frozen=True)
class Span:
    """A shaded stretch of the horizontal axis, with its meaning."""

    start: float
    end: float
    label: str


@dataclass(frozen=True, eq=False)
class Axes(Generic[Series]):
    """What charts between two axes share."""

    title: str
    series: Sequence[Series]
    x: str = ""
    y: str = ""


@dataclass(frozen=True, eq=False)
class Lines(Axes[Line]):
    """Curves over a common axis."""

    log_x: bool = False
    log_y: bool = False
    spans: Sequence[Span] = ()
    note: str = ""
    measure: str = ""
    """The name of what it shows, where that is one measure: for whoever looks for the chart of something."""
    ramp: bool = False
    """The series are in order, as of a temperature: colours run from dark to light; dashed ones are gray."""
    kind = "lines"


@dataclass(frozen=True, eq=False)
class Scatter(Axes[Points]):
    """Clouds of points, thousands if need be. Without `axes` for maps whose axes mean nothing."""

    axes: bool = True
    note: str = ""
    kind = "scatter"


@dataclass(frozen=True, eq=False)
class Histogram:
    """Distributions over common bins, laid over each other."""

    title: str
    edges: Values
    series: Sequence[Heights]
    x: str = ""
    y: str = ""
    note: str = ""
    kind = "histogram"

    def __post_init__(self) -> None:
        _one_each(f"histogram '{self.title}'", len(self.edges) - 1, "bins", self.series)


@dataclass(frozen=True, eq=False)
class Dots:
    """One dot a category and series on its interval, in lines, so that names stay readable and small leads visible."""

    title: str
    categories: Sequence[str]
    series: Sequence[Heights]
    x: str = ""
    note: str = ""
    measure: str = ""
    colours: Sequence[int] = ()
    """Of a single series: the colour of every category, where charts should agree on it."""
    most: float | None = None
    """Of shares: the largest there can be. Intervals end there, and at 0."""
    kind = "dots"

    def __post_init__(self) -> None:
        _one_each(f"dots '{self.title}'", len(self.categories), "categories", self.series)


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A table of numbers as colours: `values[row][column]`."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Values] | NDArray[Any]
    x: str = ""
    y: str = ""
    note: str = ""
    measure: str = ""
    kind = "heat"

    def __post_init__(self) -> None:
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise ValueError(f"heat map '{self.title}' needs {len(self.rows)} rows of {len(self.columns)} values each.")


Chart = Lines | Scatter | Histogram | Dots | HeatMap


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture that is there already, as PNG; `about` is for those who cannot see it."""

    title: str
    png: bytes
    about: str
    note: str = ""


Drawing = Chart | Picture


DIGITS = 6
"""Significant digits of the numbers in a page: more than a screen shows."""


def as_json(chart: Chart) -> str:
    """The chart as JSON that is safe inside a page: nothing in it can end a <script> element."""
    return embeddable({"kind": chart.kind, **_plain(chart)})


def embeddable(value: object) -> str:
    """JSON without the characters that mean something to an HTML parser."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be written


def _plain(value: Any) -> Any:
    """Dataclasses, arrays and numbers as what JSON knows; what is not finite is null, what was left out stays out."""
    if hasattr(value, "__dataclass_fields__"):
        parts = {f.name: getattr(value, f.name) for f in fields(value)}
        return {
            k: _plain(v) for k, v in parts.items() if not (v is None or v is False or (isinstance(v, str) and not v))
        }
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence):
        return [_plain(v) for v in value]
    number = float(value)
    if not math.isfinite(number):
        return None
    short = float(f"{number:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _alike(what: str, **columns: Sequence[Any] | NDArray[Any] | None) -> None:
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{n} {name}" for name, n in lengths.items())
        raise ValueError(f"{what} needs as many of each, got {said}.")


def _one_each(what: str, count: int, places: str, series: Sequence[Heights]) -> None:
    for heights in series:
        if len(heights.values) != count:
            raise ValueError(f"{what} has {count} {places}, '{heights.name}' has {len(heights.values)} values.")
