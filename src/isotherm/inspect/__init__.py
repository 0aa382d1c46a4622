"""`isotherm inspect` and `isotherm compare`: is an embedding healthy, and which temperature suits it?

In Python: ``isotherm.inspect(array, labels)``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from isotherm.files import Json, check_places, put_json
from isotherm.inspect import comparing, comparison_page
from isotherm.inspect.comparing import Comparison, compare
from isotherm.inspect.findings import Row, describe
from isotherm.inspect.health import Health, examine, examine_embedding
from isotherm.inspect.inspection import Inspection, inspection_of
from isotherm.inspect.page import LAYOUTS, page_of
from isotherm.inspect.pairs import PairHealth, examine_pairs, inspect_pairs, page_of_pairs
from isotherm.inspect.reading import WHOLE, Embedding, Reading, files_named, read, seconds_for
from isotherm.report import Page

__all__ = [
    "Comparison",
    "Embedding",
    "Health",
    "Inspection",
    "Output",
    "PairHealth",
    "Reading",
    "Row",
    "compare",
    "comparing",
    "describe",
    "examine",
    "examine_pairs",
    "read",
    "run",
    "run_compare",
    "run_pairs",
]


@dataclass(frozen=True)
class Output:
    """Where the page and the numbers go; the page shows the `command`."""

    html: Path | None = None
    json: Path | None = None
    command: str = ""

    def check(self, *read: Path) -> None:
        """Refuse before minutes of work what could not be written after them, or is what is read."""
        check_places(self.html, self.json, read)

    def write(self, page: Callable[[], Page], numbers: Json) -> None:
        if self.html is not None:
            page().write(self.html)
        if self.json is not None:
            put_json(self.json, numbers)


NOWHERE = Output()
"""Nothing is written."""


SOON = 10.0
"""Seconds below which nobody needs to be told how long it takes."""


def run(
    path: Path | str,
    reading: Reading = WHOLE,
    output: Output = NOWHERE,
    layout: str = "tsne",
    note: Callable[[str, str], None] = lambda stage, detail: None,
) -> Health:
    """Read a file, examine it, and write the page and the numbers where asked; `note` hears how long it will take."""
    if layout not in LAYOUTS:
        raise ValueError(f"no layout '{layout}'; there is: {', '.join(LAYOUTS)}.")
    output.check(Path(path), *reading.beside())
    embedding = reading.read(path)
    n, d = embedding.z.shape
    seconds = seconds_for(n, d)
    if seconds > SOON:
        long = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
        note(f"examining all pairs of {n:,} × {d:,}: about {long}", "")
    sampled = reading.sample is not None and reading.sample < embedding.total
    health = examine_embedding(embedding, reading.seed, sampled)
    output.write(lambda: page_of(health, embedding, layout, reading.seed, output.command), health.as_dict())
    return health


def run_pairs(path: Path | str, pairs: str, reading: Reading = WHOLE, output: Output = NOWHERE) -> PairHealth:
    """Read embeddings of images and of texts, examine them together, and write the page and the numbers where asked."""
    output.check(Path(path), *files_named(pairs), *reading.beside())
    health = inspect_pairs(path, pairs, reading)
    output.write(lambda: page_of_pairs(health, output.command), health.as_dict())
    return health


def run_compare(paths: Sequence[Path], reading: Reading = WHOLE, output: Output = NOWHERE) -> Comparison:
    """Compare files or runs, and write the page and the numbers where asked."""
    output.check(*paths, *reading.beside())
    comparison = compare(paths, reading)
    output.write(lambda: comparison_page.page_of(comparison, output.command), comparison.as_dict())
    return comparison


class Inspect(ModuleType):
    """This module, which can be called (docs/decisions/0029)."""

    def __call__(
        self,
        z: Any,
        labels: Any = None,
        views: Any = None,
        *,
        name: str = "embedding",
        drop: bool = False,
        seed: int = 0,
    ) -> Inspection:
        """Is an embedding healthy, and which temperature suits it? Prints so; in a notebook, shows the page.

        >>> look = isotherm.inspect(z, labels)      # (N, D) and (N,): numpy, torch, anything with __array__
        >>> look.values["uniformity"], look.temperature, look.findings
        >>> look.write("z.html")

        `labels` may be words; −1, NaN and None mean no label. `views` (N, D) are other views of the same items. `drop`
        leaves out rows that are not finite, zero, or without a label, which are an error otherwise. A path is read as
        the command does.
        """
        return inspection_of(z, labels, views, name, drop, seed)


sys.modules[__name__].__class__ = Inspect
