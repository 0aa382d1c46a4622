"""PASCAL VOC's classification: which of twenty classes an image shows, often several (ImageSets/Main/CLASS_SPLIT.txt).

`labels` are unknown; each class is a column of `more_labels`: 1 shown, 0 not, −1 where it is too difficult to say.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isotherm.data.images import Images
from isotherm.data.sources import folder as folders
from isotherm.data.sources.reading import count, damaged, make_images, one_split, stable_id

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
MEANING = {"1": 1, "-1": 0, "0": -1}


def read(folder: Path, split: str = "train", size: int = 224, cache: Path | str | None = None) -> Images:
    """One split of VOCdevkit/VOC2007, the middle square of each image, size×size, RGB."""
    one_split("voc2007", split, ("train", "val", "trainval", "test"))
    folder = next((p for p in (folder / "VOCdevkit/VOC2007", folder / "VOC2007", folder) if p.is_dir()), folder)
    columns = {name: _column(folder / "ImageSets/Main" / f"{name}_{split}.txt") for name in CLASSES}
    names = list(columns[CLASSES[0]])
    for name, column in columns.items():
        if list(column) != names:
            raise damaged(folder / "ImageSets/Main" / f"{name}_{split}.txt", "it lists other images than the first")
    there = [name for name in names if (folder / "JPEGImages" / f"{name}.jpg").is_file()]
    if not there:
        raise FileNotFoundError(f"{folder / 'JPEGImages'} holds none of the {len(names):,} images of '{split}'")
    files = [f"JPEGImages/{name}.jpg" for name in there]
    kept, tally, pixels, file = folders.decoded(folder, files, size, cache)
    stems = [Path(path).stem for path in kept]
    notes = tally.notes("RGB")
    if skipped := len(names) - len(kept):
        notes.append(f"{count(skipped, 'listed file')} skipped: not there, or no image")
    shown = {name: np.array([column[stem] for stem in stems]) for name, column in columns.items()}
    ids = np.array([stable_id(f"voc2007/{stem}") for stem in stems], dtype=np.int64)
    return make_images("voc2007", pixels, np.full(len(stems), -1), ids, CLASSES, shown, notes, file)


def _column(listed: Path) -> dict[str, int]:
    """What a class's file says of each image."""
    if not listed.is_file():
        raise FileNotFoundError(f"{listed.parent} holds no {listed.name}")
    rows = [line.split() for line in listed.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    strange = next((row for row in rows if len(row) != 2 or row[1] not in MEANING), None)
    if strange is not None or not rows:
        raise damaged(listed, "each of its lines must name an image and 1, 0 or -1")
    return {name: MEANING[said] for name, said in rows}
