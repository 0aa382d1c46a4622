"""A study's tables as CSV: its claims, its points, arms compared, and the paper's tables, ours first, then as printed.

Numbers are as pages show them (accuracies in percent, effects on them in points), a column ``… sd`` beside a mean.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from isotherm.experiments.comparing import differences
from isotherm.experiments.judging import Judged
from isotherm.experiments.records import Records
from isotherm.experiments.study import Comparison, PaperTable, Study, Where, varied_label
from isotherm.measures.catalogue import in_groups, measure
from isotherm.screen import visible

DIGITS, OF_SPREAD = 5, 2
"""Significant digits of a mean, and of a standard deviation."""
FORMULA = re.compile(r"[=+@-](?!(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$)", re.IGNORECASE)
"""How a text begins that a spreadsheet would compute; a number with its sign is one."""
CLAIM = ["claim", "paper", "verdict", "what", "effect", "low", "high", "counts", "least", "unit", "seeds", "remedy"]


def claims(judged: Sequence[Judged]) -> str:
    """A line for each claim: the part of it that decided."""
    rows: list[list[Any]] = []
    for each in judged:
        verdict, part = each.verdict, each.verdict.part
        said = [each.claim.claim, each.claim.paper, verdict.outcome]
        if part is None:
            rows.append([*said, *[None] * 7, 0, verdict.remedy])
            continue
        in_points = bool(part.measure) and measure(part.measure).unit == "%"
        factor, unit = (100.0, "points") if in_points else (1.0, "")
        bounds = part.interval if part.seeds > 1 else (math.nan, math.nan)
        effect, low, high, least = (_rounded(factor * v) for v in (part.effect, *bounds, part.least))
        counts = "at most" if part.bound else "at least"
        rows.append([*said, part.what, effect, low, high, counts, least, unit, part.seeds, verdict.remedy])
    return _csv([CLAIM, *rows])


def runs(study: Study, records: Records) -> str:
    """A line for each point: finished and planned seeds, then mean and deviation of every measure."""
    taken = [m for m in in_groups(study.measure) if not m.curve and any(r.has(m.name) for r in records)]
    rows: list[list[Any]] = [
        ["arm", "varied", "seeds", "planned", *(h for m in taken for h in (m.heading, f"{m.heading} sd"))]
    ]
    for where in points(records):
        here = records.at(where)
        seeds = [len({r.seed for r in found}) for found in (here, here.planned)]
        row = [where.arm, varied_label(where.varied), *seeds]
        for m in taken:
            mean, deviation, n = records.mean(where, m.name)
            row += [_rounded(m.factor * mean), _deviation(m.factor * deviation, m.factor * mean) if n > 1 else None]
        rows.append(row)
    return _csv(rows)


def points(records: Records) -> list[Where]:
    """Every point of the grid."""
    return list({Where(r.arm, r.varied).label: Where(r.arm, r.varied) for r in records.planned}.values())


def compared(records: Records, comparison: Comparison) -> str:
    """Differences from an arm, seed by seed; without an interval where there is one seed."""
    rows: list[list[Any]] = [["arm", "varied", "seeds", "difference", "low", "high"]]
    for d in differences(records, comparison):
        numbers = [_rounded(v) for v in d.shown(measure(comparison.measure))]
        rows.append([d.arm, d.varied, d.seeds, *(numbers if d.seeds > 1 else [numbers[0], None, None])])
    return _csv(rows)


def paper_table(records: Records, table: PaperTable, data: str) -> str:
    """Ours first, then as printed; a column of deviations where ours have some."""
    words = 2 if table.titled else 1
    ours: list[list[Any]] = []
    for i, (title, name) in enumerate(table.measures):
        factor = measure(name).factor
        cells: list[Any] = [f"ours, {data}" if i == 0 else "", title][:words]
        for where in table.points:
            mean, deviation, n = records.mean(where, name)
            spread = _deviation(factor * deviation, factor * mean) if n > 1 else None
            cells += [_rounded(factor * mean) if n else None, spread]
        ours.append(cells)
    printed = [[*row[:words], *(c for number in row[words:] for c in (number, None))] for row in table.rows]
    heads = [*table.heads[:words], *(h for head in table.heads[words:] for h in (head, f"{head} sd"))]
    kept = [j for j in range(len(heads)) if j < words or (j - words) % 2 == 0 or any(r[j] is not None for r in ours)]
    return _csv([row[j] for j in kept] for row in (heads, *ours, *printed))


def _deviation(deviation: float, around: float) -> float:
    """What rounding has left of zero is zero."""
    return 0.0 if abs(deviation) < 1e-9 * abs(around) else float(f"{abs(deviation):.{OF_SPREAD}g}")


def _rounded(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    return 0.0 if abs(value) < 1e-12 else float(f"{value:.{DIGITS}g}")


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([as_cell(cell) for cell in row] for row in rows)
    return written.getvalue()


def as_cell(cell: Any) -> Any:
    """A cell on one line that a spreadsheet shows and does not compute: a formula gets an apostrophe before it."""
    if not isinstance(cell, str):
        return cell
    shown = visible(" ".join(cell.split()))
    return f"'{shown}" if FORMULA.match(shown) else shown
