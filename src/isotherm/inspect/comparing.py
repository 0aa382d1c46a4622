"""Several embeddings or runs side by side, the best of each measure marked where it is better by more than chance.

The uncertainty of a file's measure comes from eighths of its rows, that of a run's accuracy from how many images it was
asked about. What has none, is collapsed, or cannot be held against the others gets no star.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isotherm.data.sets import SETS
from isotherm.files import Json, text_of
from isotherm.inspect.comparing_runs import Difference, RunFacts, differing, facts_of, paired
from isotherm.inspect.health import Health, even_uniformity, examine_embedding, values_of
from isotherm.inspect.reading import WHOLE, Embedding, Reading
from isotherm.measures.catalogue import measure as fact
from isotherm.measures.embedding import NEARLY_COLLAPSED
from isotherm.report import Finding, number

PARTS = 8
"""Parts of the rows whose measures are taken for their uncertainty."""
LEAST = 20
"""Rows of a part, at least."""
CERTAIN = 2.1
"""Standard errors of a difference beyond which it is no chance: Student's t at 95 % for two times eight parts."""
LEGEND = (
    "★ marks the best where better has a direction and the lead is beyond chance (95 %). No star: within noise; or no "
    "uncertainty is known, as for the geometry of runs; or the best is collapsed; or they are not comparable (other "
    "items, data or width, a run beside a file)."
)

PAIRED = (
    "Runs that differ in nothing but the seed are one arm, named after its first run. The mean difference to the first "
    "arm over the seeds that both have, and its 95 % interval (Student)."
)
DIFFERENCE_HEADS = ("measure", "arm", "less", "difference", "95 % interval", "seeds", "better (95 %)")


SHOWN = ("data_options", "randbit", "digits", "digit_source", "digit_size", "digit_places", "digit_blend")
"""Settings of a run that change the images it is judged on."""
SHARES = ("nearest_agreement",)
"""Measures that are the share of an embedding's items."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One of those compared: a file that was examined, or a run with the measures it recorded."""

    name: str
    values: dict[str, float]
    health: Health | None
    errors: dict[str, float] = field(default_factory=dict)
    """Standard errors of the values; only those that are known."""
    items: tuple[object, ...] = ()
    """What was measured: only measures of the same items are held against each other."""
    width: int | None = None
    """Dimensions, on which geometry depends."""
    run: RunFacts | None = None
    """Of a run: its settings and curves."""
    ids: tuple[object, ...] = ()
    """Of a file: those of its items, where it has them."""
    classes: tuple[int, ...] = ()
    """Of a file: how many items each class has, on which all depends that is about classes."""

    @property
    def collapsed(self) -> bool:
        if "uniformity" not in self.values:
            return False
        return self.values["uniformity"] / even_uniformity(self.width or 1 << 20) < NEARLY_COLLAPSED


@dataclass(frozen=True)
class Row:
    """One measure of all of them; None where it was not taken."""

    measure: str
    values: tuple[float | None, ...]
    best: int | None
    """Which is best, if better has a direction and it leads by more than chance."""

    @property
    def title(self) -> str:
        return fact(self.measure).title


