"""Tiny-ImageNet as its archive unpacks: train/CLASS/images/*.JPEG, and val/images with the classes in a file beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isotherm.data.images import Images
from isotherm.data.sources import folder as folders
from isotherm.data.sources.decode import fill, pool
from isotherm.data.sources.reading import damaged, make_images, one_split, stable_id

SIZE = 64
ANNOTATIONS = "val_annotations.txt"
"""Of every validation image a line: its file, its class, a box; tabs between."""


def read(folder: Path, split: str = "train") -> Images:
    """One split, 64×64 RGB; the classes are the folders of `train`, sorted."""
    one_split("tiny-imagenet", split, ("train", "val"))
    if (folder / "tiny-imagenet-200").is_dir():
        folder = folder / "tiny-imagenet-200"
    if split == "train":
        return folders.read(folder, "train", SIZE, name="tiny-imagenet")
    listed = folder / "val" / ANNOTATIONS
    if not listed.is_file():
        raise FileNotFoundError(f"{folder} holds no val/{ANNOTATIONS}")
    rows = [line.split("\t") for line in listed.read_text(encoding="utf-8", errors="replace").splitlines() if line]
    if not rows or any(len(row) < 2 for row in rows):
        raise damaged(listed, "each of its lines must name a file and its class, with a tab between")
    classes = sorted(p.name for p in (folder / "train").iterdir() if p.is_dir())
    number = {name: i for i, name in enumerate(classes)}
    strange = next((name for _, name, *_ in rows if name not in number), None)
    if strange is not None:
        raise damaged(listed, f"train has no class '{strange}'")
    pixels = np.empty((len(rows), 3, SIZE, SIZE), np.uint8)
    with pool() as threads:
        tally = fill(pixels, 0, [folder / "val" / "images" / file for file, *_ in rows], True, threads)
    for row, why in tally.failed:
        raise damaged(folder / "val" / "images" / rows[row][0], why)
    labels = np.array([number[name] for _, name, *_ in rows])
    ids = np.array([stable_id(f"val/{file}") for file, *_ in rows], dtype=np.int64)
    return make_images("tiny-imagenet", pixels, labels, ids, classes, notes=tally.notes("RGB"))
