"""STL-10's binary files: {train,test}_{X,y}.bin and unlabeled_X.bin, 96×96, column by column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from isotherm.data.images import Images
from isotherm.data.sources.reading import as_many, damaged, in_range, make_images, one_split

SHAPE = (3, 96, 96)
FIRST_ID = {"train": 0, "test": 5_000, "unlabeled": 13_000}
CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")


BOTH = "train+unlabeled"


def read(folder: Path, split: str = "train") -> Images:
    """One split of the official files, memory-mapped; the labels 1…10 become 0…9, those of `unlabeled` are −1.

    ``train+unlabeled`` is what CACR's authors, as Wang & Isola before them, learn from: read whole, 2.9 GB.
    """
    one_split("stl10", split, [*FIRST_ID, BOTH])
    if (folder / "stl10_binary").is_dir():
        folder = folder / "stl10_binary"
    if split != BOTH:
        return _read(folder, split)
    parts = [_read(folder, part) for part in BOTH.split("+")]
    pixels, labels, ids = (torch.cat([getattr(p, what) for p in parts]) for what in ("pixels", "labels", "ids"))
    return Images("stl10", pixels, labels, ids, CLASSES)


def _read(folder: Path, split: str) -> Images:
    images, names = folder / f"{split}_X.bin", folder / f"{split}_y.bin"
    for path in (images, names) if split != "unlabeled" else (images,):
        if not path.is_file():
            raise FileNotFoundError(f"{folder} holds no {path.name}")
    size, one = images.stat().st_size, int(np.prod(SHAPE))
    if size == 0 or size % one:
        raise damaged(images, f"{size:,} bytes are not a whole number of images of {one:,} bytes")
    # Mode "c" is private and writable in memory only: torch warns about arrays that cannot be written.
    pixels = np.memmap(images, np.uint8, mode="c").reshape(-1, *SHAPE).transpose(0, 1, 3, 2)
    if split == "unlabeled":
        labels = np.full(len(pixels), -1)
    else:
        labels = as_many(np.fromfile(names, np.uint8).astype(np.int64) - 1, pixels, names)
        in_range(labels, 10, names)
    return make_images("stl10", pixels, labels, FIRST_ID[split], CLASSES, file=images)
