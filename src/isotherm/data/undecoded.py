"""Images that stay in their files until they are taken: what a set has that would not fit decoded.

What is known of them is where they lie. They are decoded as squares of one size when somebody asks for pixels (probes
do), and cropped from the whole when somebody trains (`loaders.whole`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from isotherm.checks import count
from isotherm.data.decoding.decoder import Place
from isotherm.data.decoding.one_image import undecodable
from isotherm.data.names import Names
from isotherm.data.shards import Shards
from isotherm.data.sources.decode import fill, pool

Bad = Literal["skip", "error"]
GRAY = 128
"""What stands for an image that cannot be decoded where it must be shown."""
SPARE = 100
"""Images that may be undecodable, or one in so many of the set; more is another mistake."""


class Files(Protocol):
    """Where images lie."""

    def __len__(self) -> int: ...
    def place(self, row: int) -> Place: ...
    def name(self, row: int) -> str:
        """For messages."""
        ...


@dataclass(frozen=True, eq=False)
class InFolder:
    """Files below a folder."""

    folder: Path
    names: Names

    def __len__(self) -> int:
        return len(self.names)

    def place(self, row: int) -> Place:
        return Place(self.folder / self.names[row])

    def name(self, row: int) -> str:
        return str(self.folder / self.names[row])


@dataclass(frozen=True, eq=False)
class InShards:
    """Samples of tar shards that have a part with one of these extensions."""

    shards: Shards
    extensions: Sequence[str]

    def __len__(self) -> int:
        return len(self.shards)

    def place(self, row: int) -> Place:
        return Place(*self.shards.place(row, *self.extensions))

    def name(self, row: int) -> str:
        return self.shards.name(row, *self.extensions)


@dataclass(eq=False)
class Undecodable:
    """Images that turned out to be damaged: refused, or named once each and counted."""

    images: int
    bad: Bad
    names: set[str] = field(default_factory=set)

    def tell(self, name: str, why: str, instead: str) -> None:
        if self.bad == "error":
            raise ValueError(f"{name} {why}. Remove it or say bad='skip'.")
        if name in self.names:
            return
        self.names.add(name)
        n = len(self.names)
        if n > max(SPARE, self.images // SPARE):
            raise ValueError(f"{name} {why}, as {n - 1:,} before it. So many cannot be left out: look at the files.")
        warnings.warn(f"{name} {why}; {instead} ({count(n, 'such image')} so far)", RuntimeWarning, stacklevel=2)


@dataclass(frozen=True, eq=False)
class Undecoded:
    """Some of the images of these files; where pixels are asked for, the middle square of each, size×size, RGB."""

    files: Files
    rows: Tensor
    """int64 (N,): which of them"""
    size: int
    damaged: Undecodable

    dtype: ClassVar[torch.dtype] = torch.uint8
    ndim: ClassVar[int] = 4

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), 3, self.size, self.size

    def sizes(self) -> np.ndarray:
        """Bytes of each, encoded."""
        places = (self.files.place(row) for row in self.rows.tolist())
        return np.fromiter((p.file.stat().st_size if isinstance(p.file, Path) else p.size for p in places), np.int64)

    def encoded(self, index: int) -> bytes:
        return self.place(index).read()

    def subset(self, index: Tensor) -> Undecoded:
        return replace(self, rows=self.rows[index])

    def place(self, index: int) -> Place:
        return self.files.place(int(self.rows[index]))

    def __getitem__(self, index: Tensor) -> Tensor:
        """Decoded now, by threads: uint8 (len(index), 3, size, size), as the cache of a folder would hold them."""
        rows = self.rows[index].tolist()
        out = np.empty((len(rows), 3, self.size, self.size), np.uint8)
        with pool() as threads:
            sources = list(threads.map(self._source, rows))
            tally = fill(out, 0, [s if isinstance(s, bytes) else None for s in sources], True, threads)
        for at, why in tally.failed:
            out[at], source = GRAY, sources[at]
            told = undecodable(source) if isinstance(source, Exception) else why
            self.damaged.tell(self.files.name(rows[at]), told, "a gray image stands in its place")
        return torch.from_numpy(out)

    def _source(self, row: int) -> bytes | Exception:
        try:
            return self.files.place(row).read()
        except (OSError, ValueError) as error:
            return error
