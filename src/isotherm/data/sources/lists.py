"""Images as a list names them: ImageNet-LT's ``path label``, subsets of ImageNet, WebVision's file lists.

A line is a path below the set's folder and, after a space, its label; without labels, the folder that an image is in is
its class.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from isotherm.data.names import Names
from isotherm.data.parts import NoSplit
from isotherm.data.sources.reading import count, damaged
from isotherm.data.undecoded import Bad

WEBVISION = {
    "train": ("info/train_filelist_google.txt", "info/train_filelist_flickr.txt"),
    "val": ("info/val_filelist.txt",),
    "test": ("info/val_filelist.txt",),
    "validation": ("info/val_filelist.txt",),
}
SYNSETS = "info/synsets.txt"
"""WebVision's: a line for each class, its synset and its words."""
WEBVISION_FOLDERS = ("", "val_images_256", "val_images", "val_images_resized", "train_images_256")
"""Where its paths begin, as its archives unpack."""
ABSENT = 100
"""One in so many listed files may be missing; more is a list of other images."""


@dataclass(frozen=True, eq=False)
class Listing:
    """Which images a split has, where they lie, what they are; none has been opened."""

    folder: Path
    prefix: str
    """What comes before a file's path in its id."""
    files: Names
    """Below the folder."""
    labels: NDArray[np.int64]
    classes: Sequence[str]
    strangers: Sequence[Path] = ()
    """Files that are no images, or are missing."""
    links: Sequence[Path] = ()
    """To folders, not followed."""


@dataclass(frozen=True)
class Listed:
    """The files that list a split's images."""

    folder: Path
    lists: tuple[Path, ...]
    names: Path | None = None
    """The names of the classes, in the order of their labels."""
    first: Path | None = None
    """The list of the part by which classes without a number are numbered."""

    def images(self, bad: Bad) -> Listing:
        """The images that are there; a few may be missing, unless `bad` is an error."""
        paths: list[str] = []
        labels: list[int | None] = []
        for file in self.lists:
            for line in lines(file):
                path, label = _entry(line, file)
                paths.append(path)
                labels.append(label)
        there = [os.path.isfile(self.folder / path) for path in paths]
        absent = [self.folder / path for path, is_there in zip(paths, there, strict=True) if not is_there]
        if len(set(paths)) < len(paths):
            twice = next(path for path, n in Counter(paths).items() if n > 1)
            raise damaged(self.lists[0], f"{twice} is in it twice")
        if absent and (bad == "error" or len(absent) * ABSENT > len(paths)):
            raise ValueError(
                f"{self.lists[0]} names {count(len(absent), 'file')} of {len(paths):,} that are not there, such as "
                f"{absent[0]}. Its paths must begin in {self.folder}."
            )
        kept = [row for row, is_there in enumerate(there) if is_there]
        numbers, classes = self._labelled([paths[row] for row in kept], [labels[row] for row in kept])
        return Listing(self.folder, "", Names(paths[row] for row in kept), numbers, classes, absent)

    def _labelled(self, paths: Sequence[str], labels: Sequence[int | None]) -> tuple[NDArray[np.int64], Sequence[str]]:
        """Labels, and the names of their classes: those of the folders, where a class is a folder."""
        folders = [PurePosixPath(path).parent.name for path in paths]
        if all(label is None for label in labels):
            first = [] if self.first is None else [_entry(line, self.first)[0] for line in lines(self.first)]
            known = sorted({PurePosixPath(path).parent.name for path in first})
            classes = [*known, *sorted(set(folders) - set(known))]
            number = {name: i for i, name in enumerate(classes)}
            return np.array([number[name] for name in folders], dtype=np.int64), classes
        if any(label is None for label in labels):
            raise damaged(self.lists[0], f"{paths[list(labels).index(None)]} has no label, others have")
        numbers = np.array(labels, dtype=np.int64)
        largest = int(numbers.max())
        if self.names is not None and self.names.is_file():
            words = [line.split()[0] for line in lines(self.names)]
            if len(words) <= largest:
                raise damaged(self.names, f"it names {len(words)} classes, labels reach {largest}")
            return numbers, words
        own = dict(zip(labels, folders, strict=True))
        one_to_one = len(set(own.values())) == len(own) == len(set(zip(labels, folders, strict=True)))
        return numbers, [own.get(i, str(i)) if one_to_one else str(i) for i in range(largest + 1)]


def find(path: Path, split: str, given: str | None) -> Listed | None:
    """The lists of a split: one that is given, or WebVision's own; None: its folders say what it has."""
    if given is not None and ("{split}" in given or split == "train"):
        file = _file(path, given, split)
        if not file.is_file():
            raise NoSplit(f"there is no split '{split}' in {path}: no list {file}")
        training = _file(path, given, "train") if "{split}" in given else file
        return Listed(path, (file,), first=training if training.is_file() else None)
    own = tuple(path / name for name in WEBVISION.get(split, ()) if (path / name).is_file())
    if not own:
        return None
    first = _entry(lines(own[0])[0], own[0])[0]
    folder = next((path / f for f in WEBVISION_FOLDERS if (path / f / first).is_file()), path)
    return Listed(folder, own, path / SYNSETS)


def _file(path: Path, given: str, split: str) -> Path:
    file = Path(given.replace("{split}", split)).expanduser()
    return file if file.is_absolute() or file.is_file() else path / file


def lines(path: Path) -> list[str]:
    """The lines of a file that are not empty."""
    if not path.expanduser().is_file():
        raise FileNotFoundError(f"there is no file {path}")
    text = path.expanduser().read_text(encoding="utf-8", errors="surrogateescape")
    result = [line.strip() for line in text.split("\n") if line.strip()]
    if not result:
        raise damaged(path, "it is empty")
    return result


def _entry(line: str, file: Path) -> tuple[str, int | None]:
    """Path and label of a line; the path may hold spaces."""
    path, _, last = line.rpartition(" ")
    label = int(last) if path and last.isdecimal() else None
    path = (line if label is None else path).strip()
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise damaged(file, f"'{path}' leads out of the set's folder")
    return path, label
