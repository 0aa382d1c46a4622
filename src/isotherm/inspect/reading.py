"""Embeddings, labels and second views from files, checked.

What had to be changed on the way in (integers made floats, rows left out) is said as a finding.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotherm.checks import did_you_mean
from isotherm.inspect.column import FLOATS, LABEL_KEYS, Array, Column
from isotherm.inspect.dimensions import left_out
from isotherm.inspect.formats import arrays
from isotherm.inspect.tables import other_separator
from isotherm.inspect.transposed import transposed
from isotherm.report import Finding, number

LIMIT = 250_000
"""Rows above which all pairs take many minutes: then the reader asks for a sample."""
EMBEDDING_KEYS = ("embeddings", "embedding", "z", "features", "x")


@dataclass(frozen=True, eq=False)
class Embedding:
    """What was read: rows to examine, and what belongs to them."""

    name: str
    z: Tensor
    """(N, D), float32."""
    labels: Tensor | None
    """(N,): indices in `classes`; −1 for no label."""
    classes: tuple[str, ...]
    views: Tensor | tuple[Tensor, Tensor] | None
    """(N, D): another view of each item; or two views of each."""
    rows: Tensor
    """(N,): which rows of the file these are."""
    total: int
    """How many rows the file has."""
    notes: tuple[Finding, ...]
    dimensions: tuple[str, ...] = ()
    """Of a table with a column a dimension: their names."""
    ids: tuple[Any, ...] = ()
    """Of the items, where the file has them, as `isotherm embed` writes them."""


@dataclass(frozen=True)
class Reading:
    """What `read` may be told, for those who pass it on."""

    labels: str | Path | None = None
    views: str | Path | None = None
    key: str | None = None
    sample: int | None = None
    seed: int = 0
    drop: bool = False

    def read(self, path: Path | str) -> Embedding:
        return read(path, self.labels, self.views, self.key, self.sample, self.seed, self.drop)

    def beside(self) -> list[Path]:
        """Other files that are read."""
        return [*files_named(self.labels), *files_named(self.views)]


def files_named(said: str | Path | None) -> list[Path]:
    """The file that FILE or FILE:KEY names; none where it is a key of another."""
    return [p for p in (Path(str(said)), Path(str(said).rpartition(":")[0])) if p.is_file()][:1]


LARGEST_FLOAT = 2.0**53
"""Whole numbers up to here are exact as float64."""
WHOLE = Reading()
"""The file as it is."""


def read(
    path: Path | str,
    labels: str | Path | None = None,
    views: str | Path | None = None,
    key: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    drop: bool = False,
) -> Embedding:
    """The embeddings of a file, with labels and a second view if there are any.

    `labels` and `views` name a key or column of the same file, another file, or `FILE:KEY`. `sample` takes that many
    rows, chosen by `seed`. `drop` leaves out rows that are not finite, zero, or without a label, which are an error
    otherwise.
    """
    path = Path(path)
    columns = arrays(path)
    name, column = _matrix(path, columns, key)
    if str(labels) in column.dimensions:
        column = column.without(str(labels))
    total, d = column.shape
    notes: list[Finding] = []
    rows = _chosen(path, total, d, sample, seed, notes)
    z = _floats(column.take(rows), str(path), notes)
    codes: Tensor | None = None
    classes: tuple[str, ...] = ()
    missing = torch.zeros(len(z), dtype=torch.bool)
    if result := _beside(path, columns, labels, "labels", LABEL_KEYS, notes, but=name):
        codes, classes, missing = _classes(_as_many(result[0], result[1], total, rows), result[0])
    notes += left_out(columns, column, [str(views), *(result or ())[:1]])
    second = None
    if views is not None and (other := _beside(path, columns, views, "views", (), notes, but=name)):
        if len(other[1].shape) != 2 or other[1].shape[1] != d:
            raise ValueError(f"views must be {d} wide like the embeddings, {other[0]} has shape {other[1].shape}.")
        second = _floats(_as_many(other[0], other[1], total, rows), other[0], notes)
    indices = torch.arange(total) if rows is None else torch.from_numpy(rows)
    title = path.name if not name else f"{path.name}:{name}"
    ids = columns["ids"].take(rows).tolist() if "ids" in columns and columns["ids"].shape == (total,) else ()
    whole = Embedding(title, z, codes, classes, second, indices, total, (), column.dimensions, tuple(ids))
    return _usable(whole, missing, str(path), drop, notes)


def of_arrays(z: Any, labels: Any = None, views: Any = None, name: str = "embedding", drop: bool = False) -> Embedding:
    """What `read` gives of a file, of arrays: torch's, numpy's, or anything that knows ``__array__``."""
    notes: list[Finding] = []
    raw = _in_memory(z)
    if raw.ndim != 2 or raw.shape[1] < 2:
        raise ValueError(f"{name}: embeddings must have shape (n, d) with d of 2 or more, got {tuple(raw.shape)}.")
    _chosen(Path(name), len(raw), raw.shape[1], len(raw), 0, notes)
    codes: Tensor | None = None
    classes: tuple[str, ...] = ()
    missing, second = torch.zeros(len(raw), dtype=torch.bool), None
    if labels is not None:
        codes, classes, missing = _classes(_in_memory(labels), "labels")
        if len(codes) != len(raw):
            raise ValueError(f"labels has {len(codes):,} rows for {len(raw):,} embeddings.")
    if views is not None:
        other = _in_memory(views)
        if tuple(other.shape) != tuple(raw.shape):
            raise ValueError(
                f"views must have the shape of the embeddings, {tuple(raw.shape)}; got {tuple(other.shape)}."
            )
        second = _floats(other, "views", notes)
    rows = torch.arange(len(raw))
    whole = Embedding(name, _floats(raw, name, notes), codes, classes, second, rows, len(raw), ())
    return _usable(whole, missing, name, drop, notes)


def _in_memory(array: Any) -> Any:
    """A tensor on the processor, or an array of numpy's."""
    if isinstance(array, Tensor):
        return array.detach().cpu()
    return np.asarray(array)


