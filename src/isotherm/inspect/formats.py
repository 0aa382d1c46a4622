"""Arrays in files: .npy, .npz, .pt, .safetensors, and tables (`tables`). Large files are mapped, not loaded.

Files are data: nothing in them is executed, so pickles are refused.
"""

from __future__ import annotations

import itertools
import math
import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotherm.data.declared import believable, fits, npz_arrays
from isotherm.data.stored import watched
from isotherm.inspect import tables
from isotherm.inspect.column import Array, Column, at_hand

KNOWN = ".npy, .npz, .pt, .parquet, .feather, .safetensors, .csv, .tsv, .jsonl"
PICKLES = (".pkl", ".pickle", ".joblib", ".p")
PICKLE = "it is a Python pickle, which can run any program when it is opened. Save the array with numpy.save instead."


def arrays(path: Path) -> dict[str, Column]:
    """The arrays in a file, by key ('' for the only one)."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; an embedding file is wanted ({KNOWN}). A run: isotherm evaluate {path}")
    if not path.exists():
        raise ValueError(f"there is no file {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is no file but a pipe or a device, which is not read.")
    kind = path.suffix.lower()
    if kind in PICKLES:
        raise ValueError(f"{path} is refused: {PICKLE}")
    readers = {
        ".npy": _npy,
        ".npz": _npz,
        ".pt": _pt,
        ".pth": _pt,
        ".parquet": tables.parquet,
        ".feather": tables.feather,
        ".arrow": tables.feather,
        ".safetensors": _safetensors,
        ".txt": tables.lines,
        ".csv": tables.csv_columns,
        ".tsv": tables.csv_columns,
        ".jsonl": tables.json_lines,
        ".ndjson": tables.json_lines,
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

    return Column(column.shape, take, dimensions=column.dimensions)


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
            columns[str(name)] = at_hand(np.asarray(value))
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
    return Column(tuple(value.shape), at_hand(value).take, wrong)


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
