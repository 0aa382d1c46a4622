"""Images with captions: the hub's parquet (`image` + `captions`), and csv, tsv or json lines of paths and captions.

Whatever cannot be used is left out, counted and named: an image without a caption, a caption without an image, an empty
one, text that is not UTF-8, an image that no decoder opens.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import torch
from PIL import Image

from isotherm.checks import at_least
from isotherm.data import corpora
from isotherm.data.captioned import Captioned, Encoded, Files, Pieces, said
from isotherm.data.parts import NoSplit
from isotherm.data.sources.reading import count, damaged, stable_id
from isotherm.data.stored import Stored

IMAGE = ("image", "filepath", "file_path", "image_path", "path", "file", "filename", "file_name", "img")
CAPTION = ("captions", "caption", "text", "texts", "sentences", "sentence", "title", "raw")
"""Columns that are taken when nobody says which."""
TABLES = (".csv", ".tsv", ".jsonl")
CHECKED = 200_000
"""Images whose heads are all looked at beforehand."""
BATCH = 512

Place = tuple[int, int, int]
"""A piece of a file: its number, the first byte, how many."""


class Sieve:
    """Takes images with their captions one by one, leaves out what cannot be used, and remembers the rest."""

    def __init__(self, text: IO[bytes], longest: int) -> None:
        self.text, self.longest, self.end = text, longest, 0
        self.ids, self.first, self.counts = array("q"), array("q"), array("q")
        self.starts, self.lengths = array("q"), array("q")
        self.places: list[str] = []
        self.left: dict[tuple[str, str], list[str]] = {}
        self.seen: set[int] = set()
        self.modes: dict[str, int] = {}
        self.twice = 0

    def leave(self, noun: str, why: str, place: str) -> None:
        self.left.setdefault((noun, why), []).append(place)

    def add(self, number: int, place: str, captions: Sequence[bytes]) -> bool:
        """Whether an image with these captions is kept."""
        clean = [text for caption in captions if (text := self._tidy(caption, place))]
        if not clean:
            self.leave("image", "without a caption left out", place)
            return False
        self.ids.append(number)
        self.first.append(len(self.starts))
        self.counts.append(len(clean))
        self.places.append(place)
        for caption in clean:
            self.starts.append(self.end)
            self.lengths.append(len(caption))
            self.end += self.text.write(caption)
            digest = hash(caption)
            self.twice += digest in self.seen
            self.seen.add(digest)
        return True

    def _tidy(self, caption: bytes, place: str) -> bytes:
        try:
            text = caption.decode().strip()
        except UnicodeDecodeError as error:
            self.leave("caption", "that is not UTF-8 left out", f"{place} (byte {caption[error.start]:#04x})")
            return b""
        if not text:
            self.leave("empty caption", "left out", place)
        if len(text) > self.longest:
            self.leave("caption", f"cut after {self.longest:,} characters", place)
            text = text[: self.longest].rstrip()
        return text.encode()

    def head(self, source: bytes | Path | None, place: str) -> bool:
        """Whether an image's head can be read; what mode it has is counted."""
        if source is None:
            self.leave("caption", "without an image left out", place)
            return False
        if isinstance(source, Path) and not source.is_file():
            self.leave("image", "that is not there left out", f"{place} ({source.name})")
            return False
        if len(self.ids) >= CHECKED:
            return True
        try:
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
                self.modes[image.mode] = self.modes.get(image.mode, 0) + 1
        except Exception as error:  # Pillow's readers raise nearly anything on a broken image
            why = (str(error).splitlines() or [type(error).__name__])[0].partition(" <_io")[0]
            self.leave("image", "that cannot be decoded left out", f"{place} ({why})")
            return False
        return True

    def notes(self) -> list[str]:
        """What was left out or changed, in words."""
        notes = [said(f"{count(len(places), noun)} {why}", places) for (noun, why), places in self.left.items()]
        other = {mode: n for mode, n in self.modes.items() if mode != "RGB"}
        if other:
            modes = ", ".join(f"{n:,} {mode}" for mode, n in sorted(other.items()))
            notes.append(f"{count(sum(other.values()), 'image')} had another mode than RGB ({modes}): converted")
        if self.twice:
            notes.append(
                f"{count(self.twice, 'caption')} repeat another one: false negatives where both are in a batch"
            )
        return notes

    def captioned(self, name: str, path: Path, images: Encoded, size: int, notes: Sequence[str] = ()) -> Captioned:
        """What was kept."""
        every = (*notes, *self.notes())
        if not self.ids:
            raise ValueError(f"{path} holds no images with captions: {'; '.join(every) or 'there is nothing in it'}.")
        columns = (self.ids, self.starts, self.lengths, self.first, self.counts)
        ids, starts, lengths, first, counts = (torch.frombuffer(c, dtype=torch.int64).clone() for c in columns)
        text = Stored(self.text, path)
        return Captioned(name, ids, images, text, starts, lengths, first, counts, size, self.places, every)


