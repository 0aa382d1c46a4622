"""Several embeddings or runs side by side, the best of each measure marked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isotherm import __version__
from isotherm.files import Json
from isotherm.inspect.health import Floats, Health, examine_embedding
from isotherm.inspect.reading import WHOLE, Reading
from isotherm.measures.catalogue import measure as fact
from isotherm.report import Bars, Cell, Heights, Histogram, Line, Lines, Page


@dataclass(frozen=True, eq=False)
class Entry:
    """One of those compared: a file that was examined, or a run with the measures it recorded."""

    name: str
    values: dict[str, float]
    health: Health | None


@dataclass(frozen=True)
class Row:
    """One measure of all of them; None where it was not taken."""

    measure: str
    values: tuple[float | None, ...]
    best: int | None
    """Which is best, if better has a direction and they differ."""

    @property
    def title(self) -> str:
        return fact(self.measure).title


@dataclass(frozen=True, eq=False)
class Comparison:
    """A table of measures: a column per entry."""

    entries: tuple[Entry, ...]
    rows: tuple[Row, ...]

    def as_dict(self) -> Json:
        """Everything, in what JSON knows."""
        return {
            "entries": [entry.name for entry in self.entries],
            "rows": [{"measure": r.measure, "values": list(r.values), "best": r.best} for r in self.rows],
        }


def compare(paths: Sequence[Path | str], reading: Reading = WHOLE) -> Comparison:
    """Embedding files (examined now) and run folders (their `result.json`), side by side.

    `reading.labels` names a key that every file has, or one file of labels for all of them.
    """
    if len(paths) < 2:
        raise ValueError(f"compare needs at least 2 files or runs, got {len(paths)}.")
    entries = [entry_of(Path(path), reading) for path in paths]
    names = _told_apart([Path(p) for p in paths])
    entries = [Entry(name, e.values, e.health) for name, e in zip(names, entries, strict=True)]
    measures = list(dict.fromkeys(key for entry in entries for key in entry.values))
    return Comparison(tuple(entries), tuple(_row(key, entries) for key in measures))


def entry_of(path: Path, reading: Reading) -> Entry:
    """A file or a run folder as something to compare."""
    if path.is_dir():
        return Entry(path.name, _recorded(path), None)
    embedding = reading.read(path)
    health = examine_embedding(embedding, reading.seed)
    values = {"embeddings": float(health.n), "dimensions": float(health.d), **health.values}
    if health.advice.low is not None and health.advice.high is not None:
        values |= {"recommended tau, from": health.advice.low, "recommended tau, to": health.advice.high}
    return Entry(embedding.name, values, health)


def page_of(comparison: Comparison, command: str = "") -> Page:
    """The comparison as a page: the table, and the distributions over each other."""
    entries = comparison.entries
    page = Page(
        f"{len(entries)} embeddings side by side" if all(e.health for e in entries) else f"{len(entries)} side by side",
        ", ".join(entry.name for entry in entries),
        kicker="Isotherm compare",
        footer=f"isotherm {__version__}",
    )
    page.section("Measures", "★ marks the best where better has a direction.")
    page.table(
        ["measure", *(entry.name for entry in entries)],
        [[row.title, *(Cell(v, best=i == row.best) for i, v in enumerate(row.values))] for row in comparison.rows],
    )
    looked = [(entry.name, entry.health) for entry in entries if entry.health is not None]
    if looked:
        page.section("Distributions")
        page.figures(*_overlaid(looked))
    agreed = [row for row in comparison.rows if fact(row.measure).unit == "%" or row.measure == "nearest_agreement"]
    if agreed:
        page.section("Accuracy")
        page.figure(
            Bars(
                "Accuracy and agreement",
                [entry.name for entry in entries],
                [Heights(r.title, [np.nan if v is None else v for v in r.values]) for r in agreed],
            )
        )
    if command:
        page.section("Again")
        page.code(command)
    return page


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


def _recorded(folder: Path) -> dict[str, float]:
    """The measures a run wrote down."""
    path = folder / "result.json"
    if not path.exists():
        raise ValueError(f"{folder} is no finished run: it has no result.json.")
    try:
        result = json.loads(path.read_text(encoding="utf-8"))["measures"]
        return {str(k): float(v) for k, v in _flat(result).items()}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: it holds no measures.") from error


def _flat(measures: Json, prefix: str = "") -> dict[str, float]:
    """Nested measures as one level; what is no number is left out."""
    flat: dict[str, float] = {}
    for key, value in measures.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[f"{prefix}{key}"] = float(value)
    return flat


def _row(measure: str, entries: Sequence[Entry]) -> Row:
    values = tuple(entry.values.get(measure) for entry in entries)
    there = [(v, i) for i, v in enumerate(values) if v is not None]
    better = fact(measure).better
    direction = 0 if better is None else 1 if better == "higher" else -1
    best = None
    if direction and len(there) > 1 and len({v for v, _ in there}) > 1:
        best = max(there, key=lambda item: direction * item[0])[1]
    return Row(measure, values, best)


def _told_apart(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    for parts in range(1, max(len(p.parts) for p in paths) + 1):
        names = ["/".join(p.parts[-parts:]) for p in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{i}: {path}" for i, path in enumerate(paths, 1)]
