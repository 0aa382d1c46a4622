"""Arrays in files: .npy, .npz, .pt, .parquet, .safetensors, and labels as text. Large files are mapped, not loaded.

Files are data: nothing in them is executed, so pickles are refused.
"""

from __future__ import annotations

import csv
import itertools
import math
import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotherm.data.declared import believable, fits, npz_arrays
from isotherm.data.stored import watched

Array = NDArray[Any]
LABEL_KEYS = ("labels", "label", "y", "targets", "target", "class")
FLOATS = "its float columns"
"""The key of an embedding that has a column a dimension."""
KNOWN = ".npy, .npz, .pt, .parquet, .safetensors, .csv, .tsv"
PICKLES = (".pkl", ".pickle", ".joblib", ".p")
PICKLE = "it is a Python pickle, which can run any program when it is opened. Save the array with numpy.save instead."


@dataclass(frozen=True)
class Column:
    """An array in a file that has not been read yet."""

    shape: tuple[int, ...]
    take: Callable[[Array | None], Any]
    """The given rows (all of them for None), as an array or a tensor."""
    refusal: str | None = None
    """Why it cannot be taken."""


def arrays(path: Path) -> dict[str, Column]:
    """The arrays in a file, by key ('' for the only one)."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; an embedding file is wanted ({KNOWN}). A run: isotherm evaluate {path}")
    if not path.exists():
        raise ValueError(f"there is no file {path}.")
    kind = path.suffix.lower()
    if kind in PICKLES:
        raise ValueError(f"{path} is refused: {PICKLE}")
    readers = {
        ".npy": _npy,
        ".npz": _npz,
        ".pt": _pt,
        ".pth": _pt,
        ".parquet": _parquet,
        ".safetensors": _safetensors,
        ".txt": _lines,
        ".csv": _csv,
        ".tsv": _csv,
    }
    if kind not in readers:
        raise ValueError(f"{path}: unknown format '{kind}'; known are {KNOWN}.")
    with _as_sentence(path, kind):
        return {name: _checked(path, kind, column) for name, column in readers[kind](path).items()}


@contextmanager
def _as_sentence(path: Path, kind: str) -> Iterator[None]:
    """Whatever a damaged file makes its reader raise."""
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            raise
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(f"{path} cannot be read as {kind}: {said}.") from error


def _checked(path: Path, kind: str, column: Column) -> Column:
    """A column that is taken only if the file and the memory can hold it, and is as long as was said."""
    file = watched(path)

    def take(rows: Array | None) -> Any:
        if column.refusal is not None:
            raise ValueError(column.refusal)
        each = 4 * math.prod(column.shape[1:])  # as float32, the way it will be examined
        with _as_sentence(path, kind):
            file.check()
            believable(path, each * column.shape[0] if column.shape else 0, path.stat().st_size)
            wanted = column.shape[0] if rows is None and column.shape else 0 if rows is None else len(rows)
            fits(path, each * wanted, "Give a sample, such as --sample 50000.")
            result = column.take(rows)
            if column.shape and len(result) != wanted:
                raise ValueError(f"{path} is damaged: it declares {wanted:,} rows, {len(result):,} came. Replace it.")
            return result

    return Column(column.shape, take)


def _npy(path: Path) -> dict[str, Column]:
    with path.open("rb") as file:
        head = file.read(6)
    if head[:1] == b"\x80":
        raise ValueError(f"{path} is refused: {PICKLE}")
    if head != b"\x93NUMPY":
        raise ValueError(
            f"{path} cannot be read as .npy: it does not begin like one. Text belongs into a .csv or .txt."
        )
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "object" in str(error):
            raise ValueError(f"{path} is refused: it holds Python objects, and {PICKLE}") from error
        raise
    return {"": Column(tuple(array.shape), lambda rows: array if rows is None else _some_rows(array, rows))}


def _some_rows(array: Array, rows: Array) -> Array:
    """A sample of a mapped array; the pages it touched are given back as it goes, or they would fill the memory."""
    parts = []
    for some in np.array_split(rows, -(-len(rows) // 128) or 1):
        parts.append(array[some])
        if isinstance(array, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
            array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
    return np.concatenate(parts)


def _npz(path: Path) -> dict[str, Column]:
    columns = {}
    for name, (shape, dtype) in npz_arrays(path).items():

        def take(rows: Array | None, name: str = name, dtype: np.dtype[Any] = dtype) -> Array:
            if dtype.hasobject:
                raise ValueError(f"{path}:{name} is refused: it holds Python objects, and {PICKLE}")
            with np.load(path, allow_pickle=False) as result:
                array: Array = result[name]
            return array if rows is None else array[rows]

        columns[name] = Column(shape, take)
    return columns


def _pt(path: Path) -> dict[str, Column]:
    try:
        try:
            result = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError as error:
            if "mmap" not in str(error):
                raise
            result = torch.load(path, map_location="cpu", weights_only=True)  # saved in the old way
    except Exception as error:
        if "weights_only" in str(error) or "Weights only" in str(error) or "Unsupported" in str(error):
            raise ValueError(
                f"{path} is refused: it holds Python objects besides tensors, and opening those can run any program. "
                "Save the tensor alone, or a dictionary of tensors."
            ) from error
        raise
    if not isinstance(result, Mapping):
        result = {"": result}
    columns = {}
    for name, value in result.items():
        if isinstance(value, Tensor):
            columns[str(name)] = _tensor(f"{path}:{name}" if name else str(path), value.detach())
        elif isinstance(value, list | tuple) and all(isinstance(v, int | float | str) for v in value):
            columns[str(name)] = _at_hand(np.asarray(value))
    if not columns:
        raise ValueError(f"{path} holds no tensor.")
    return columns


def _tensor(name: str, value: Tensor) -> Column:
    """A tensor; what does not hold a number for each of its places is refused when it is asked for."""
    if value.is_nested:
        raise ValueError(f"{name} cannot be read: it is nested.")
    plain = value.layout == torch.strided
    kinds = {
        "is sparse; save tensor.to_dense()": not plain,
        "is quantised; save tensor.dequantize()": value.is_quantized,
        "is on the device 'meta' and holds no numbers": value.is_meta,
        "repeats numbers that it holds once; save tensor.clone()": plain
        and value.numel() * value.element_size() > value.untyped_storage().nbytes(),
    }
    wrong = next((f"{name} cannot be read: it {what}." for what, is_so in kinds.items() if is_so), None)
    return Column(tuple(value.shape), _at_hand(value).take, wrong)


def _safetensors(path: Path) -> dict[str, Column]:
    from safetensors import safe_open  # noqa: PLC0415 - extra `lab`

    columns = {}
    with safe_open(str(path), framework="pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping
    for name, shape in shapes.items():

        def take(rows: Array | None, name: str = name, n: int = shape[0] if shape else 0) -> Tensor:
            with safe_open(str(path), framework="pt") as file:
                part = file.get_slice(name)
                if rows is None:
                    whole: Tensor = part[:]
                    return whole
                step = 1 << 16  # rows at a time, so that a sample of a large file stays small
                ends = np.searchsorted(rows, np.arange(0, n + step, step))
                return torch.cat(
                    [
                        part[i * step : min((i + 1) * step, n)][rows[a:b] - i * step]
                        for i, (a, b) in enumerate(itertools.pairwise(ends))
                        if b > a
                    ]
                )

        columns[name] = Column(shape, take)
    return columns


def _parquet(path: Path) -> dict[str, Column]:
    import pyarrow as pa  # noqa: PLC0415 - extra `parquet`
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetFile(path) as file:
        schema, n = file.schema_arrow, file.metadata.num_rows

    def batches(names: list[str], rows: Array | None) -> list[Any]:
        """The wanted rows of these columns, one array a column and batch."""
        result, start = [], 0
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1 << 16, columns=names):
                end = start + len(batch)
                if rows is None:
                    result.append(batch)
                else:
                    inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
                    result.append(batch.take(pa.array(inside - start)))
                start = end
        return result

    def vectors(name: str, width: int) -> Callable[[Array | None], Array]:
        def take(rows: Array | None) -> Array:
            parts = []
            for batch in batches([name], rows):
                column = batch.column(0)
                there = column.is_valid().to_numpy(zero_copy_only=False)
                flat = column.drop_null().flatten().to_numpy(zero_copy_only=False)
                if len(flat) != there.sum() * width:
                    raise ValueError(f"{path}: the rows of column '{name}' are not all {width} wide.")
                part = flat.reshape(-1, width)
                if not there.all():  # what is missing is no number
                    part = np.full((len(there), width), np.nan)
                    part[there] = flat.reshape(-1, width)
                parts.append(part)
            return np.concatenate(parts)

        return take

    def plain(name: str) -> Callable[[Array | None], Array]:
        return lambda rows: np.concatenate([b.column(0).to_numpy(zero_copy_only=False) for b in batches([name], rows)])

    columns, wide = {}, []
    listed = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    for field in schema:
        if any(check(field.type) for check in listed):
            width = _width(path, field.name)
            columns[field.name] = Column((n, width), vectors(field.name, width))
        else:
            columns[field.name] = Column((n,), plain(field.name))
            if pa.types.is_floating(field.type):
                wide.append(field.name)
    if len(wide) > 1 and not any(len(c.shape) == 2 for c in columns.values()):

        def together(rows: Array | None) -> Array:
            parts = [np.stack([c.to_numpy(zero_copy_only=False) for c in b.columns], 1) for b in batches(wide, rows)]
            return np.concatenate(parts)

        columns[FLOATS] = Column((n, len(wide)), together)
    return columns


def _width(path: Path, column: str) -> int:
    """How many numbers the first row of a parquet's column has that is not missing."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1024, columns=[column]):
            there = batch.column(0).drop_null()
            if len(there):
                return len(there[0].as_py())
    return 0


