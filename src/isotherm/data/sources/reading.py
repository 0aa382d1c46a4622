"""What every reader does alike: names the damaged file, checks labels against their classes, hands out ids."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotherm.checks import count as count
from isotherm.data.declared import believable
from isotherm.data.images import Images
from isotherm.data.parts import NoSplit
from isotherm.data.stored import watched

Array = NDArray[Any]
MOST_CLASSES = 1_000_000
"""A larger label is no class: every class up to the largest gets a name."""


def damaged(path: Path | str, why: object) -> ValueError:
    """The error for a file that is not what its name says."""
    said = (str(why).splitlines() or [type(why).__name__])[0].rstrip(".")
    return ValueError(f"{path} is damaged: {said}. Replace it.")


def make_images(
    name: str,
    pixels: Array,
    labels: Array,
    ids: Array | int,
    classes: Sequence[str] = (),
    more_labels: Mapping[str, Array] | None = None,
    notes: Sequence[str] = (),
    file: Path | None = None,
) -> Images:
    """Arrays as `Images`; `ids` may be the id of the first image when the rest follow on.

    `file` is what the pixels are mapped from, if they are.
    """
    if isinstance(ids, int):
        ids = np.arange(ids, ids + len(pixels))
    return Images(
        name=name,
        pixels=torch.from_numpy(pixels),
        labels=_long(labels),
        ids=_long(ids),
        classes=tuple(classes),
        more_labels={key: _long(column) for key, column in (more_labels or {}).items()},
        notes=tuple(notes),
        file=None if file is None else watched(file),
    )


def in_range(labels: Array, classes: int, path: Path | str, unknown: bool = False) -> Array:
    """The labels, if each is one of 0 … classes−1 (or −1 where `unknown` is allowed)."""
    wrong = np.flatnonzero((labels < (-1 if unknown else 0)) | (labels >= classes))
    if len(wrong):
        raise damaged(
            path,
            f"labels must be 0 to {classes - 1}, row {wrong[0]} has {labels[wrong[0]]} "
            f"({len(wrong)} of {len(labels)} are out of range)",
        )
    return labels


def as_many(labels: Array, pixels: Array, path: Path | str) -> Array:
    """The labels, if there is one per image."""
    if len(labels) != len(pixels):
        raise damaged(path, f"it has {len(labels)} labels for {len(pixels)} images")
    return labels


def one_split(name: str, split: str, splits: Iterable[str]) -> None:
    """Refuse a split the set does not have."""
    if split not in (known := list(splits)):
        raise NoSplit(f"{name} has no split '{split}'; it has: {', '.join(known)}.")


def members(archive: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """The content of the files with these names inside a tar archive, wherever in it they lie; nothing is unpacked."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                base = member.name.rsplit("/", 1)[-1]
                if base in wanted and member.isfile():
                    believable(archive, member.size, archive.stat().st_size)
                    content = tar.extractfile(member)
                    contents[base] = content.read() if content else b""
                if len(contents) == len(wanted):
                    break
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise damaged(archive, error) from error
    for base in wanted:
        if base not in contents:
            raise damaged(archive, f"it holds no {base}")
    return contents


def stable_id(text: str) -> int:
    """A 63-bit id that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big") >> 1


def _long(column: Array) -> Tensor:
    return torch.from_numpy(np.array(column, dtype=np.int64))