def _usable(whole: Embedding, missing: Tensor, source: str, drop: bool, notes: list[Finding]) -> Embedding:
    """The rows that can be used, with what is to be said of all of it; an error unless the others may be dropped."""
    keep = _sound(whole.z, whole.rows, source, drop, notes)
    keep &= _kept(missing, "have no label", whole.rows, "labels", drop, notes)
    if isinstance(whole.views, Tensor):
        keep &= _sound(whole.views, whole.rows, "views", drop, notes)
    if int(keep.sum()) < 2:
        raise ValueError(f"{source} has {int(keep.sum())} usable embeddings; at least 2 are needed.")
    if said := transposed(whole.z[keep], whole.total):
        notes.append(said)
    parts: dict[str, Any] = {"notes": tuple(notes)}
    if not keep.all():
        parts |= {part: getattr(whole, part)[keep] for part in ("z", "rows")}
        beside = {part: getattr(whole, part) for part in ("labels", "views")}
        parts |= {part: None if value is None else value[keep] for part, value in beside.items()}
        parts["ids"] = tuple(itertools.compress(whole.ids, keep.tolist()))
    return dataclasses.replace(whole, **parts)


def seconds_for(n: int, d: int) -> float:
    """About how long all pairs of so many rows take, on two cores that have nothing else to do."""
    return (n / 50_000) ** 2 * (d / 128) * 10


def _chosen(path: Path, total: int, d: int, sample: int | None, seed: int, notes: list[Finding]) -> Array | None:
    """Which rows are to be read, None for all; what is to be said of it."""
    if sample is not None and sample < 2:
        raise ValueError(f"a sample needs at least 2 rows, got {sample}.")
    if sample is None and total > LIMIT:
        hours = seconds_for(total, d) / 3600
        raise ValueError(
            f"{path} holds {total:,} embeddings; all pairs of them would take about {number(hours, 2)} hours. "
            f"Give a sample, such as --sample 50000 (or --sample {total} for all of them)."
        )
    rows = None
    if sample is not None and sample < total:
        rows = np.sort(np.random.default_rng(seed).choice(total, sample, replace=False))
        examined = f"{sample:,} of the file's {total:,} rows were examined."
        notes.append(Finding("look", examined, f"seed {seed}", remark=True))
    return rows


