"""Charts as PNG files, drawn by matplotlib: the same values, the same colours as on the page."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from isotherm.files import write_bytes
from isotherm.report.charts import Chart, Dots, Drawing, HeatMap, Heights, Histogram, Lines, Picture, Scatter
from isotherm.report.page import number

COLOURS = ("#0072b2", "#d55e00", "#00875f", "#c2408f", "#8a6a00", "#7a1230", "#5b3fc0", "#7b8087")
RAMP = ("#1b0c7a", "#7e03a8", "#cc4778", "#d9701f")
PALE = "#c9ccc8"
DASHES = ("-", ":", "-.", (0, (8, 2)))
MARKS = ("o", "x", "^", "+")
INK, SOFT, RULE = "#1d2125", "#565d66", "#dcdcd6"


def draw(chart: Drawing, path: Path | str, width: float = 6.4, dpi: int = 160) -> Path:
    """Write the chart as a PNG, `width` inches wide."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(chart, Picture):
        write_bytes(path, chart.png)
        return path
    # texts are texts: a dollar starts no formula, and a letter that the font lacks is no reason to fail
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing")
        drawn = io.BytesIO()
        _drawn(chart, width).savefig(drawn, format="png", dpi=dpi)
    write_bytes(path, drawn.getvalue())
    return path


