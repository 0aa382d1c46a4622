"""The charts of a study, each with the name of its file, and which of them show a claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from isotherm.experiments.records import Records
from isotherm.experiments.study import Claim, Figure
from isotherm.report.charts import Dots, Drawing, Lines

LONGEST = 70
"""Letters of a file's name."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One chart of a figure."""

    figure: Figure
    chart: Drawing
    name: str
    """Of its file, without an ending."""


def draw_figures(figures: Iterable[Figure], records: Records, arms: Sequence[str] = ()) -> list[Drawn]:
    """Every chart of these figures that the records have something for; an arm has one colour on all of them."""
    used: set[str] = set()
    drawn = []
    for figure in figures:
        for chart in figure.draw(records):
            name = file_name(f"{stem(figure)} {chart.title}")
            while name in used:
                name += "-more"
            used.add(name)
            drawn.append(Drawn(figure, _in_its_colours(chart, arms), name))
    return drawn


def stem(figure: Figure) -> str:
    """What the names of its files begin with."""
    return file_name(figure.paper.split(";")[0])


def _in_its_colours(chart: Drawing, arms: Sequence[str]) -> Drawing:
    """The chart with every arm that it names in the colour of its place among `arms`."""
    if isinstance(chart, Lines) and not chart.ramp and {line.name for line in chart.series} <= set(arms):
        return replace(chart, series=[replace(line, colour=arms.index(line.name)) for line in chart.series])
    if isinstance(chart, Dots) and set(chart.categories) <= set(arms):
        return replace(chart, colours=[arms.index(name) for name in chart.categories])
    return chart


def charts_of(claim: Claim, drawn: Sequence[Drawn]) -> list[Drawn]:
    """The charts that show a claim: those of its figure, and of them those of its measures if there are any."""
    of_figure = [each for each in drawn if claim.figure and each.figure.name == claim.figure]
    of_measure = [each for each in of_figure if getattr(each.chart, "measure", "") in claim.measures]
    return of_measure or of_figure


def file_name(text: str) -> str:
    """A text as small letters, digits and dashes."""
    plain = text.lower().replace("⁺", "-plus").replace("⁻", "-minus")
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:LONGEST].strip("-") or "unnamed"
