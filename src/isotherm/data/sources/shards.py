"""Images in tar shards, WebDataset's layout: an image (.jpg, .png, …) and its label (.cls, .json, .txt) to each key.

They stay in the shards, whatever their number: nothing is unpacked, and what is learnt from is cropped from the whole
image. `isotherm data shard` makes such shards of a folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import torch
from numpy.typing import NDArray

from isotherm.data import roots
from isotherm.data.images import Images
from isotherm.data.parts import NoSplit
from isotherm.data.shards import Shards, open_shards
from isotherm.data.sources.folder import FIRST, IMAGES, SPLITS, SPLITS_OF_ONE_MEANING, numbered
from isotherm.data.sources.lists import lines
from isotherm.data.sources.reading import MOST_CLASSES, count, damaged, stable_id
from isotherm.data.undecoded import Bad, InShards, Undecodable, Undecoded
from isotherm.files import write_whole

EXTENSIONS = tuple(sorted(extension.removeprefix(".") for extension in IMAGES))
CLASSES = "classes.txt"
"""Beside the shards, if it is there: the names of the labels 0, 1, …, one to a line."""
LABELS = ("label", "cls", "class", "label_index")
"""What a label is called in a sample's .json."""


def read(
    path: Path,
    split: str = "train",
    size: int = 224,
    bad: Bad = "skip",
    label: str | None = None,
    name: str | None = None,
) -> Images:
    """The images of a split: of a folder, SPLIT/*.tar or those with the split in their names; ``x-{000..127}.tar`` is
    all `train`.

    Labels are whole numbers in .cls, in .json (as `label`) or in .txt; else an image's class is its folder in the
    shard, or the shard itself where it is named after its images (ImageNet-22K's archives). `size` is the edge of the
    squares that probes see. `bad` images are skipped and counted when they are come upon, or an error.
    """
    if bad not in {"skip", "error"}:
        raise ValueError(f"bad must be 'skip' or 'error', got {bad!r}.")
    if size < 1:
        raise ValueError(f"size must be 1 or more, got {size}.")
    prefix, where = _of_split(path, split)
    shards = open_shards(where)
    kept = np.flatnonzero(shards.has(*EXTENSIONS))
    if not len(kept):
        raise ValueError(f"{shards.shards[0].path} holds no images; it has: .{', .'.join(shards.parts)}.")
    labels, classes = _labels(shards, kept, label, lambda: _first_classes(path, prefix))
    notes = [f"decoded when they are taken, from {count(len(shards.shards), 'shard')}"]
    if len(kept) < len(shards):
        notes.append(f"{count(len(shards) - len(kept), 'sample')} without an image skipped")
    pixels = Undecoded(InShards(shards, EXTENSIONS), torch.from_numpy(kept), size, Undecodable(len(kept), bad))
    ids = torch.from_numpy(_ids(shards, kept, prefix))
    return Images(name or path.stem, pixels, torch.from_numpy(labels), ids, tuple(classes), notes=tuple(notes))


def _of_split(path: Path, split: str) -> tuple[str, Path | list[Path]]:
    """The split as it is spelled there, and its shards."""
    if not path.is_dir():
        if split != "train":
            raise NoSplit(f"{path} has no split '{split}': all of these shards are 'train'")
        return split, path
    shards = sorted(p for p in path.iterdir() if p.suffix == ".tar")
    others = ("val", "validation") if split == "test" else (SPLITS_OF_ONE_MEANING.get(split, split),)
    for spelled in (split, *others):
        if (path / spelled).is_dir():
            return spelled, path / spelled
        if own := [p for p in shards if names_split(p, spelled)]:
            return spelled, own
    if split == "train" and shards and not any(names_split(p, other) for p in shards for other in SPLITS):
        return split, shards
    raise NoSplit(f"{path} has no split '{split}': no folder of that name, and no shard with it in its name")


def names_split(path: Path, split: str) -> bool:
    """Whether a shard's name has a split in it, as a word."""
    return re.search(rf"(^|[-_.]){split}([-_.]|$)", path.stem) is not None


def _ids(shards: Shards, rows: NDArray[np.int64], prefix: str) -> NDArray[np.int64]:
    """Of an image in a shard, what it would be in the folder that the shard was made of; where keys are not unique,
    the shard is part of it."""
    endings = [f".{shards.spelled[shards.extension(row, *EXTENSIONS)]}" for row in rows.tolist()]
    names = (unquote(shards.keys[row]) + ending for row, ending in zip(rows.tolist(), endings, strict=True))
    below = (name if name.startswith(f"{prefix}/") else f"{prefix}/{name}" for name in names)
    ids = np.fromiter(map(stable_id, below), np.int64, len(rows))
    if len(np.unique(ids)) == len(ids):
        return ids
    stems = [shard.path.stem for shard in shards.shards]
    whole = (f"{prefix}/{stems[shards.shard[row]]}/{shards.keys[row]}" for row in rows.tolist())
    return np.fromiter(map(stable_id, whole), np.int64, len(rows))


