"""Tar shards in WebDataset's layout: what they hold, found without reading it, and any part of it by its place.

Files of one key are one sample: ``0001.jpg``, ``0001.cls`` and ``0001.json`` are sample ``0001``, whose parts have the
extensions ``jpg``, ``cls`` and ``json``. The key ends at the first dot of the file's name; the parts of a sample lie
one after another. Where they lie is read from an index beside the shard (``shard-000.idx``, the text that NVIDIA DALI's
``wds2idx`` writes) or, once, from the heads in the tar file; then the index is kept in the cache. Nothing is unpacked.

    shards = open_shards("shards-{000..127}.tar")       # or a folder, or a list of paths
    shards.read(7, "jpg", "jpeg", "png")                # the bytes of the first of these parts that sample 7 has
    shards.keys[7], shards.name(7, "txt"), shards.has("txt")

Without torch: processes that only decode import it.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotherm.data import roots
from isotherm.data.names import Names
from isotherm.data.tar_index import BLOCK, Part, ends_early, read_index, scan, split_name, write_index

MOST_SHARDS = 1_000_000
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


class Shard(NamedTuple):
    """A tar file as it was when it was opened."""

    path: Path
    size: int
    modified: int


class Extents(NamedTuple):
    """Where the parts of one extension lie, a row for each sample; a start of −1: it has no such part."""

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shards:
    """The samples of some shards, in order."""

    shards: tuple[Shard, ...]
    keys: Names
    shard: NDArray[np.int32]
    """which shard each sample lies in"""
    parts: Mapping[str, Extents]
    """by extension, in lower case"""
    spelled: Mapping[str, str]
    """extensions as the first file has them: JPEG"""

    def __len__(self) -> int:
        return len(self.keys)

    def has(self, *extensions: str) -> NDArray[np.bool_]:
        """Of every sample, whether it has a part of one of these extensions."""
        there = np.zeros(len(self), dtype=np.bool_)
        for extension in extensions:
            if extension in self.parts:
                there |= self.parts[extension].starts >= 0
        return there

    def extension(self, row: int, *extensions: str) -> str:
        """The first of these extensions that a sample has a part of."""
        for extension in extensions:
            if extension in self.parts and self.parts[extension].starts[row] >= 0:
                return extension
        own = [e for e, part in self.parts.items() if part.starts[row] >= 0]
        raise ValueError(
            f"{self.shards[self.shard[row]].path}: sample '{self.keys[row]}' has no .{' or .'.join(extensions)}; "
            f"it has: .{', .'.join(own)}."
        )

    def place(self, row: int, *extensions: str) -> tuple[Shard, int, int]:
        """Shard, start and size of the first of these parts that a sample has: what `read_part` takes."""
        part = self.parts[self.extension(row, *extensions)]
        return self.shards[self.shard[row]], int(part.starts[row]), int(part.sizes[row])

    def read(self, row: int, *extensions: str) -> bytes:
        """The bytes of the first of these parts that a sample has."""
        shard, start, size = self.place(row, *extensions)
        return read_part(shard, start, size)

    def name(self, row: int, *extensions: str) -> str:
        """What to call a part in a message: ``shard-317.tar: 0001.jpg``."""
        shard = self.shards[self.shard[row]]
        return f"{shard.path}: {self.keys[row]}.{self.extension(row, *extensions)}"


def open_shards(where: str | Path | Sequence[str | Path], note: Callable[[int, int], None] | None = None) -> Shards:
    """The samples of a folder of shards, of ``shards-{000..127}.tar``, or of a list of tar files.

    A shard that is missing, listed twice, packed or cut is refused by its name. `note` hears how many shards of
    how many have been looked through.
    """
    shards = [_shard(path) for path in _paths(where)]
    tables = []
    for number, shard in enumerate(shards):
        tables.append(_Table(_indexed(shard), shard.path))
        if note is not None:
            note(number + 1, len(shards))
    extensions = dict.fromkeys(e for table in tables for e in table.parts)
    if not extensions:
        raise ValueError(
            f"{shards[0].path} and the others hold no files." if shards[1:] else f"{where} holds no files."
        )
    return Shards(
        tuple(shards),
        Names.join(table.keys for table in tables),
        np.repeat(np.arange(len(shards), dtype=np.int32), [len(table.keys) for table in tables]),
        {
            e: Extents(*(np.concatenate(column) for column in zip(*(t.extents(e) for t in tables), strict=True)))
            for e in extensions
        },
        {e: spelling for table in reversed(tables) for e, spelling in table.spelled.items()},
    )


def expand(pattern: str) -> list[str]:
    """``a-{000..127}.tar`` and ``{train,val}.tar`` as the names they stand for, in order."""
    count = math.prod(len(inside.split(",")) for inside in re.findall(r"\{([^{}]*)\}", pattern))
    spans = re.findall(r"\{(\d{1,9})\.\.(\d{1,9})\}", pattern)
    if math.prod((abs(int(last) - int(first)) + 1 for first, last in spans), start=count) > MOST_SHARDS:
        raise ValueError(f"{pattern:.80} stands for more than {MOST_SHARDS:,} shards.")
    return _expanded(pattern)


def _expanded(pattern: str) -> list[str]:
    brace = re.search(r"\{([^{}]*)\}", pattern)
    if brace is None:
        return [pattern]
    inside = brace[1]
    span = re.fullmatch(r"(\d+)\.\.(\d+)", inside)
    if span is not None:
        first, last = int(span[1]), int(span[2])
        if not 0 <= last - first < MOST_SHARDS:
            raise ValueError(f"{{{inside}}} must count up, to {MOST_SHARDS:,} shards at most.")
        padded = span[1].startswith("0") or span[2].startswith("0")
        width = max(len(span[1]), len(span[2])) if padded else 0
        each = [f"{number:0{width}d}" for number in range(first, last + 1)]
    elif "," in inside:
        each = inside.split(",")
    else:
        raise ValueError(f"{{{inside}}} in {pattern} is no range. Write {{000..127}} or {{train,val}}.")
    rests = _expanded(pattern[brace.end() :])
    return [f"{pattern[: brace.start()]}{one}{rest}" for one in each for rest in rests]


def read_part(shard: Shard, start: int, size: int) -> bytes:
    """The bytes of a file in a shard, if its head there says that it is one of this size.

    The shard is opened for it: thousands of shards are more than a process may hold open.
    """
    descriptor = os.open(shard.path, os.O_RDONLY)
    try:
        now = os.fstat(descriptor)
        if (now.st_size, now.st_mtime_ns) != (shard.size, shard.modified):
            raise ValueError(f"{shard.path} was changed while it was in use. Start again with the file as it is now.")
        content = os.pread(descriptor, BLOCK + size, start - BLOCK)
    finally:
        os.close(descriptor)
    if len(content) != BLOCK + size or _declared(content[:BLOCK]) != size:
        raise ValueError(
            f"{shard.path} and its index disagree at byte {start:,}. Remove the index (.idx) or make it anew."
        )
    return content[BLOCK:]


class _Table:
    """What an index says of one shard."""

    def __init__(self, samples: Sequence[Sequence[Part]], path: Path) -> None:
        names: list[str] = []
        starts: dict[str, dict[int, tuple[int, int]]] = {}
        for row, parts in enumerate(samples):
            names.append(split_name(parts[0].name)[0])
            for part in parts:
                column = starts.setdefault(part.extension, {})
                if row in column:
                    raise ValueError(f"{path} holds {part.name} twice. Make the shard anew.")
                column[row] = part.start, part.size
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{path}: the files of sample '{twice}' do not lie together. Make the shard anew, sorted.")
        self.keys, self.parts = Names(names), starts
        self.spelled = {p.extension: p.name[len(p.name) - len(p.extension) :] for parts in samples for p in parts}

    def extents(self, extension: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        table = np.full((2, len(self.keys)), -1, dtype=np.int64)
        if column := self.parts.get(extension):
            table[:, list(column)] = np.array(list(column.values()), dtype=np.int64).T
        return table[0], table[1]


def _paths(where: str | Path | Sequence[str | Path]) -> list[Path]:
    if isinstance(where, str | Path):
        path = Path(where).expanduser()
        if path.is_dir():
            paths = sorted(p for p in path.iterdir() if p.suffix == ".tar")
            if not paths:
                raise FileNotFoundError(f"{path} holds no shards (.tar).")
        else:
            paths = [path] if path.is_file() else [Path(p) for p in expand(str(path))]
    else:
        paths = [Path(p) for p in where]
    if not paths:
        raise ValueError("there are no shards in an empty list.")
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise ValueError(f"{path} is listed twice: its samples would be seen twice as often. List it once.")
        seen.add(path.resolve())
    return paths


def _shard(path: Path) -> Shard:
    if path.name.endswith(COMPRESSED):
        raise ValueError(f"{path} is packed: nothing in it can be reached without what is before. Unpack it to a .tar.")
    try:
        state = path.stat()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no shard {path}") from None
    return Shard(path, state.st_size, state.st_mtime_ns)


def _indexed(shard: Shard) -> list[list[Part]]:
    """The samples of a shard, by the index beside it, by that in the cache, or by its heads."""
    beside = shard.path.with_suffix(".idx")
    digest = hashlib.blake2b(
        f"{shard.path.resolve()}\0{shard.size}\0{shard.modified}".encode("utf-8", "surrogateescape")
    )
    kept = roots.cache() / "shards" / f"{shard.path.stem}-{digest.hexdigest()[:32]}.idx"
    for index in (beside, kept):
        if index.is_file():
            samples = read_index(index)
            _must_hold(shard, max((part.start + part.size for parts in samples for part in parts), default=0))
            return samples
    samples = list(scan(shard.path))
    if not any(" " in part.name or "\n" in part.name for parts in samples for part in parts):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_index(kept, samples)
    return samples


def _must_hold(shard: Shard, stop: int) -> None:
    """Whether a shard is whole, as far as its index and its end say."""
    with shard.path.open("rb") as file:
        file.seek(max(0, shard.size - BLOCK))
        block = file.read(BLOCK)
    if shard.size < stop + BLOCK or any(block):
        raise ends_early(shard.path, shard.size)


def _declared(head: bytes) -> int:
    """The size that the head of a file in a tar declares; −1 where it is none."""
    try:
        return tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape").size
    except tarfile.TarError:
        return -1