def read(
    path: Path,
    split: str = "train",
    size: int = 224,
    image: str | None = None,
    caption: str | None = None,
    longest: int = 10_000,
    name: str | None = None,
) -> Captioned:
    """One split: SPLIT.parquet or SPLIT-*.parquet in a folder (or in its `data`), SPLIT.csv, .tsv, .jsonl, or one file.

    `image` and `caption` name the columns; by default the usual names are looked for. A table's paths are relative to
    it; rows with the same path are captions of one image. Images are brought to `size`×`size` when they are decoded.
    """
    at_least(1, size=size, longest=longest)
    path = Path(path)
    title = name or path.name.split(".")[0]
    table = _table(path, split)
    with tempfile.TemporaryFile() as text:
        sieve = Sieve(text, longest)
        if table is not None:
            corpora.must_be_text(table)
            rows = (
                _json_rows(table, image, caption) if corpora.form(table) == ".jsonl" else _rows(table, image, caption)
            )
            images: Encoded = _of_table(table, rows, sieve)
            return sieve.captioned(title, table, images, size)
        from isotherm.data.sources import parquet  # noqa: PLC0415 - extra `parquet`

        paths = parquet.files(path, split)
        with tempfile.TemporaryFile() as pixels:
            images = _of_parquet(paths, sieve, pixels, split, image, caption)
        return sieve.captioned(title, path, images, size)


def _table(path: Path, split: str) -> Path | None:
    """The table of a split, if it is one."""
    if path.is_dir():
        there = [path / f"{split}{ending}" for ending in TABLES]
        return next((table for table in there if table.is_file()), None)
    if corpora.form(path) in TABLES:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        if split != "train":
            raise NoSplit(f"{path} is one file: it has no split '{split}', all of it is 'train'.")
        return path
    return None


def column(there: Sequence[str], asked: str | None, usual: Sequence[str], what: str, path: Path) -> str:
    """The column of images or of captions."""
    if asked is not None and asked in there:
        return asked
    known = [name for name in usual if name in there] if asked is None else []
    if not known:
        wanted = f"no column '{asked}'" if asked is not None else f"no column of {what}s such as '{usual[0]}'"
        raise ValueError(f"{path} has {wanted}; it has: {', '.join(there) or 'none'}. Name it: {what}=NAME.")
    return known[0]


Row = tuple[str, str, list[bytes]]
"""Where it stands, the image's path as it is written (empty: none), its captions."""


def _rows(path: Path, image: str | None, caption: str | None) -> Iterator[Row]:
    """Rows of a csv or tsv file."""
    delimiter = "\t" if corpora.form(path) == ".tsv" else ","
    with corpora.opened(path) as (stream, _):
        lines = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        header = [name.strip() for name in next(csv.reader(lines, delimiter=delimiter), [])]
    columns = [column(header, image, IMAGE, "image", path), column(header, caption, CAPTION, "caption", path)]
    for line, (where, text) in corpora.delimited(delimiter)(path, columns, [], _quiet):
        if where or text:
            yield f"line {line}", where.decode("utf-8", "surrogateescape").strip(), [text]


