"""Arrays in tables, a row per item: .parquet, .feather, .csv, .tsv, .jsonl; labels as lines of text."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from isotherm import files
from isotherm.inspect.column import FLOATS, LABEL_KEYS, Array, Column, at_hand
from isotherm.inspect.dimensions import Kind, dimensions, is_number, kind_of, numbers_of

LONG = 1000
"""Letters beyond which a text is no label that many items have, nor a number."""
Batches = Callable[[list[str]], Iterator[Any]]
"""The batches of these columns of a file, in order, as pyarrow has them."""


def parquet(path: Path) -> dict[str, Column]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - extra `parquet`

    with pq.ParquetFile(path) as file:
        schema, n = file.schema_arrow, file.metadata.num_rows

    def batches(names: list[str]) -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=1 << 16, columns=names)

    return _arrow(path, schema, n, batches)


def feather(path: Path) -> dict[str, Column]:
    """Arrow's own file format, which pandas and polars call feather."""
    import pyarrow as pa  # noqa: PLC0415 - extra `parquet`

    with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as file:
        schema, n = file.schema, file.count_rows()

    def batches(names: list[str]) -> Iterator[Any]:
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as file:
            for i in range(file.num_record_batches):
                yield file.get_batch(i).select(names)

    return _arrow(path, schema, n, batches)


def _arrow(path: Path, schema: Any, n: int, batches: Batches) -> dict[str, Column]:
    """Lists of numbers as one array each; columns of numbers together, where there are no lists."""
    import pyarrow as pa  # noqa: PLC0415 - extra `parquet`

    def chosen(names: list[str], rows: Array | None) -> Iterator[Any]:
        """The wanted rows of these columns."""
        start = 0
        for batch in batches(names):
            end = start + len(batch)
            if rows is None:
                yield batch
            else:
                inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
                yield batch.take(pa.array(inside - start))
            start = end

    def vectors(name: str, width: int) -> Callable[[Array | None], Array]:
        def take(rows: Array | None) -> Array:
            return np.concatenate([_stacked(path, name, b.column(0), width) for b in chosen([name], rows)])

        return take

    def plain(name: str) -> Callable[[Array | None], Array]:
        return lambda rows: np.concatenate([_exact(b.column(0)) for b in chosen([name], rows)])

    _refuse_twice(path, schema.names)
    columns: dict[str, Column] = {}
    kinds: dict[str, Kind] = {}
    listed = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    for field in schema:
        if any(check(field.type) for check in listed):
            width = _width(batches([field.name]))
            columns[field.name] = Column((n, width), vectors(field.name, width))
        else:
            columns[field.name] = Column((n,), plain(field.name))
            whole = pa.types.is_integer(field.type)
            kinds[field.name] = "fractions" if pa.types.is_floating(field.type) else "whole" if whole else "other"
    wide = [] if any(len(c.shape) == 2 for c in columns.values()) else dimensions(kinds)
    if wide:

        def together(rows: Array | None) -> Array:
            parts = [np.stack([c.to_numpy(zero_copy_only=False) for c in b.columns], 1) for b in chosen(wide, rows)]
            return np.concatenate(parts)

        columns[FLOATS] = Column((n, len(wide)), together, dimensions=tuple(wide))
    return columns


