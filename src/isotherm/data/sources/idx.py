"""The idx files of MNIST and Fashion-MNIST, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from isotherm.data.declared import believable
from isotherm.data.images import Images
from isotherm.data.sources.reading import Array, as_many, damaged, in_range, make_images, one_split

PREFIX = {"train": "train", "test": "t10k"}
FIRST_ID = {"train": 0, "test": 60_000}
CLASSES = {
    "mnist": tuple(str(d) for d in range(10)),
    "fashion-mnist": (
        "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
    ),
}  # fmt: skip


def read(folder: Path, name: str, split: str = "train") -> Images:
    """The official files in `folder`: ids are the official order, test after train."""
    one_split(name, split, PREFIX)
    images, labels = (_file(folder, f"{PREFIX[split]}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
    pixels = array(images, dimensions=3)[:, None]
    known = as_many(array(labels, dimensions=1), pixels, labels)
    return make_images(name, pixels, in_range(known, 10, labels), FIRST_ID[split], CLASSES[name])


def array(path: Path, dimensions: int) -> Array:
    """The unsigned bytes of one idx file."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(4 + 4 * dimensions)
            if len(head) < 4 + 4 * dimensions or head[:4] != bytes((0, 0, 8, dimensions)):
                raise damaged(
                    path, f"it does not begin like an idx file of unsigned bytes with {dimensions} dimensions"
                )
            shape = struct.unpack(f">{dimensions}I", head[4:])
            announced = math.prod(shape)
            believable(path, announced, path.stat().st_size)
            content = bytearray(file.read(announced + 1))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, error) from error
    if len(content) != announced:
        follow = f"{len(content):,} follow" if len(content) < announced else "more follow"
        raise damaged(path, f"its head announces {announced:,} bytes, {follow}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{folder} holds no {name} or {name}.gz")