@dataclass(frozen=True, eq=False)
class Comparison:
    """A table of measures: a column per entry."""

    entries: tuple[Entry, ...]
    rows: tuple[Row, ...]
    settings: tuple[tuple[str, list[str]], ...] = ()
    """Those in which runs differ, with what they are in each."""
    differences: tuple[Difference, ...] = ()
    """Of arms that share seeds, to the first one."""

    @property
    def runs(self) -> list[tuple[str, RunFacts]]:
        return [(entry.name, entry.run) for entry in self.entries if entry.run is not None]

    @property
    def verdict(self) -> Finding:
        """Who leads in what, beyond chance, in a line; and of which measures nobody knows."""
        leads: dict[str, list[str]] = {}
        for row in self.rows:
            if row.best is not None:
                leads.setdefault(self.entries[row.best].name, []).append(row.title)
        for each in self.differences:
            if each.better and fact(each.measure).title not in leads.setdefault(each.better, []):
                leads[each.better].append(fact(each.measure).title)
        told = [f"{name} leads in {', '.join(titles)}" for name, titles in leads.items()]
        unknown = self._of_unknown_uncertainty()
        if told:
            return Finding("good", f"Beyond chance {'; '.join(told)}.")
        if not unknown:
            return Finding("look", "No measure tells them apart beyond chance.")
        named = ", ".join(unknown[:4]) + (f" and {len(unknown) - 4} more" if len(unknown) > 4 else "")
        known = "No measure whose uncertainty is known tells them apart beyond chance"
        more = " Several seeds of each would tell." if self.runs else ""
        return Finding("look", f"{known}; for {named} none is known.{more}")

    def _of_unknown_uncertainty(self) -> list[str]:
        """Measures that could have a best one, differ, and for which nobody knows how much of that is chance."""
        seeded = {each.measure for each in self.differences}
        return [
            row.title
            for row in self.rows
            if row.best is None
            and row.measure not in seeded
            and comparable(row.measure, self.entries)
            and len(set(row.values) - {None}) > 1
            and any(row.measure not in entry.errors for entry in self.entries if row.measure in entry.values)
        ]

    def as_dict(self) -> Json:
        """Everything, in what JSON knows."""
        return {
            "entries": [entry.name for entry in self.entries],
            "settings": dict(self.settings),
            "differences": [{**vars(each), "better": each.better} for each in self.differences],
            "rows": [{"measure": r.measure, "values": list(r.values), "best": r.best} for r in self.rows],
        }


def compare(paths: Sequence[Path | str], reading: Reading = WHOLE) -> Comparison:
    """Embedding files (examined now) and run folders (their `result.json`), side by side.

    `reading.labels` names a key that every file has, or one file of labels for all of them.
    """
    if len(paths) < 2:
        raise ValueError(f"compare needs at least 2 files or runs, got {len(paths)}.")
    entries = [entry_of(Path(path), reading) for path in paths]
    names = told_apart([Path(p) for p in paths])
    entries = [replace(entry, name=name) for name, entry in zip(names, entries, strict=True)]
    measures = list(dict.fromkeys(key for entry in entries for key in entry.values))
    rows = tuple(_row(key, entries) for key in measures)
    facts = [entry.run for entry in entries if entry.run is not None]
    if len(facts) < len(entries):  # a file has no settings
        return Comparison(tuple(entries), rows)
    values = [
        {name: value for name, value in entry.values.items() if alike(name, [entries[0], entry])} for entry in entries
    ]
    differences = paired(names, facts, values)
    return Comparison(tuple(entries), rows, tuple(differing(facts)), tuple(differences))


def entry_of(path: Path, reading: Reading) -> Entry:
    """A file or a run folder as something to compare."""
    if path.is_dir():
        return _run(path)
    embedding = reading.read(path)
    health = examine_embedding(embedding, reading.seed)
    values = {"embeddings": health.n, "dimensions": health.d, **health.values}
    if health.advice.low is not None and health.advice.high is not None:
        values |= {"recommended tau, from": health.advice.low, "recommended tau, to": health.advice.high}
    errors = _errors(embedding, values, reading.seed)
    sizes = (
        ()
        if embedding.labels is None
        else tuple(sorted(torch.unique(embedding.labels, return_counts=True)[1].tolist()))
    )
    items = ("file", embedding.total, embedding.rows.numpy().tobytes())
    return Entry(embedding.name, values, health, errors, items, health.d, None, embedding.ids, sizes)


def difference_cells(differences: Sequence[Difference]) -> list[list[str]]:
    """The rows of a table of differences."""
    return [
        [fact(d.measure).title, d.arm, d.against, number(d.mean), _interval(d), str(d.seeds), d.better or ""]
        for d in differences
    ]


def _interval(difference: Difference) -> str:
    return f"{number(difference.low)} to {number(difference.high)}"


