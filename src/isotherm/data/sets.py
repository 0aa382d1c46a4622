"""Sets of images by name or by path: `load` reads one split."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm.checks import did_you_mean, known_settings, parameters
from isotherm.data.catalogue import SETS as SETS
from isotherm.data.catalogue import Set
from isotherm.data.parts import NoSplit

if TYPE_CHECKING:  # the list of sets is shown without torch
    from isotherm.data.images import Images

FORMATS = ("folder", "shards", "parquet", "arrays")
"""Whatever is not in the table: `folder:PATH`, `shards:PATH`, `parquet:PATH`, `arrays:PATH`."""


def named(name: str) -> Set:
    """The set of this name."""
    if name not in SETS:
        known = [*SETS, *(f"{f}:PATH" for f in FORMATS)]
        raise ValueError(f"no set '{name}'{did_you_mean(name, known)}")
    return SETS[name]


def there(name: str) -> None:
    """Refuse a named set whose files are missing, and say how to get them."""
    if ":" not in name and not named(name).there():
        raise FileNotFoundError(f"{name} is not in {named(name).place()}. {named(name).advice}")


def load(name: str, split: str = "train", root: Path | str | None = None, **options: Any) -> Images:
    """One split of a set, by its name or as `folder:PATH`, `shards:PATH`, `parquet:PATH`, `arrays:PATH`.

    `root` is the data root (`where.root`). Options go to the reader: `size`, `bad`, `label`, …
    """
    form, colon, path = name.partition(":")
    if colon and form in FORMATS:
        return _reader(form, name, options)(Path(path).expanduser(), split=split, **options)
    entry = named(name)
    for option in options:
        if option in ("name", "classes", "first_id"):
            raise TypeError(f"{name} has no option '{option}'; it is part of the set.")
    read = _reader(entry.source, name, options)
    settings = {**entry.settings, **options, "split": entry.splits.get(split, split)}
    folder = entry.place(root)
    if folder is None:
        return read(**settings)
    if entry.source in FORMATS and settings["split"] not in entry.images:
        raise NoSplit(f"{name} has no split '{split}'; it has: {', '.join(entry.images)}.")
    try:
        return read(folder, **settings)
    except FileNotFoundError as missing:
        if isinstance(missing, NoSplit) and settings["split"] not in entry.images:
            raise
        raise FileNotFoundError(f"{name} is not in {folder}: {missing}. {entry.advice}") from missing


def _reader(source: str, name: str, options: Mapping[str, Any]) -> Callable[..., Images]:
    # Each source imports what its format needs, and only when it is asked for.
    read: Callable[..., Images] = importlib.import_module(f"isotherm.data.sources.{source}").read
    known_settings(name, options, parameters(read, ("path", "folder", "split", "name")), "option")
    return read