def _matrix(path: Path, columns: Mapping[str, Column], key: str | None) -> tuple[str, Column]:
    """The array that holds the embeddings."""
    shapes = ", ".join(f"{name or 'one of shape'} {_shape(c)}" for name, c in list(columns.items())[:12])
    if columns and all(0 in column.shape for column in columns.values()):
        raise ValueError(f"{path} is empty: it has {shapes}. Embeddings are a 2-D array, one row per item.")
    if key is not None:
        if key not in columns:
            raise ValueError(f"{path} has no '{key}'{did_you_mean(key, columns, [shapes], lead='it holds')}")
        name = key
    else:
        fit = [name for name, c in columns.items() if len(c.shape) == 2 and c.shape[1] > 1]
        known = [name for name in EMBEDDING_KEYS if name in fit]
        thin = [c.shape for c in columns.values() if len(c.shape) == 2]
        if not fit and thin:
            n = thin[0][0]
            raise ValueError(f"{path} holds {n:,} × 1: one number an item; an embedding has 2 dimensions or more.")
        if not fit:
            raise ValueError(
                f"{path} holds no embeddings: a 2-D array is wanted, one row per item; it has {shapes or 'nothing'}."
                f"{other_separator(path)}"
            )
        if len(fit) > 1 and not known:
            raise ValueError(f"{path} holds several arrays; say which with --key: {shapes}.")
        name = known[0] if known else fit[0]
    column = columns[name]
    if len(column.shape) != 2 or column.shape[1] < 2:
        raise ValueError(f"{path}: embeddings must have shape (n, d) with d of 2 or more, got {tuple(column.shape)}.")
    return name, column


def _shape(column: Column) -> str:
    """3×4 of an array in two dimensions or more, (3,) of others."""
    return "×".join(map(str, column.shape)) if len(column.shape) > 1 else str(column.shape)


def _beside(
    path: Path,
    columns: Mapping[str, Column],
    wanted: str | Path | None,
    what: str,
    usual: Sequence[str],
    notes: list[Finding],
    but: str,
) -> tuple[str, Column] | None:
    """The labels or views: a key of the same file, another file, or FILE:KEY; unasked, a key with a usual name."""
    if wanted is None:
        for name in usual:
            if name in columns and name != but and len(columns[name].shape) == 1:
                notes.append(Finding("good", f"Labels were taken from '{name}' in the same file."))
                return name, columns[name]
        return None
    text = str(wanted)
    if text in columns:
        return text, columns[text]
    file, key = (
        (Path(text), None)
        if Path(text).exists() or ":" not in text
        else (
            Path(text.rpartition(":")[0]),
            text.rpartition(":")[2],
        )
    )
    if not file.exists():
        keys = [name for name in columns if name not in ("", FLOATS)]
        beside = f", and nothing of that name in {path.name}{_nearest(text, keys)}" if keys else "."
        raise ValueError(f"{what} '{text}': there is no such file{beside}")
    result = arrays(file)
    if key is None:
        fit = [name for name, c in result.items() if len(c.shape) == (2 if what == "views" else 1)]
        alone = fit if len(fit) == 1 else list(result) if len(result) == 1 else []
        likely = [name for name in usual if name in fit] or alone
        if not likely:
            raise ValueError(f"{file} holds several arrays; say which: {file}:KEY with KEY one of {', '.join(result)}.")
        key = likely[0]
    elif key not in result:
        raise ValueError(f"{file} has no '{key}'{_nearest(key, list(result))}")
    return f"{file}:{key}" if key else str(file), result[key]


def _nearest(wanted: str, names: Sequence[str]) -> str:
    """The end of a sentence about a name that is not there; of hundreds of columns it lists a few."""
    listed = [*names[:8], f"… ({len(names):,} in all)"] if len(names) > 9 else names
    return did_you_mean(wanted, names, listed, lead="it has")


def _as_many(name: str, column: Column, total: int, rows: Array | None) -> Any:
    """The column's rows, if it has one for each of the file's embeddings."""
    if not column.shape or column.shape[0] != total:
        turned = " Is it transposed?" if column.shape[-1:] == (total,) else ""
        have = f"{column.shape[0] if column.shape else 1:,} rows for {total:,} embeddings"
        raise ValueError(f"{name} has {have}.{turned}")
    return column.take(rows)


