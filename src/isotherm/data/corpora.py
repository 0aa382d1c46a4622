"""Files of sentences, row by row: csv, tsv, json lines, parquet, packed or not; and what is refused as no text at all.

A row is the line it begins on, counted from 1, and one field a column as the bytes that the file holds. Whether they
are UTF-8 is judged by who asks for them: one bad line must not stop a reader of millions.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from isotherm import extras
from isotherm.data.sources.reading import damaged

if TYPE_CHECKING:
    from isotherm.data.fetch import Note

Row = tuple[int, tuple[bytes, ...]]
Reader = Callable[[Path, Sequence[str] | None, list[str], "Note"], Iterator[Row]]
"""(path, columns, notes, note): a reader adds to `notes` what the reader of results should know."""

LOOK = 1 << 20
"""Bytes at the beginning of a file that are looked at before it is believed to be text."""
FIELD = 1 << 24
"""Characters in a field of a csv file: more, and a quote was never closed."""
EVERY = 1 << 14
"""Rows between two words about progress, and rows of parquet in memory."""
USUAL = ("sentence", "text", "sent0")
"""Columns that are taken when nobody says which."""
_FOREIGN = {
    codecs.BOM_UTF32_LE: "utf-32",  # begins like UTF-16's
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def form(path: Path) -> str:
    """The ending that says how to read a file: `.csv` of both a.csv and a.csv.gz."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes] | gzip.GzipFile, IO[bytes]]]:
    """The bytes of a file, unpacked if its name ends in .gz; and the file itself, whose place tells the progress."""
    with open(path, "rb") as file:
        if path.suffix != ".gz":
            yield file, file
            return
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked, file
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise damaged(path, error) from error


def must_be_text(path: Path) -> None:
    """Refuse a file whose beginning is not UTF-8 text, and say how to make it so."""
    with opened(path) as (stream, _):
        head = stream.read(LOOK)
    if not head:
        raise ValueError(f"{path} is empty; a file of sentences was wanted.")
    for mark, name in _FOREIGN.items():
        if head.startswith(mark):
            raise ValueError(f"{path} is {name.upper()}, not UTF-8. Convert it: {_convert(name, path)}")
    if (at := head.find(b"\0")) >= 0:
        raise ValueError(f"{path} is no text file: byte {at} is NUL. If it is UTF-16: {_convert('utf-16le', path)}")
    if len(head) == LOOK:  # it goes on: the last line may be half a line
        head = head[: head.rfind(b"\n")] if b"\n" in head else whole_characters(head)
    try:
        head.decode()
    except UnicodeDecodeError as error:
        lines = head.removesuffix(b"\n").split(b"\n")
        bad = sum(not _decodes(line) for line in lines)
        if 2 * bad > len(lines):
            line = head.count(b"\n", 0, error.start) + 1
            raise ValueError(
                f"{path} is not UTF-8: {bad:,} of its first {len(lines):,} lines are not, "
                f"line {line} because of byte {head[error.start]:#04x}. It seems to be Latin-1 or Windows-1252; "
                f"convert it: {_convert('latin1', path)}"
            ) from None


def whole_characters(head: bytes) -> bytes:
    """The beginning of a UTF-8 text without the character it was cut in."""
    for back in range(1, min(4, len(head)) + 1):
        if head[-back] >= 0xC0:  # a character's first byte, which says how many there are
            lead = head[-back]
            return head if back == 2 + (lead >= 0xE0) + (lead >= 0xF0) else head[:-back]
        if head[-back] < 0x80:
            break
    return head


def delimited(delimiter: str) -> Reader:
    """Rows of fields with a header line; a quoted field may hold delimiters and newlines."""

    def rows(path: Path, columns: Sequence[str] | None, notes: list[str], note: Note) -> Iterator[Row]:
        with opened(path) as (stream, file), _long_fields():
            # What is no UTF-8 comes through as it is, to be judged row by row.
            lines = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            table = csv.reader(lines, delimiter=delimiter, strict=True)
            total, line = path.stat().st_size, 1
            try:
                header = [name.strip() for name in next(table, [])]
                indices = [header.index(column) for column in columns_to_read(header, columns, path, notes)]
                line = table.line_num + 1
                for number, fields in enumerate(table):
                    if fields and len(fields) != len(header):
                        raise ValueError(
                            f"{path}, line {line}: {len(fields)} fields, its header has {len(header)} "
                            f"({', '.join(header)}). Add the missing one, or quote what holds a {delimiter!r}."
                        )
                    cells = [fields[place] for place in indices] if fields else [""] * len(indices)
                    yield line, tuple(field.encode("utf-8", "surrogateescape") for field in cells)
                    line = table.line_num + 1
                    if number % EVERY == 0:
                        note(f"reading {path.name}", file.tell(), total)
            except csv.Error as error:
                raise ValueError(
                    f"{path}, the row that begins on line {line}: {error}. A field that holds a quote must be quoted, "
                    'and the quote doubled ("").'
                ) from error

    return rows


