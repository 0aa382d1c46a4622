"""`isotherm inspect` and `isotherm compare`: is an embedding healthy, and which temperature suits it?"""

from __future__ import annotations

from pathlib import Path

from isotherm.files import write_json
from isotherm.inspect import comparing
from isotherm.inspect.comparing import Comparison, compare
from isotherm.inspect.findings import Row, describe
from isotherm.inspect.health import Health, examine
from isotherm.inspect.page import LAYOUTS, page_of
from isotherm.inspect.reading import Embedding, read

__all__ = [
    "Comparison",
    "Embedding",
    "Health",
    "Row",
    "compare",
    "describe",
    "examine",
    "read",
    "run",
    "run_compare",
]


def run(
    path: Path | str,
    labels: str | None = None,
    views: str | None = None,
    key: str | None = None,
    html: Path | None = None,
    json: Path | None = None,
    sample: int | None = None,
    seed: int = 0,
    drop: bool = False,
    layout: str = "tsne",
    command: str = "",
) -> Health:
    """Read a file, examine it, and write the page and the numbers where asked. `command` is shown on the page."""
    if layout not in LAYOUTS:
        raise ValueError(f"no layout '{layout}'; there is: {', '.join(LAYOUTS)}.")
    for out in (html, json):
        _writable(out)
    embedding = read(path, labels, views, key, sample, seed, drop)
    health = examine(
        embedding.z,
        embedding.labels,
        embedding.views,
        name=embedding.name,
        classes=embedding.classes,
        notes=embedding.notes,
        seed=seed,
    )
    if html is not None:
        page_of(health, embedding, layout, seed, command).write(html)
    if json is not None:
        _save(json, health.as_dict())
    return health


def run_compare(
    paths: list[Path],
    labels: str | None = None,
    html: Path | None = None,
    json: Path | None = None,
    sample: int | None = None,
    seed: int = 0,
    drop: bool = False,
    command: str = "",
) -> Comparison:
    """Compare files or runs, and write the page and the numbers where asked."""
    for out in (html, json):
        _writable(out)
    comparison = compare(paths, labels, sample, seed, drop)
    if html is not None:
        comparing.page_of(comparison, command).write(html)
    if json is not None:
        _save(json, comparison.as_dict())
    return comparison


def _writable(out: Path | None) -> None:
    """Refuse before minutes of work what could not be written after them."""
    if out is not None and (out.is_dir() or (out.parent.exists() and not out.parent.is_dir())):
        raise ValueError(f"{out} cannot be written: it is a folder, or lies in a file.")


def _save(path: Path, found: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, found)
