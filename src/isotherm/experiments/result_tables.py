"""The tables of a study's report: what was measured at every point, beside the paper's numbers, against a reference.

Numbers have as many digits as their spread over seeds leaves certain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from isotherm.experiments.comparing import differences
from isotherm.experiments.records import Records
from isotherm.experiments.study import Comparison, PaperTable, Study, Where, varied_label
from isotherm.measures.catalogue import in_groups, measure
from isotherm.measures.measure import Measure
from isotherm.report import Cell
from isotherm.report.page import fixed, places, spread

WIDEST = 9
"""Measures side by side in a table that is read without scrolling."""


def results(study: Study, records: Records) -> tuple[list[str], list[list[Any]]]:
    """A row for each point: how many of its seeds are there, and mean ± deviation of every measure over its own."""
    taken = [m for m in in_groups(study.measure) if not m.curve and any(r.has(m.name) for r in records)]
    heads = ["arm", "varied", "seeds", *(m.heading for m in taken)]
    rows, deviations = [], {m.name: _deviations(records, m) for m in taken}
    for arm, varied in dict.fromkeys((r.arm, json.dumps(dict(r.varied))) for r in records.planned):
        where = Where(arm, json.loads(varied))
        here = records.at(where)
        finished, planned = ({r.seed for r in runs} for runs in (here, here.planned))
        seeds = len(planned) if finished == planned else f"{len(finished)} of {len(planned)}"
        cells: list[Any] = [arm, varied_label(where.varied), seeds]
        for m in taken:
            mean, deviation, n = records.mean(where, m.name)
            shown, digits = m.factor * mean, places(deviations[m.name])
            notes = [f"± {_spread(abs(m.factor) * deviation, shown, digits)}"] * (n > 1)
            notes += [f"of {n} of {len(planned)}"] * (n < len(planned))
            cells.append(Cell(round(shown, 4), note=", ".join(notes), places=digits) if n else None)
        rows.append(cells)
    return heads, rows


def _deviations(records: Records, fact: Measure) -> float:
    """The median standard deviation over seeds: what a column of this measure is rounded by, so that it stays even."""
    points = dict.fromkeys((r.arm, json.dumps(dict(r.varied))) for r in records)
    found = [records.mean(Where(arm, json.loads(varied)), fact.name) for arm, varied in points]
    known = [abs(fact.factor) * deviation for _, deviation, n in found if n > 1]
    return median(known) if known else 0.0


def _spread(deviation: float, around: float, digits: int | None) -> str:
    """A deviation with the digits of its column, or its own where those would show nothing of it."""
    text = spread(deviation, around) if digits is None else fixed(deviation, digits)
    return text if text.strip("0.") else spread(deviation, around)


def narrowed(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[tuple[list[str], list[list[Any]], str]]:
    """The table in parts that a screen is wide enough for, each with its caption.

    What all rows say alike is said once: the number of seeds in the caption, what is varied on top.
    """
    seeds = {str(row[2]) for row in rows}
    settings = {name for row in rows for name in re.findall(r"(\S+) [^ ,]+(?:, |$)", row[1])}
    plain = all(", " not in row[1] for row in rows)
    head, rest = list(heads), [list(row) for row in rows]
    if len(settings) == 1 and plain:
        (name,) = settings
        head[1] = name
        rest = [[row[0], row[1].removeprefix(f"{name} "), *row[2:]] for row in rest]
    names, caption = 3, ""
    if len(seeds) == 1 and not any("of" in word for word in seeds):
        names, (number,) = 2, seeds
        caption = "One seed each" if number == "1" else f"{number} seeds each"
        head, rest = [*head[:2], *head[3:]], [[*row[:2], *row[3:]] for row in rest]
    parts = max(1, -(-(len(head) - names) // WIDEST))
    columns = [list(part) for part in np.array_split(np.arange(names, len(head)), parts)]
    return [
        ([head[i] for i in (*range(names), *part)], [[row[i] for i in (*range(names), *part)] for row in rest], caption)
        for part in columns
    ]


def ours(records: Records, table: PaperTable, data: str) -> list[list[Any]]:
    """Our numbers in the columns of a paper's table; empty where a point was not run."""
    rows = []
    for i, (title, name) in enumerate(table.measures):
        scale, digits = measure(name).factor, places(_deviations(records, measure(name)))
        cells: list[Any] = [f"ours, {data}" if i == 0 else "", title] if table.titled else [f"ours, {data}"]
        means = [records.mean(where, name) for where in table.points]
        most = max((n for *_, n in means), default=0)
        for mean, deviation, n in means:
            shown = scale * mean
            note = f"± {_spread(abs(scale) * deviation, shown, digits)}" if n > 1 else ""
            if n < most:
                note = f"{note} ({n} of {most} seeds)".strip()
            cells.append(Cell(round(shown, 4), note=note, places=digits) if n else None)
        rows.append(cells)
    return rows


def compared(records: Records, comparison: Comparison) -> tuple[list[str], list[list[Any]]]:
    """Paired differences: how much above the reference, the interval, and what it says if it excludes zero."""
    about = measure(comparison.measure)
    rows: list[list[Any]] = []
    for d in differences(records, comparison):
        mean, low, high = d.shown(about)
        span = f"{low:+.2f} to {high:+.2f}" if d.seeds > 1 else "one seed"
        rows.append([d.arm, d.varied, d.seeds, f"{mean:+.2f}", span, d.told(about)])
    return ["arm", "varied", "seeds", "difference", "interval", ""], rows


def no_partners(records: Records, comparison: Comparison) -> str:
    """Why nothing can be compared."""
    theirs = dict.fromkeys(k for r in records.planned if r.arm == comparison.against for k in r.varied)
    settings = ", ".join(theirs) or "nothing"
    return (
        f"no run has a partner. A run is compared with the run of {comparison.against} of the same seed that has the "
        f"same value of what is varied there ({settings}), where both have the measure."
    )
