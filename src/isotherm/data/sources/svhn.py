"""Street View House Numbers, the cropped digits: {train,test,extra}_32x32.mat."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isotherm.data.images import Images
from isotherm.data.sources.matlab import arrays
from isotherm.data.sources.reading import as_many, damaged, in_range, make_images, one_split

FIRST_ID = {"train": 0, "test": 73_257, "extra": 99_289}


def read(folder: Path, split: str = "train") -> Images:
    """One official file; the label 10, which stands for the digit 0, becomes 0."""
    one_split("svhn", split, FIRST_ID)
    path = folder / f"{split}_32x32.mat"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no {path.name}")
    try:
        content = arrays(path, ("X", "y"))
    except ValueError as error:
        raise damaged(path, f"it cannot be read as MATLAB 5 ({error})") from error
    x, y = content.get("X"), content.get("y")
    if x is None or y is None or x.dtype != np.uint8 or x.shape[:3] != (32, 32, 3) or x.ndim != 4:
        raise damaged(path, "it must hold X, 32×32×3×N bytes, and y, the labels")
    pixels = np.ascontiguousarray(x.transpose(3, 2, 0, 1))
    labels = as_many(y.reshape(-1).astype(np.int64), pixels, path)
    labels = in_range(np.where(labels == 10, 0, np.where(labels == 0, -1, labels)), 10, path)
    return make_images("svhn", pixels, labels, FIRST_ID[split], [str(d) for d in range(10)])