def json_lines(path: Path, columns: Sequence[str] | None, notes: list[str], note: Note) -> Iterator[Row]:
    """One JSON object a line; its keys are the columns."""
    total, keys = path.stat().st_size, None
    with opened(path) as (stream, file):
        for line, content in enumerate(stream, 1):
            raw = content.removeprefix(codecs.BOM_UTF8) if line == 1 else content
            if line % EVERY == 0:
                note(f"reading {path.name}", file.tell(), total)
            if not raw.strip() or not _decodes(raw):
                yield line, (raw,)
                continue
            try:
                record = json.loads(raw)
            except ValueError as error:
                raise ValueError(f"{path}, line {line} is not JSON: {error}.") from error
            if not isinstance(record, dict):
                raise ValueError(
                    f'{path}, line {line}: an object such as {{"sentence": …}} was wanted, got {record!r:.40}.'
                )
            if keys is None:
                keys = columns_to_read(list(record), columns, path, notes)
            yield line, tuple(_text(record, key, path, line) for key in keys)


def _text(record: dict[str, Any], key: str, path: Path, line: int) -> bytes:
    if key not in record:
        raise ValueError(f"{path}, line {line} has no '{key}'; it has: {', '.join(record) or 'nothing'}.")
    value = record[key]
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{path}, line {line}: '{key}' is {value!r:.40}, not text.")
    return (value or "").encode("utf-8", "surrogatepass")  # half a character, \ud83d, is found to be no UTF-8 later


def parquet(path: Path, columns: Sequence[str] | None, notes: list[str], note: Note) -> Iterator[Row]:
    """Columns of text; what is null counts as empty."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - extra `parquet`
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"{path} needs pyarrow: {extras.command('parquet')}", name="pyarrow") from missing
    total, row = path.stat().st_size, 0
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            names = columns_to_read(file.schema_arrow.names, columns, path, notes)
            for name in names:
                kind = file.schema_arrow.field(name).type
                inner = kind.value_type if pa.types.is_dictionary(kind) else kind
                if not (pa.types.is_string(inner) or pa.types.is_large_string(inner)):
                    raise ValueError(f"{path}: column '{name}' is {kind}, not text.")
            for batch in file.iter_batches(EVERY, columns=names):
                # As bytes: Arrow believes a file that says its text is UTF-8.
                fields = [batch.column(name).cast(pa.large_string()).cast(pa.large_binary()) for name in names]
                for cells in zip(*(column.to_pylist() for column in fields), strict=True):
                    row += 1
                    yield row, tuple(field or b"" for field in cells)
                note(f"reading {path.name}", total * row // max(1, file.metadata.num_rows), total)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def columns_to_read(there: Sequence[str], columns: Sequence[str] | None, path: Path, notes: list[str]) -> list[str]:
    """The columns to read: those asked for, else the only one, else the first usual one there is."""
    for name in there if columns is None else columns:
        if name not in there:
            raise ValueError(f"{path} has no column '{name}'; it has: {', '.join(there) or 'none'}.")
        if there.count(name) > 1:
            raise ValueError(f"{path} has {there.count(name)} columns '{name}'. Rename all but one.")
    if columns is not None:
        return list(columns)
    usual = [name for name in USUAL if name in there]
    if len(there) == 1:
        if not usual:
            notes.append(f"'{there[0]}' is taken for the name of the only column, not for a sentence")
        return list(there)
    if not usual:
        raise ValueError(
            f"{path} has the columns {', '.join(there) or '(none)'}. Say which to read by `columns` (in training "
            "--data_options '{columns: [NAME]}'): "
            "one for sentences, two for pairs, three for pairs with a hard negative."
        )
    notes.append(
        f"column '{usual[0]}' of {', '.join(there)} is read; "
        f"two or three of them as columns make pairs (anchor, positive) or triples (…, hard negative)"
    )
    return usual[:1]


READERS: dict[str, Reader] = {
    ".csv": delimited(","),
    ".tsv": delimited("\t"),
    ".jsonl": json_lines,
    ".parquet": parquet,
}
"""By ending. Whatever is not here is plain text, one sentence a line."""


@contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _convert(encoding: str, path: Path) -> str:
    return f"iconv -f {encoding} -t utf-8 {path.name} > utf8-{path.name}"