def _floats(raw: Any, name: str, notes: list[Finding]) -> Tensor:
    """Numbers as float32, saying so where that is not a mere change of precision."""
    if isinstance(raw, np.ndarray):
        kind = raw.dtype.kind
        if raw.dtype.str[1:] == "V2":  # how numpy saves bfloat16
            notes.append(Finding("look", f"{name} holds 2-byte numbers of no type; they were read as bfloat16."))
            return torch.from_numpy(np.array(raw).view(np.int16)).view(torch.bfloat16).float()
        if kind not in "iuf":
            raise ValueError(f"{name} must hold real numbers, got {raw.dtype}.")
        integer = kind in "iu"
        with np.errstate(over="ignore"):  # what is too large for float32 is told as rows that are not finite
            z = torch.from_numpy(np.array(raw, dtype=np.float32))
    else:
        if raw.is_complex() or raw.dtype == torch.bool:
            raise ValueError(f"{name} must hold real numbers, got {raw.dtype}.")
        integer = not raw.is_floating_point()
        z = raw.to(torch.float32, copy=True)
    if integer:
        said = str(raw.dtype).removeprefix("torch.")
        notes.append(
            Finding(
                "look",
                f"{name} holds {said}, as quantised embeddings do; the numbers were taken as they are. "
                "If a scale or zero point belongs to them, apply it first.",
            )
        )
    return z.contiguous()


def _sound(z: Tensor, indices: Tensor, name: str, drop: bool, notes: list[Finding]) -> Tensor:
    """Which rows can be used; an error unless the others may be dropped."""
    keep = torch.ones(len(z), dtype=torch.bool)
    for bad, what in (
        (~torch.isfinite(z).all(1), "NaN, infinite or missing numbers"),
        ((z == 0).all(1), "nothing but zeros, which have no direction"),
    ):
        keep &= _kept(bad, f"hold {what}", indices, name, drop, notes)
    return keep


def _kept(bad: Tensor, what: str, indices: Tensor, name: str, drop: bool, notes: list[Finding]) -> Tensor:
    """The rows that are not bad; an error unless those may be dropped."""
    count = int(bad.sum())
    if count:
        which = indices[bad][:5].tolist()
        said = f"{count:,} of {len(bad):,} rows {what}: row{'s' * (len(which) > 1)} "
        said += ", ".join(map(str, which)) + (" …" if count > 5 else "")
        if not drop:
            raise ValueError(f"{name}: {said}. Mend them, or leave them out with --drop (in Python drop=True).")
        notes.append(Finding("bad", f"{said}. They were left out.", "rows are counted from 0"))
    return ~bad


def _classes(raw: Any, name: str) -> tuple[Tensor, tuple[str, ...], Tensor]:
    """Labels of any type as indices in a list of class names, −1 for no label; and which of them are missing."""
    labels = raw.numpy() if isinstance(raw, Tensor) else np.asarray(raw)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(
            f"labels must be one per row; {name} has shape {labels.shape}. Of one-hot rows take the argmax."
        )
    missing = _missing(labels)
    there = labels[~missing]
    if labels.dtype.kind == "f":
        if not np.isfinite(there).all() or (there != np.round(there)).any():
            raise ValueError(f"labels must be classes: integers or texts; {name} holds fractions or infinities.")
        if (np.abs(there) > LARGEST_FLOAT).any():
            raise ValueError(f"{name}: labels beyond 2⁵³ are not exact as floats; save them as integers or texts.")
        there = there.astype(np.int64)
    if labels.dtype.kind == "O":
        there = np.array([str(label) for label in there], dtype=object if _long(there) else None)
    if labels.dtype.kind == "S":
        there = np.char.decode(there, "utf-8", "replace")
    kinds, codes = np.unique(_whole(there), return_inverse=True)
    unknown = [str(k) for k in kinds[:1]] == ["-1"] and all(str(k).lstrip("-").isdecimal() for k in kinds)
    whole = np.full(len(labels), -1, dtype=np.int64)
    whole[~missing] = codes - unknown
    return torch.from_numpy(whole), tuple(str(k) for k in kinds[int(unknown) :]), torch.from_numpy(missing)


def _long(texts: Array) -> bool:
    """Whether one is so long that an array in which each takes as much would be large."""
    return max((len(str(text)) for text in texts), default=0) > 1000


def _whole(texts: Array) -> Array:
    """Texts that are all whole numbers, some with a decimal point, without it: 1.0 is the class 1."""
    if texts.dtype.kind != "U" or not all(re.fullmatch(r"-?\d+(\.0*)?", text) for text in set(texts.tolist())):
        return texts
    return np.array([text.partition(".")[0] for text in texts.tolist()])


def _missing(labels: Array) -> Array:
    """Where a label is not there: None, NaN, or an empty text."""
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind in "OUS":
        return np.array([label is None or label in ("", b"") or str(label) == "nan" for label in labels], dtype=bool)
    return np.zeros(len(labels), dtype=bool)