def _lines(path: Path) -> dict[str, Column]:
    lines = np.array(path.read_text(encoding="utf-8").splitlines())
    return {"": _at_hand(lines)}


def _csv(path: Path) -> dict[str, Column]:
    """Columns of texts, under the names in the first line; a single column, and numbers only, may do without.

    Columns of fractions are one array, too: an embedding with a column a dimension.
    """
    with path.open(newline="", encoding="utf-8") as file:
        table = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    while table and not table[-1]:
        table.pop()
    single = max(map(len, table), default=0) == 1  # there an empty line is a value that is missing
    table = [row or [""] for row in table] if single else [row for row in table if row]
    if len({len(row) for row in table}) > 1:
        raise ValueError(f"{path} has rows of different lengths.")
    if table and len(table[0]) == 1 and table[0][0].lower() not in LABEL_KEYS:
        table.insert(0, [""])
    elif table and all(map(_is_number, table[0])):
        table.insert(0, [str(i) for i in range(len(table[0]))])
    columns = {str(name): np.array(values) for name, *values in zip(*table, strict=True)}
    result = {name: _at_hand(values) for name, values in columns.items()}
    wide = [values.astype(np.float64) for values in columns.values() if _fractions(values)]
    return result | ({FLOATS: _at_hand(np.stack(wide, 1))} if len(wide) > 1 else {})


def _fractions(values: Array) -> bool:
    """Whether texts are numbers, and not all of them whole, as labels and ids are."""
    return all(map(_is_number, values)) and not all(v.strip().lstrip("+-").isdecimal() for v in values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _at_hand(values: Any) -> Column:
    """A column that is in memory, or mapped into it."""
    return Column(tuple(values.shape), lambda rows: values if rows is None else values[rows])
