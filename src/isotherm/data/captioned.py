"""Images with captions: encoded images where they lie, decoded when they are asked for; captions by number, on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from isotherm.data import fingerprints
from isotherm.data.sources.decode import fill, pool
from isotherm.data.sources.reading import count
from isotherm.data.stored import Stored
from isotherm.streams import uniforms

CAPTION = -5
"""The stream from which captions are drawn."""
NAMED = 5
"""Items that a note names."""


class Encoded(Protocol):
    """Encoded images, found by place."""

    def source(self, index: int) -> bytes | Path: ...
    def sizes(self) -> np.ndarray:
        """Bytes of each."""
        ...

    def take(self, index: Tensor) -> Self: ...


@dataclass(frozen=True, eq=False)
class Pieces:
    """Images that are pieces of files: of a table's images, or of the shards they came in."""

    files: tuple[Stored, ...]
    which: Tensor
    """int64 (N,): the file of each"""
    starts: Tensor
    lengths: Tensor

    def source(self, index: int) -> bytes:
        file = self.files[int(self.which[index])]
        file.check()
        return file.read(int(self.starts[index]), int(self.lengths[index]))

    def sizes(self) -> np.ndarray:
        sizes: np.ndarray = self.lengths.numpy()
        return sizes

    def take(self, index: Tensor) -> Pieces:
        return replace(self, which=self.which[index], starts=self.starts[index], lengths=self.lengths[index])


@dataclass(frozen=True, eq=False)
class Files:
    """Images that are files of their own."""

    paths: tuple[Path, ...]

    def source(self, index: int) -> Path:
        return self.paths[index]

    def sizes(self) -> np.ndarray:
        return np.fromiter((path.stat().st_size for path in self.paths), np.int64, len(self.paths))

    def take(self, index: Tensor) -> Files:
        return Files(tuple(self.paths[i] for i in index.tolist()))