def _drawn(chart: Chart, width: float) -> Figure:
    figure = Figure(figsize=(width, _height(chart, width)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(chart.title, loc="left", fontsize=11, fontweight="bold", color=INK)
    axes.set_xlabel(chart.x, color=INK)
    axes.set_ylabel("" if isinstance(chart, Dots) else chart.y, color=INK)
    axes.tick_params(which="both", colors=SOFT, labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(RULE)
    kinds: dict[type, Callable[[Any, Any], None]] = {
        Lines: _lines,
        Scatter: _scatter,
        Histogram: _histogram,
        Dots: _dots,
        HeatMap: _heat,
    }
    kinds[type(chart)](axes, chart)
    if not isinstance(chart, HeatMap) and len(chart.series) > 1:
        handles = axes.get_legend_handles_labels()
        if len(chart.series) > 6:
            figure.legend(*handles, loc="outside right upper", frameon=False, fontsize=8)
        else:
            axes.legend(*handles, frameon=False, fontsize=8)
    return figure


def _height(chart: Chart, width: float) -> float:
    if isinstance(chart, Dots):
        return 0.9 + len(chart.categories) * (0.12 + 0.2 * max(1, len(chart.series)))
    if isinstance(chart, HeatMap):
        return 1.1 + 0.32 * len(chart.rows)
    return width * (0.75 if isinstance(chart, Scatter) else 0.6)


def _numbers(values: Any) -> NDArray[np.float64]:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _lines(axes: Any, chart: Lines) -> None:
    ordered = [i for i, s in enumerate(chart.series) if not s.dashed]
    for i, s in enumerate(chart.series):
        place, x = i if s.colour is None else s.colour, _numbers(s.x)
        colour = COLOURS[place % len(COLOURS)]
        if chart.ramp:
            colour = SOFT if s.dashed else _on_ramp(ordered.index(i) / max(1, len(ordered) - 1))
        if s.low is not None and s.high is not None:
            _spread(axes, x, _numbers(s.low), _numbers(s.high), colour)
        style = "--" if s.dashed else DASHES[0 if chart.ramp else place // len(COLOURS) % len(DASHES)]
        mark = "o" if len(x) <= 40 and not s.dashed else None
        axes.plot(x, _numbers(s.y), label=s.name, color=colour, linestyle=style, marker=mark, markersize=4)
    for span in chart.spans:
        axes.axvspan(span.start, span.end, color="#0a6b4c", alpha=0.1, linewidth=0, label=span.label)
    if chart.log_x:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, axes.get_xlim())
    if chart.log_y:
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis, axes.get_ylim())
    axes.grid(color=RULE, linewidth=0.7)
    axes.set_axisbelow(True)


def _on_ramp(along: float) -> str:
    """The colour this far along the ramp, from 0 to 1."""
    stops = np.array([to_rgb(colour) for colour in RAMP])
    red, green, blue = (float(np.interp(along, np.linspace(0, 1, len(stops)), stops[:, c])) for c in range(3))
    return str(to_hex((red, green, blue)))


def _spread(axes: Any, x: Any, low: Any, high: Any, colour: str) -> None:
    """A band over stretches that have a spread; a whisker at a point whose neighbours have none."""
    there = np.isfinite(x) & (high > low)
    beside = np.concatenate([[False], there, [False]])
    alone = there & ~beside[:-2] & ~beside[2:]
    axes.fill_between(x, low, high, where=there, color=colour, alpha=0.16, linewidth=0)
    middle, half = (low + high)[alone] / 2, (high - low)[alone] / 2
    axes.errorbar(x[alone], middle, half, fmt="none", ecolor=colour, alpha=0.6, elinewidth=1.2, capsize=3)


def _plain_ticks(axis: Any, limits: tuple[float, float]) -> None:
    """0.1, 0.2, 0.5 instead of powers of ten."""
    short = limits[1] / limits[0] < 300
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _scatter(axes: Any, chart: Scatter) -> None:
    many = sum(len(s.x) for s in chart.series)
    for i, s in enumerate(chart.series):
        axes.scatter(
            _numbers(s.x),
            _numbers(s.y),
            label=s.name,
            color=PALE if s.pale else COLOURS[i % len(COLOURS)],
            zorder=1 if s.pale else 2,
            s=5 if many > 3000 else 9 if many > 600 else 18,
            marker=MARKS[i // len(COLOURS) % len(MARKS)],
            alpha=0.8,
            linewidths=0.8 if i >= len(COLOURS) else 0,
        )
    if not chart.axes:
        axes.set_axis_off()


def _histogram(axes: Any, chart: Histogram) -> None:
    for i, s in enumerate(chart.series):
        colour, values = COLOURS[i % len(COLOURS)], np.nan_to_num(_numbers(s.values))
        axes.stairs(values, _numbers(chart.edges), color=colour, label=s.name, linewidth=1.4)
        axes.stairs(values, _numbers(chart.edges), color=colour, alpha=0.14, fill=True)
    axes.set_ylim(bottom=0)


def _dots(axes: Any, chart: Dots) -> None:
    thick = 0.8 / max(1, len(chart.series))
    for i, s in enumerate(chart.series):
        own = len(chart.series) == 1 and chart.colours
        for k, (value, error) in enumerate(zip(_numbers(s.values), _errors(s), strict=True)):
            colour = COLOURS[(chart.colours[k] if own else i) % len(COLOURS)]
            label = s.name if k == 0 else None
            at = k - 0.4 + thick * (i + 0.5)
            ends = (
                (error, error)
                if chart.most is None
                else (min(error, max(value, 0.0)), min(error, max(chart.most - value, 0.0)))
            )
            axes.errorbar(
                value, at, xerr=[[ends[0]], [ends[1]]], fmt="o", color=colour, markersize=6, capsize=3, label=label
            )
    axes.set_yticks(range(len(chart.categories)), chart.categories)
    axes.set_ylim(len(chart.categories) - 0.5, -0.5)
    axes.grid(axis="y", color=RULE, linewidth=0.7)


def _errors(heights: Heights) -> NDArray[np.float64]:
    if heights.errors is None:
        return np.zeros(len(heights.values))
    return np.nan_to_num(_numbers(heights.errors))


def _heat(axes: Any, chart: HeatMap) -> None:
    values = np.array([_numbers(row) for row in chart.values])
    axes.imshow(values, cmap="Blues", aspect="auto")
    axes.set_xticks(range(len(chart.columns)), chart.columns)
    axes.set_yticks(range(len(chart.rows)), chart.rows)
    if values.size > 200 or not np.isfinite(values).any():
        return
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (r, c), v in np.ndenumerate(values):
        if np.isfinite(v):
            axes.text(c, r, number(v, 3), ha="center", va="center", fontsize=8, color="white" if v > middle else INK)
