"""The page of a comparison: who leads in what, the table, curves and distributions over each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from isotherm import __version__
from isotherm.inspect.comparing import (
    CERTAIN,
    DIFFERENCE_HEADS,
    LEGEND,
    PAIRED,
    Comparison,
    Entry,
    Row,
    difference_cells,
)
from isotherm.inspect.comparing_runs import charts
from isotherm.inspect.health import Floats, Health
from isotherm.measures.catalogue import measure as fact
from isotherm.report import Cell, Dots, Heights, Histogram, Line, Lines, Page


def page_of(comparison: Comparison, command: str = "") -> Page:
    """The comparison as a page: the table, and the distributions over each other."""
    entries = comparison.entries
    page = Page(
        f"{len(entries)} {_noun(entries)} side by side",
        ", ".join(entry.name for entry in entries),
        kicker="Isotherm compare",
        footer=f"isotherm {__version__}",
        verdict=comparison.verdict,
    )
    if comparison.settings:
        page.section("What differs", "Settings that are not the same in all of them.")
        page.table(["setting", *(entry.name for entry in entries)], [[n, *values] for n, values in comparison.settings])
    if comparison.differences:
        page.section("Seed by seed", PAIRED)
        page.table(DIFFERENCE_HEADS, difference_cells(comparison.differences))
    page.section("Measures", LEGEND)
    page.table(
        ["measure", *(entry.name for entry in entries)],
        [[row.title, *(Cell(v, best=i == row.best) for i, v in enumerate(row.values))] for row in comparison.rows],
    )
    names, runs = [name for name, _ in comparison.runs], [run for _, run in comparison.runs]
    if drawn := charts(names, runs):
        page.section("Curves")
        page.figures(*drawn)
    looked = [(entry.name, entry.health) for entry in entries if entry.health is not None]
    if looked:
        page.section("Distributions")
        page.figures(*_overlaid(looked))
    agreed = [row for row in comparison.rows if fact(row.measure).unit == "%" or row.measure == "nearest_agreement"]
    if agreed:
        page.section("Accuracy")
        page.figure(
            Dots(
                "Accuracy and agreement",
                [entry.name for entry in entries],
                [_with_intervals(row, entries) for row in agreed],
                x="share",
                note="Lines: 95 % intervals, where the number of items is known.",
                colours=range(len(entries)),
                most=1.0,
            )
        )
    if command:
        page.section("Again")
        page.code(command)
    return page


def _noun(entries: Sequence[Entry]) -> str:
    files = sum(entry.health is not None for entry in entries)
    return "embeddings" if files == len(entries) else "runs" if not files else "runs and embeddings"


def _with_intervals(row: Row, entries: Sequence[Entry]) -> Heights:
    values = [math.nan if value is None else value for value in row.values]
    return Heights(row.title, values, [CERTAIN * entry.errors.get(row.measure, 0.0) for entry in entries])


def _overlaid(looked: Sequence[tuple[str, Health]]) -> tuple[Histogram, Lines, Lines]:
    fold = 4
    edges = looked[0][1].edges[::fold]
    pairs = [(name, _all_pairs(health).reshape(-1, fold).sum(1) / (edges[1] - edges[0])) for name, health in looked]
    return (
        Histogram(
            "Similarities of all pairs",
            edges,
            [Heights(name, density) for name, density in pairs],
            x="similarity",
            y="density",
        ),
        Lines(
            "Covariance spectrum",
            [
                Line(
                    name,
                    np.arange(1, h.d + 1),
                    np.maximum(100 * h.spectrum / max(float(h.spectrum.sum()), 1e-30), 1e-8),
                )
                for name, h in looked
            ],
            x="principal direction",
            y="% of the variance",
            log_y=True,
        ),
        Lines(
            "How many negatives a query reaches",
            [Line(name, h.hardness.temperatures, 100 * h.hardness.reach) for name, h in looked],
            x="temperature τ",
            y="% of the negatives",
            log_x=True,
        ),
    )


def _all_pairs(health: Health) -> Floats:
    """The histogram of all pairs, also where classes divide it."""
    if "all pairs" in health.histograms:
        return health.histograms["all pairs"]
    sizes = np.array([c.items for c in health.classes], dtype=np.float64)
    n = sizes.sum()
    same = float((sizes * (sizes - 1)).sum() / (n * (n - 1)))
    parts = {"same class, other item": same, "other class": 1 - same}
    kinds = [share * health.histograms[kind] for kind, share in parts.items() if kind in health.histograms]
    return np.asarray(np.sum(kinds, axis=0))