def _json_rows(path: Path, image: str | None, caption: str | None) -> Iterator[Row]:
    """Objects, one per line; captions are one text or a list of them."""
    keys: tuple[str, str] | None = None
    with corpora.opened(path) as (stream, _):
        for number, content in enumerate(stream, 1):
            if not content.strip():
                continue
            try:
                record = json.loads(content.decode("utf-8-sig", "surrogateescape"))
            except ValueError as error:
                raise ValueError(f"{path}, line {number} is not JSON: {error}.") from error
            if not isinstance(record, dict):
                raise ValueError(f"{path}, line {number}: an object with a path and captions was wanted.")
            if keys is None:
                names = list(record)
                keys = column(names, image, IMAGE, "image", path), column(names, caption, CAPTION, "caption", path)
            where, texts = record.get(keys[0]) or "", record.get(keys[1])
            texts = texts if isinstance(texts, list) else [texts]
            if not isinstance(where, str) or not all(t is None or isinstance(t, str) for t in texts):
                raise ValueError(f"{path}, line {number}: '{keys[0]}' and '{keys[1]}' must be text.")
            yield f"line {number}", where.strip(), [(t or "").encode("utf-8", "surrogateescape") for t in texts]


def _of_table(path: Path, rows: Iterator[Row], sieve: Sieve) -> Files:
    """The images that a table names, each once, with all its captions."""
    together: dict[str, tuple[str, list[bytes]]] = {}
    for place, where, captions in rows:
        if not where:
            sieve.leave("caption", "without an image left out", place)
            continue
        together.setdefault(os.path.normpath(where), (place, []))[1].extend(captions)  # ./a.png is a.png
    paths = []
    for where, (place, captions) in together.items():
        file = path.parent / where
        if sieve.head(file, place) and sieve.add(stable_id(where), place, captions):
            paths.append(file)
    return Files(tuple(paths))


def _of_parquet(
    paths: Sequence[Path], sieve: Sieve, pixels: IO[bytes], split: str, image: str | None, caption: str | None
) -> Pieces:
    """The hub's layout. Encoded images are copied out, since a table's compressed pages have no place for each."""
    from isotherm.data.sources import parquet  # noqa: PLC0415

    base = 0 if split == "train" else stable_id(split) >> 31 << 31
    starts, lengths, end, row = array("q"), array("q"), 0, 0
    for path in paths:
        opened = parquet.open_file(path)
        names = opened.schema_arrow.names
        of_image = parquet.image_column(opened.schema_arrow, path) if image is None or image not in names else image
        of_text = column(names, caption, CAPTION, "caption", path)
        for encoded, captions in _parquet_rows(opened, path, of_image, of_text):
            place = f"row {row}" if len(paths) == 1 else f"{path.name}, row {row}"
            if sieve.head(encoded, place) and encoded is not None and sieve.add(base + row, place, captions):
                starts.append(end)
                lengths.append(len(encoded))
                end += pixels.write(encoded)
            row += 1
    files = (Stored(pixels, paths[0]),)
    where = [torch.tensor(part.tolist(), dtype=torch.int64) for part in (starts, lengths)]
    return Pieces(files, torch.zeros(len(starts), dtype=torch.int64), *where)


def _parquet_rows(opened: Any, path: Path, image: str, caption: str) -> Iterator[tuple[bytes | None, list[bytes]]]:
    import pyarrow as pa  # noqa: PLC0415

    kind = opened.schema_arrow.field(caption).type
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    inner = kind.value_type if listed else kind
    if not (pa.types.is_string(inner) or pa.types.is_large_string(inner)):
        raise ValueError(f"{path}: column '{caption}' is {kind}; captions are text, or lists of it.")
    as_bytes = pa.large_list(pa.large_binary()) if listed else pa.large_binary()
    try:
        for batch in opened.iter_batches(BATCH, columns=[f"{image}.bytes", caption]):
            encoded = batch.column(0).field("bytes").to_pylist()
            # As bytes: Arrow believes a file that says its text is UTF-8.
            texts = batch.column(1).cast(as_bytes).to_pylist()
            for one, text in zip(encoded, texts, strict=True):
                captions = text if listed else [text]
                yield one, [t or b"" for t in captions or []]
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def _quiet(stage: str, done: int = 0, total: int | None = None) -> None:
    pass