def _exact(column: Any) -> Array:
    """A column as an array; whole numbers of which some are missing stay whole, which in float64 large ones do not."""
    import pyarrow as pa  # noqa: PLC0415 - extra `parquet`

    if column.null_count and pa.types.is_integer(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _stacked(path: Path, name: str, column: Any, width: int) -> Array:
    """A column of lists as an array; what is missing is no number."""
    import pyarrow.compute as pc  # noqa: PLC0415 - extra `parquet`

    there = column.is_valid().to_numpy(zero_copy_only=False)
    flat = column.drop_null().flatten().to_numpy(zero_copy_only=False)
    widths = pc.list_value_length(column).fill_null(width).to_numpy(zero_copy_only=False)
    if len(flat) != there.sum() * width or (widths != width).any():
        raise ValueError(f"{path}: the rows of column '{name}' are not all {width} wide.")
    if there.all():
        return flat.reshape(-1, width)  # type: ignore[no-any-return]
    part = np.full((len(there), width), np.nan)
    part[there] = flat.reshape(-1, width)
    return part


def _width(batches: Iterator[Any]) -> int:
    """How many numbers the first row of a column has that is not missing."""
    for batch in batches:
        there = batch.column(0).drop_null()
        if len(there):
            return len(there[0].as_py())
    return 0


def json_lines(path: Path) -> dict[str, Column]:
    """An object per line: lists of numbers are arrays, plain values columns; other values are left out."""
    rows: dict[int, dict[str, Any]] = {}
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise ValueError(f"{path}: line {number} is no object of JSON ({{…}}).")
            rows[number] = row
    names = dict.fromkeys(name for row in rows.values() for name in row)
    values = {name: {number: row.get(name) for number, row in rows.items()} for name in names}
    return {name: column for name in names if (column := _values(path, name, values[name]))}


def _values(path: Path, name: str, by_line: dict[int, Any]) -> Column | None:
    """One key of every line; a list that is missing is no number."""
    values = list(by_line.values())
    width = next((len(value) for value in values if isinstance(value, list)), None)
    if width is None:
        if not all(isinstance(value, str | int | float | None) for value in values):
            return None
        whole = all(isinstance(value, int) for value in values)
        return at_hand(np.array(values, dtype=np.int64 if whole else object))
    nothing = [np.nan] * width
    lists = [nothing if value is None else value for value in values]
    for line, value in zip(by_line, lists, strict=True):
        if not isinstance(value, list) or len(value) != width:
            raise ValueError(f"{path}: the values of '{name}' are not all lists of {width} numbers: line {line}.")
    try:
        array = np.array(lists, dtype=np.float64)
    except (TypeError, ValueError) as error:
        wrong = (line for line, value in by_line.items() if value and not all(map(_is_real, value)))
        said = "".join(f" in line {line}" for line in islice(wrong, 1))
        raise ValueError(f"{path}: '{name}' holds something that is no number{said}.") from error
    return at_hand(array)


def _is_real(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def lines(path: Path) -> dict[str, Column]:
    return {"": at_hand(_texts(files.lines(path)))}


def _texts(values: Sequence[str]) -> Array:
    """As an array, in which every text takes as much room as the longest: not of long ones."""
    return np.array(values, dtype=object if max(map(len, values), default=0) > LONG else None)


def csv_columns(path: Path) -> dict[str, Column]:
    """Columns of texts, under the names in the first line; a single column, and numbers only, may do without.

    Columns of numbers are one array, too: an embedding with a column a dimension.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        table = list(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    while table and not table[-1]:
        table.pop()
    headed = True
    single = max(map(len, table), default=0) == 1  # there an empty line is a value that is missing
    table = [row or [""] for row in table] if single else [row for row in table if row]
    if len({len(row) for row in table}) > 1:
        raise ValueError(f"{path} has rows of different lengths.{other_separator(path)}")
    numbering = [str(i) for i in range(len(table[0]))] if len(table) > 1 else []  # as pandas heads what has no names
    if table and len(table[0]) == 1 and table[0][0].lower() not in LABEL_KEYS:
        table.insert(0, [""])
    elif table and not (headed := table[0] == numbering or not all(map(is_number, table[0]))):
        table.insert(0, [str(i) for i in range(len(table[0]))])
    _refuse_twice(path, table[0] if table else [])
    columns = {str(name): _texts(values) for name, *values in zip(*table, strict=True)}
    result = {name: at_hand(values) for name, values in columns.items()}
    wide = dimensions({name: kind_of(values) for name, values in columns.items()}, headed)
    if wide:
        together = np.stack([numbers_of(columns[name]) for name in wide], 1)
        result[FLOATS] = replace(at_hand(together), dimensions=tuple(wide))
    return result


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    """Refuse columns of one name, of which one alone would be seen."""
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise ValueError(f"{path} has more than one column '{twice[0]}'; give each a name of its own.")


def other_separator(path: Path) -> str:
    """What to do about a table whose columns stand apart by something else than its ending says."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return ""
    with path.open(encoding="utf-8") as file:
        first = [line for _, line in zip(range(3), file, strict=False)]
    wanted = "," if path.suffix.lower() == ".csv" else "\t"
    for sign, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
        if sign != wanted and first and all(sign in line for line in first):
            right = "commas, and decimal points in its numbers" if wanted == "," else "tabs"
            return f" Its columns seem to be separated by {name}: save it with {right}."
    return ""