def _run(folder: Path) -> Entry:
    """A run with the measures it wrote down."""
    path = folder / "result.json"
    if not path.exists():
        raise ValueError(f"{folder} is no finished run: it has no result.json.")
    try:
        result = json.loads(text_of(path))
        values = {str(k): float(v) for k, v in _flat(result["measures"]).items()}
        config = result.get("config", {})
        data, test = config.get("data"), config.get("test")
        pixels = str(result.get("data", ""))
        width = config.get("head", {}).get("width") if config.get("head", {}).get("name") != "none" else None
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it holds no measures.") from error
    known = SETS[data].images.get(test) if data in SETS else None
    errors = {} if known is None else {k: _binomial(v, known) for k, v in values.items() if _is_accuracy(k)}
    items = ("run", data, test, pixels, *(str(config.get(name)) for name in SHOWN))
    return Entry(folder.name, values, None, errors, items, width, facts_of(folder, config))


def _is_accuracy(measure: str) -> bool:
    """Whether a measure is the share of a run's test images that a probe gets right."""
    return fact(measure).unit == "%" and "features" in fact(measure).needs


def _binomial(share: float, n: int) -> float:
    """The standard error of a share of n; two more of each kind keep it from being 0 (Agresti & Coull)."""
    p = (share * n + 2) / (n + 4)
    return math.sqrt(p * (1 - p) / n)


def _errors(embedding: Embedding, values: Mapping[str, float], seed: int) -> dict[str, float]:
    """Standard errors of an embedding's measures: how far those of its parts differ; of shares that of so many items.

    A part has fewer neighbours to choose from, and a share of 1 in all may be less in each.
    """
    n = len(embedding.z)
    if n < PARTS * LEAST:
        return {}
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    parts = [values_of(*_rows(embedding, rows.sort().values), seed) for rows in order.tensor_split(PARTS)]
    shared = [key for key in parts[0] if all(key in part for part in parts)]
    errors = {key: float(np.std([part[key] for part in parts], ddof=1)) / math.sqrt(PARTS) for key in shared}
    return errors | {key: _binomial(values[key], n) for key in SHARES if key in values}


def _rows(embedding: Embedding, rows: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    views = embedding.views
    second = views[rows] if isinstance(views, Tensor) else None
    return embedding.z[rows], None if embedding.labels is None else embedding.labels[rows], second


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
    return Row(measure, tuple(entry.values.get(measure) for entry in entries), _best(measure, entries))


def comparable(measure: str, entries: Sequence[Entry]) -> bool:
    """Whether better has a direction, and at least two have the measure, of the same items."""
    there = [entry for entry in entries if measure in entry.values]
    return fact(measure).better is not None and len(there) > 1 and alike(measure, there)


def alike(measure: str, entries: Sequence[Entry]) -> bool:
    """Whether a measure of these is of the same items, and in as many dimensions where it depends on them."""
    of_classes = bool({"labels", "features"} & set(fact(measure).needs))  # which do not depend on the width
    same = len({(entry.items, entry.classes if of_classes else entry.width) for entry in entries}) == 1
    return same and len({entry.ids for entry in entries if entry.ids}) < 2


def _best(measure: str, entries: Sequence[Entry]) -> int | None:
    """Which entry is best, and not by chance."""
    if not comparable(measure, entries):
        return None
    there = [i for i, entry in enumerate(entries) if measure in entry.values]
    direction = 1 if fact(measure).better == "higher" else -1
    best, second = sorted(there, key=lambda i: -direction * entries[i].values[measure])[:2]
    errors = [entries[i].errors.get(measure, math.inf) for i in (best, second)]
    lead = abs(entries[best].values[measure] - entries[second].values[measure])
    return best if lead > CERTAIN * math.hypot(*errors) and not entries[best].collapsed else None


def told_apart(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    for parts in range(1, max(len(p.parts) for p in paths) + 1):
        names = ["/".join(p.parts[-parts:]) for p in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{i}: {path}" for i, path in enumerate(paths, 1)]