def _labels(
    shards: Shards, rows: NDArray[np.int64], label: str | None, first: Callable[[], Sequence[str]]
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """Labels, −1 where nobody knows, and the names of the classes; `first` are those by which names are numbered."""
    reader = _reader(shards, rows, label)
    if reader is None:
        return _by_name(shards, rows, first)
    extension, number = reader
    digest = hashlib.blake2b(f"{extension} {label}".encode(), digest_size=16)
    for shard in shards.shards:
        digest.update(f"\0{shard.path.resolve()}\0{shard.size}\0{shard.modified}".encode("utf-8", "surrogateescape"))
    kept = roots.cache() / "shards" / f"labels-{digest.hexdigest()}.npy"
    if kept.is_file():
        labels = np.load(kept, allow_pickle=False)
    else:
        there = shards.has(extension)

        def one(row: int) -> int:
            return number(shards.read(row, extension), row) if there[row] else -1

        with ThreadPoolExecutor(8) as threads:  # the disk is waited for, not the processor
            labels = np.fromiter(threads.map(one, rows.tolist()), np.int64, len(rows))
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, lambda file: np.save(file, labels))
    beside = shards.shards[0].path.parent / CLASSES
    classes = lines(beside) if beside.is_file() else [str(i) for i in range(int(labels.max(initial=-1)) + 1)]
    if len(classes) <= labels.max(initial=-1):
        raise damaged(beside, f"it names {len(classes)} classes, labels reach {labels.max()}")
    return labels, classes


def _reader(
    shards: Shards, rows: NDArray[np.int64], label: str | None
) -> tuple[str, Callable[[bytes, int], int]] | None:
    """In which part of a sample its label is, and how it is read; None: in none."""

    def whole(content: bytes, row: int) -> int:
        try:
            return _class_number(int(content))
        except ValueError:
            raise damaged(
                shards.name(row, "cls", "txt"),
                f"a label is a whole number below {MOST_CLASSES:,}, not {content[:20]!r}",
            ) from None

    def of_json(content: bytes, row: int) -> int:
        try:
            number = json.loads(content)[key]
            if not isinstance(number, int):
                raise TypeError(f"{number!r} is none")
            return _class_number(number)
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
            raise damaged(
                shards.name(row, "json"), f"no whole number '{key}' below {MOST_CLASSES:,} ({error!s:.60})"
            ) from None

    first = int(rows[0])
    if shards.has("cls")[rows].any() and label is None:
        return "cls", whole
    if shards.has("json")[first]:
        try:
            told = json.loads(shards.read(first, "json"))
        except (ValueError, RecursionError) as error:
            raise damaged(shards.name(first, "json"), error) from error
        told = told if isinstance(told, dict) else {}
        keys = [k for k in ((label,) if label else LABELS) if isinstance(told.get(k), int)]
        if keys:
            key = keys[0]
            return "json", of_json
        if label is not None:
            raise ValueError(f"{shards.name(first, 'json')} has no whole number '{label}'; it has: {', '.join(told)}.")
    if shards.has("txt")[first] and re.fullmatch(rb"\s*\d{1,6}\s*", shards.read(first, "txt")):
        return "txt", whole
    return None


def _class_number(number: int) -> int:
    """A label, if it can be one; of −1 nobody knows the class."""
    if not -1 <= number < MOST_CLASSES:
        raise ValueError("it is too large, or negative")
    return number


def _by_name(
    shards: Shards, rows: NDArray[np.int64], first: Callable[[], Sequence[str]]
) -> tuple[NDArray[np.int64], Sequence[str]]:
    names = _class_names(shards, rows)
    if not names:
        return np.full(len(rows), -1, dtype=np.int64), ()
    classes = numbered(names, first())
    number = {name: i for i, name in enumerate(classes)}
    return np.array([number[name] for name in names], dtype=np.int64), classes


def _class_names(shards: Shards, rows: NDArray[np.int64]) -> list[str]:
    """Classes after the folders in the shards, or after shards whose images begin with their names; else none."""
    stems = [shard.path.stem for shard in shards.shards]
    names = []
    for row in rows.tolist():
        folder, _, base = shards.keys[row].rpartition("/")
        stem = stems[shards.shard[row]]
        names.append(folder.rpartition("/")[2] or (stem if base.startswith(f"{stem}_") else ""))
        if not names[-1]:  # one without a class: the others' are chance
            return []
    return names


def _first_classes(path: Path, spelled: str) -> Sequence[str]:
    """The classes of the first part that there is, by whose order the others' are numbered."""
    for part in FIRST if path.is_dir() else ():
        try:
            found, where = _of_split(path, part)
        except NoSplit:
            continue
        if found == spelled:
            return ()
        shards = open_shards(where)
        return sorted(set(_class_names(shards, np.flatnonzero(shards.has(*EXTENSIONS)))))
    return ()
