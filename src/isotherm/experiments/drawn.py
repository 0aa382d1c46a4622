"""The charts of a study, each with the name of its file, and which of them show a claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isotherm.experiments.records import Records
from isotherm.experiments.study import Claim, Figure
from isotherm.report.charts import Drawing

LONGEST = 70
"""Letters of a file's name."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One chart of a figure."""

    figure: Figure
    chart: Drawing
    name: str
    """Of its file, without an ending."""


def draw_figures(figures: Iterable[Figure], records: Records) -> list[Drawn]:
    """Every chart of these figures that the records have something for."""
    used: set[str] = set()
    drawn = []
    for figure in figures:
        for chart in figure.draw(records):
            name = file_name(f"{figure.paper.split(';')[0]} {chart.title}")
            while name in used:
                name += "-more"
            used.add(name)
            drawn.append(Drawn(figure, chart, name))
    return drawn


def charts_of(claim: Claim, drawn: Sequence[Drawn]) -> list[Drawn]:
    """The charts that show a claim: those of its figure, and of them those of its measures if there are any."""
    of_figure = [each for each in drawn if claim.figure and each.figure.name == claim.figure]
    of_measure = [each for each in of_figure if getattr(each.chart, "measure", "") in claim.measures]
    return of_measure or of_figure


def file_name(text: str) -> str:
    """A text as small letters, digits and dashes."""
    plain = text.lower().replace("⁺", "-plus").replace("⁻", "-minus")
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:LONGEST].strip("-") or "unnamed"
