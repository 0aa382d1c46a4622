"""The hub's image layout: parquet with a column image{bytes, path}, label columns, and their names in the schema."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isotherm.data.declared import fits
from isotherm.data.images import Images
from isotherm.data.parts import NoSplit
from isotherm.data.sources.decode import Tally, fill, pool, size_of
from isotherm.data.sources.reading import MOST_CLASSES, Array, damaged, in_range, make_images, stable_id

BATCH = 512
"""Images in flight: enough for the threads, little beside the array they go to."""


def read(
    path: Path,
    split: str = "train",
    size: int | None = None,
    channels: int = 3,
    label: str | None = None,
    name: str | None = None,
    first_id: int | None = None,
) -> Images:
    """One split of a folder with SPLIT.parquet or SPLIT-*.parquet (in it or in its `data`), or one file, all of it.

    The first label column (or the one named `label`) gives `labels`, the others `more_labels`. All images must have
    the size of the first, unless `size` says to what square they are brought. Ids are rows: they count from 0 in
    `train`, and from a number of their own in every other split.
    """
    if channels not in {1, 3}:
        raise ValueError(f"channels must be 1 (grey) or 3 (colour), got {channels}.")
    if size is not None and size < 1:
        raise ValueError(f"size must be 1 or more, got {size}.")
    paths = files(path, split)
    opened = [open_file(p) for p in paths]
    features = _features(opened[0].schema_arrow)
    image = image_column(opened[0].schema_arrow, paths[0])
    names = {c: f["names"] for c, f in features.items() if isinstance(f.get("names"), list)}
    wanted = _label_columns(opened[0].schema_arrow, features, label, paths[0])
    _refuse_other_names(opened, paths, names, path)
    columns = {c: _column(opened, paths, c, len(names.get(c, []))) for c in wanted}
    pixels, tally = _pixels(opened, paths, image, size, channels)
    labels = columns.pop(wanted[0]) if wanted else np.full(len(pixels), -1)
    classes = names.get(wanted[0], _numbered(labels)) if wanted else []
    if first_id is None:
        first_id = 0 if split == "train" else stable_id(split) >> 31 << 31  # 2³¹ rows lie between two splits
    notes = tally.notes("grey" if channels == 1 else "RGB")
    return make_images(name or path.stem, pixels, labels, first_id, classes, columns, notes)


def files(path: Path, split: str) -> list[Path]:
    """The files of a split, in order."""
    if path.is_file():
        if split != "train":
            raise NoSplit(f"{path} is one file: it has no split '{split}', all of it is 'train'.")
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"there is no file or folder {path}")
    for folder in (path, path / "data"):
        shards = sorted(p for p in (folder / f"{split}.parquet", *folder.glob(f"{split}-*.parquet")) if p.is_file())
        if shards:
            return shards
    there = sorted({p.stem.split("-")[0] for p in (*path.glob("*.parquet"), *path.glob("data/*.parquet"))})
    raise NoSplit(
        f"{path} holds no {split}.parquet or {split}-*.parquet"
        + (f"; its splits are: {', '.join(there)}" if there else "")
    )


def open_file(path: Path) -> Any:
    """A parquet file, read page by page."""
    try:
        # Pages are read as they are needed: a whole column of images in memory would double what a set takes.
        return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def _features(schema: Any) -> dict[str, Any]:
    try:
        declared = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}  # a parquet file needs no such metadata: the columns speak for themselves
    return {k: v for k, v in declared.items() if isinstance(v, dict)} if isinstance(declared, dict) else {}


def image_column(schema: Any, path: Path) -> str:
    """The column of encoded images."""
    features = _features(schema)
    structs: list[str] = [f.name for f in schema if pa.types.is_struct(f.type) and f.type.get_field_index("bytes") >= 0]
    columns = [c for c in structs if features.get(c, {}).get("_type") == "Image"] or structs
    if not columns:
        raise ValueError(f"{path} has no column image{{bytes, path}}; it has: {', '.join(schema.names)}.")
    return columns[0]


def _refuse_other_names(opened: Sequence[Any], paths: Sequence[Path], names: dict[str, Any], path: Path) -> None:
    """Refuse files, of this split or of `train`, that call the same labels by other names: a label is a number."""
    first = files(path, "train")[:1] if path.is_dir() and _has_split(path, "train") else []
    for file, each in zip([*opened, *map(open_file, first)], [*paths, *first], strict=True):
        others = {c: f.get("names") for c, f in _features(file.schema_arrow).items()}
        for column, own in names.items():
            there = others.get(column)
            if isinstance(there, list) and any(a != b for a, b in zip(own, there, strict=False)):
                raise ValueError(f"{paths[0]} and {each} name the classes of '{column}' in different orders.")


def _has_split(path: Path, split: str) -> bool:
    try:
        return bool(files(path, split))
    except NoSplit:
        return False


def _label_columns(schema: Any, features: dict[str, Any], label: str | None, path: Path) -> list[str]:
    whole = [f.name for f in schema if pa.types.is_integer(f.type)]
    columns = [c for c in whole if "label" in c.lower() or features.get(c, {}).get("_type") == "ClassLabel"]
    if label is not None:
        if label not in whole:
            raise ValueError(f"{path} has no column of whole numbers '{label}'; it has: {', '.join(whole) or 'none'}.")
        columns = [label, *(c for c in columns if c != label)]
    return columns


def _numbered(labels: Array) -> list[str]:
    """Classes without names are called by their numbers; larger ones are no classes."""
    most = int(labels.max(initial=-1)) + 1
    return [str(c) for c in range(most)] if most <= MOST_CLASSES else []


def _column(opened: Sequence[Any], paths: Sequence[Path], name: str, classes: int) -> Array:
    parts = []
    for file, path in zip(opened, paths, strict=True):
        try:
            part = file.read(columns=[name]).column(name).cast(pa.int64()).fill_null(-1).to_numpy()
        except (pa.ArrowException, OSError, KeyError) as error:
            raise damaged(path, error) from error
        parts.append(in_range(part, classes, path, unknown=True) if classes else part)
    return np.concatenate(parts)


def _pixels(
    opened: Sequence[Any], paths: Sequence[Path], image: str, size: int | None, channels: int
) -> tuple[Array, Tally]:
    n = sum(file.metadata.num_rows for file in opened)
    if n == 0:
        raise ValueError(f"{paths[0]} holds no images.")
    out, done, total = None, 0, Tally()
    with pool() as threads:
        for file, path in zip(opened, paths, strict=True):
            start = done
            for batch in _batches(file, path, image):
                if out is None:
                    shape = (n, channels, *_shape(batch[0], size, path))
                    fits(path, math.prod(shape), "Say size=N to bring its images to N×N.")
                    out = np.empty(shape, np.uint8)
                tally = fill(out, done, batch, size is not None, threads)
                if tally.failed:
                    row, why = tally.failed[0]
                    raise ValueError(f"{path}: the image in row {row - start} {why}.")
                total.add(tally)
                done += len(batch)
    if out is None or done != n:
        raise damaged(paths[-1], f"{n:,} rows were announced, {done:,} came")
    return out, total


def _batches(file: Any, path: Path, image: str) -> Iterator[list[bytes | None]]:
    try:
        for batch in file.iter_batches(BATCH, columns=[f"{image}.bytes"]):
            yield batch.column(0).field("bytes").to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def _shape(encoded: bytes | None, size: int | None, path: Path) -> tuple[int, int]:
    if size is not None:
        return size, size
    try:
        return size_of(encoded)
    except ValueError as error:
        raise ValueError(f"{path}: the image in row 0 {error}.") from error
