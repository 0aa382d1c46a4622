"""Images with captions in tar shards of WebDataset's layout: ``0001.jpg`` beside ``0001.txt`` or ``0001.json``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isotherm.checks import at_least
from isotherm.data.captioned import Captioned
from isotherm.data.parts import NoSplit
from isotherm.data.shards import Shards, open_shards
from isotherm.data.sources.captions import CAPTION, Sieve
from isotherm.data.sources.folder import SPLITS, SPLITS_OF_ONE_MEANING
from isotherm.data.sources.reading import stable_id
from isotherm.data.sources.shards import LABELS, names_split

IMAGES = ("jpg", "jpeg", "png", "webp", "bmp", "gif", "ppm")
TEXTS = ("txt", "text", "caption")
"""Parts that hold captions, one per line; those of a .json are under a usual key."""


@dataclass(frozen=True, eq=False)
class InShards:
    """Images that lie in shards, by the row of their sample."""

    shards: Shards
    rows: Tensor

    def source(self, index: int) -> bytes:
        return self.shards.read(int(self.rows[index]), *IMAGES)

    def sizes(self) -> np.ndarray:
        return np.fromiter((self.shards.place(row, *IMAGES)[2] for row in self.rows.tolist()), np.int64, len(self.rows))

    def take(self, index: Tensor) -> InShards:
        return replace(self, rows=self.rows[index])


def read(
    path: Path,
    split: str = "train",
    size: int = 224,
    caption: str | None = None,
    longest: int = 10_000,
    name: str | None = None,
) -> Captioned:
    """One split: the SPLIT*.tar of a folder, or of its folder SPLIT; else a folder or shards-{000..127}.tar, all of it.

    `caption` is the key of the captions in a .json part, if it has no usual name.
    """
    at_least(1, size=size, longest=longest)
    shards = open_shards(_of_split(Path(path), split))
    has_image, has_text = shards.has(*IMAGES), shards.has(*TEXTS, "json")
    named = _unique(shards)
    rows = []
    with tempfile.TemporaryFile() as text:
        sieve = Sieve(text, longest)
        for row in range(len(shards)):
            place = f"{shards.shards[shards.shard[row]].path.name}: {shards.keys[row]}"
            if not has_image[row]:
                sieve.leave("caption", "without an image left out", place)
                continue
            captions = _captions(shards, row, caption, sieve, place) if has_text[row] else []
            encoded = shards.read(row, *IMAGES)
            if sieve.head(encoded, place) and sieve.add(stable_id(named[row]), place, captions):
                rows.append(row)
        images = InShards(shards, torch.tensor(rows, dtype=torch.int64))
        return sieve.captioned(name or Path(path).name.split(".")[0], Path(path), images, size)


def _unique(shards: Shards) -> Sequence[str]:
    """A name for every sample: its key, with its shard's where keys come again."""
    keys = [shards.keys[row] for row in range(len(shards))]
    if len(set(keys)) == len(keys):
        return keys
    return [f"{shards.shards[shards.shard[row]].path.stem}/{key}" for row, key in enumerate(keys)]


def has_captions(path: Path) -> bool:
    """Whether shards have captions and no classes."""
    try:
        shards = open_shards(_of_split(path, "train"))
    except (OSError, ValueError):  # its reader says what is wrong
        return False
    told = shards.has(*TEXTS, "json")
    return bool(told.any()) and not shards.has("cls").any() and not _is_class(shards, int(told.argmax()))


def _is_class(shards: Shards, row: int) -> bool:
    """Whether what a sample says in .txt or .json is a class, as the reader of images takes it."""
    part = shards.extension(row, *TEXTS, "json")
    try:
        said = json.loads(shards.read(row, part).decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return False
    if part != "json":
        return isinstance(said, int)
    return isinstance(said, dict) and not said.keys() & set(CAPTION) and bool(said.keys() & set(LABELS))


def _of_split(path: Path, split: str) -> Path | Sequence[Path]:
    """The shards of a split."""
    if path.is_dir():
        there = sorted(path.glob("*.tar"))
        for spelled in (split, SPLITS_OF_ONE_MEANING.get(split, split)):
            if own := [shard for shard in there if shard.name.startswith(spelled) or names_split(shard, spelled)]:
                return own
            if (path / spelled).is_dir():
                return path / spelled
        named = any(shard.name.startswith(other) or names_split(shard, other) for shard in there for other in SPLITS)
        if named or split != "train":
            raise NoSplit(
                f"{path} has no split '{split}': no {split}*.tar, none with it in its name, and no such folder."
            )
    elif split != "train":
        raise NoSplit(f"{path} has no split '{split}': all of these shards are 'train'.")
    return path


def _captions(shards: Shards, row: int, key: str | None, sieve: Sieve, place: str) -> list[bytes]:
    part = shards.extension(row, *TEXTS, "json")
    content = shards.read(row, part)
    if part != "json":
        return [line for line in content.splitlines() if line.strip()] or [content]
    try:
        record = json.loads(content.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        record = None
    names = [key] if key is not None else [name for name in CAPTION if isinstance(record, dict) and name in record]
    value = record.get(names[0]) if isinstance(record, dict) and names else None
    texts = value if isinstance(value, list) else [value]
    words = [t for t in texts if isinstance(t, str)]
    if len(words) < len(texts):
        sieve.leave("json part", "without a caption", place)
    return [t.encode("utf-8", "surrogateescape") for t in words]
