"""Image–text pairs by name or by path: `load_pairs` reads one split."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from isotherm.checks import did_you_mean, known_settings, parameters
from isotherm.data.captioned import Captioned
from isotherm.data.catalogue import CAPTIONED, SETS
from isotherm.data.parts import NoSplit
from isotherm.data.sources import caption_shards, captions

FORMATS = ("captions", "parquet", "shards")
"""`captions:PATH`: csv, tsv or json lines of paths and captions, or a folder of them; `parquet:PATH`: the hub's;
`shards:PATH`: tar files in WebDataset's layout."""


def is_pairs(data: str) -> bool:
    """Whether a name of data stands for images with captions; parquet and shards are looked into."""
    form, colon, path = data.partition(":")
    if not colon:
        return data in CAPTIONED
    if form == "parquet":
        return _has_captions(Path(path).expanduser())
    if form == "shards":
        return caption_shards.has_captions(Path(path).expanduser())
    return form in FORMATS


def load_pairs(name: str, split: str = "train", root: Path | str | None = None, **options: Any) -> Captioned:
    """One split of a set of pairs; options go to its reader: `size`, `image`, `caption`, `longest`."""
    form, colon, path = name.partition(":")
    read: Callable[..., Captioned] = caption_shards.read if form == "shards" else captions.read
    known_settings(name, options, parameters(read, ("path", "split", "name")), "option")
    if colon and form in FORMATS:
        if not path:
            raise ValueError(f"'{name}' names no file; say {form}:PATH.")
        return read(Path(path).expanduser(), split=split, **options)
    if name not in CAPTIONED:
        raise ValueError(
            f"no image–text pairs '{name}'{did_you_mean(name, [*CAPTIONED, *(f'{f}:PATH' for f in FORMATS)])}"
        )
    entry = SETS[name]
    split = entry.splits.get(split, split)
    if split not in entry.images:
        raise NoSplit(f"{name} has no split '{split}'; it has: {', '.join(entry.images)}.")
    folder = entry.place(root)
    assert folder is not None
    try:
        return read(folder, split=split, name=name, **options)
    except FileNotFoundError as missing:
        raise FileNotFoundError(f"{name} is not in {folder}: {missing}. {entry.advice}") from missing


def _has_captions(path: Path) -> bool:
    """Whether a parquet file, or the first of a folder, has images and captions and no labels."""
    there = [path] if path.is_file() else [*sorted(path.glob("*.parquet")), *sorted(path.glob("data/*.parquet"))]
    if not there:
        return False
    try:
        import pyarrow as pa  # noqa: PLC0415 - extra `parquet`
        import pyarrow.parquet as pq  # noqa: PLC0415

        schema = pq.read_schema(there[0])
    except (ImportError, OSError, ValueError, pa.ArrowException):  # its reader says what is wrong
        return False
    texts = [f.name for f in schema if pa.types.is_list(f.type) or pa.types.is_string(f.type)]
    labels = [f.name for f in schema if "label" in f.name.lower()]
    structs = [f for f in schema if pa.types.is_struct(f.type) and f.type.get_field_index("bytes") >= 0]
    return bool(structs) and not labels and any(name in captions.CAPTION for name in texts)