@dataclass(frozen=True, eq=False)
class Captioned:
    """Images, each with one caption or more. An id belongs to an image and stays in every subset and order."""

    name: str
    ids: Tensor
    """int64 (N,), unique"""
    images: Encoded
    text: Stored
    """UTF-8: the captions"""
    starts: Tensor
    """int64 (C,): the first byte of each caption in `text`"""
    lengths: Tensor
    """int64 (C,): how many bytes it has"""
    first: Tensor
    """int64 (N,): the number of each image's first caption; its others follow"""
    counts: Tensor
    """int64 (N,): how many captions each image has"""
    size: int = 224
    """Edge of the square that images are brought to when they are decoded."""
    places: Sequence[str] = ()
    """What each image is called in a message: a row, a line, a file."""
    notes: tuple[str, ...] = ()
    broken: dict[int, str] = field(default_factory=dict)
    """Images that turned out not to decode, by id: found as they are met, and said at the end."""

    def __post_init__(self) -> None:
        if not len(self.ids):
            raise ValueError(f"{self.name} holds no images with captions.")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def every_note(self) -> tuple[str, ...]:
        """The notes, and what was found broken since."""
        return (*self.notes, *broken_note(self.broken))

    def subset(self, index: Tensor, *notes: str) -> Captioned:
        """These images, in this order."""
        if not len(index):
            raise ValueError(f"{self.name}: the subset is empty.")
        return replace(
            self,
            ids=self.ids[index],
            images=self.images.take(index),
            first=self.first[index],
            counts=self.counts[index],
            places=[self.places[i] for i in index.tolist()] if self.places else (),
            notes=self.notes + notes,
        )

    def captions(self, numbers: Tensor) -> list[str]:
        """The captions of these numbers."""
        self.text.check()
        numbers = numbers.flatten()
        starts, lengths = self.starts[numbers].tolist(), self.lengths[numbers].tolist()
        return [self.text.read(a, n).decode() for a, n in zip(starts, lengths, strict=True)]

    def numbers(self) -> tuple[Tensor, Tensor]:
        """The numbers of all captions of these images, and the index of each one's image."""
        owner = torch.arange(len(self)).repeat_interleave(self.counts)
        within = torch.arange(len(owner)) - (self.counts.cumsum(0) - self.counts)[owner]
        return self.first[owner] + within, owner

    def drawn(self, index: Tensor, many: int, *, seed: int, epoch: int) -> Tensor:
        """(n, many): numbers of captions of these images, drawn without putting back; where there are fewer, again."""
        counts = self.counts[index]
        most = int(counts.max())
        keys = uniforms(self.ids[index], most, seed=seed, epoch=epoch, view=CAPTION)
        keys = keys.masked_fill(torch.arange(most) >= counts[:, None], 2.0)
        order = keys.argsort(dim=1, stable=True)
        column = torch.arange(many) % counts[:, None]
        return self.first[index, None] + order.gather(1, column)

    def decoded(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels, uint8 (n, 3, size, size), and whose they are.

        An image that does not decode gives its place to the next one in the set that does, with its captions: the same
        one in every epoch and on any number of processes.
        """
        out = np.zeros((len(index), 3, self.size, self.size), np.uint8)
        index = self.whole(index.clone())
        waiting = list(range(len(index)))
        with pool() as threads:
            while waiting:
                part = out if len(waiting) == len(index) else np.zeros((len(waiting), *out.shape[1:]), np.uint8)
                sources = [self.images.source(int(index[row])) for row in waiting]
                tally = fill(part, 0, sources, True, threads)
                if part is not out:
                    out[waiting] = part
                for row, why in tally.failed:
                    self.broken[int(self.ids[index[waiting[row]]])] = f"{self.place(int(index[waiting[row]]))} {why}"
                waiting = [waiting[row] for row, _ in tally.failed]
                index[waiting] = self.whole(index[waiting])
        return torch.from_numpy(out), index

    def whole(self, index: Tensor) -> Tensor:
        """The indices, those of images known to be broken moved on to the next that is not."""
        if not self.broken:
            return index
        if len(self.broken) >= len(self) and all(int(i) in self.broken for i in self.ids.tolist()):
            raise ValueError(f"{self.name}: no image can be decoded. {broken_note(self.broken)[0]}.")
        for row, place in enumerate(index.tolist()):
            at = place
            while int(self.ids[at]) in self.broken:
                at = (at + 1) % len(self)
            index[row] = at
        return index

    def place(self, index: int) -> str:
        return self.places[index] if self.places else f"image {index}"

    def fingerprint(self) -> str:
        """What tells one set from another: ids, captions, sizes of all images and 4 MB of them, spread over it."""
        digest = hashlib.sha256(repr(len(self)).encode())
        for column in (self.ids, self.first, self.counts, self.lengths):
            digest.update(column.contiguous().numpy().data)
        total = int(self.starts[-1] + self.lengths[-1])
        step = max(1, total // (1 << 26))
        for at in range(0, total, step << 20):
            digest.update(self.text.read(at, min(1 << 20, total - at)))
        some = torch.linspace(0, len(self) - 1, min(len(self), 256)).long()
        for i in some.tolist():
            source = self.images.source(i)
            digest.update(source if isinstance(source, bytes) else source.read_bytes()[: 1 << 14])  # as ever
        sample = digest.hexdigest()[:16]
        pieces = (self.text.read(at, min(fingerprints.PIECE, total - at)) for at in range(0, total, fingerprints.PIECE))
        texts = "" if total > fingerprints.READABLE else fingerprints.checksum(pieces)
        images = "" if len(self) > fingerprints.MANY else fingerprints.encoded(self.images.sizes(), self._encoded)
        return f"{sample}.{texts}.{images}"

    def _encoded(self, index: int) -> bytes:
        source = self.images.source(index)
        return source if isinstance(source, bytes) else source.read_bytes()


def broken_note(broken: dict[int, str]) -> list[str]:
    """How many images are broken, and which: nothing where none is."""
    if not broken:
        return []
    return [said(f"{count(len(broken), 'image')} left out", list(broken.values()))]


def said(what: str, which: Sequence[str]) -> str:
    """A count, and the first of those it counts."""
    more = f" and {len(which) - NAMED:,} more" if len(which) > NAMED else ""
    return f"{what}: {'; '.join(which[:NAMED])}{more}"


Read = Callable[..., Captioned]
