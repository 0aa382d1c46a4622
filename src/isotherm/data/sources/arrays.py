"""Images in numpy's own files: .npy, memory-mapped, or .npz."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import numpy as np

from isotherm.data.declared import npz_arrays
from isotherm.data.images import Images
from isotherm.data.parts import NoSplit
from isotherm.data.sources.reading import MOST_CLASSES, Array, as_many, damaged, in_range, make_images

Layout = Literal["NHW", "NHWC", "NCHW"]


def read(path: Path, split: str = "train", labels: Path | str | None = None, layout: Layout | None = None) -> Images:
    """uint8 images, NHW, NHWC or NCHW, and labels if there are any (else −1).

    `path` is one of
      a .npz with `images` and `labels`; or with `train_images` and `train_labels`, or `x_train` and `y_train`, a split;
      a .npy, its labels in another one: `labels`, else `NAME_labels.npy` beside it where there is one;
      a folder with one such file a split; `labels` then has {split} in its name.
    Ids are indices in the file.
    """
    if layout is not None and layout not in get_args(Layout):
        raise ValueError(f"layout must be one of {', '.join(get_args(Layout))}; got {layout!r}.")
    whole = path.is_file()
    if path.is_dir():
        if labels is not None and "{split}" not in str(labels):
            raise ValueError(f"labels={labels} would be those of every part of {path}: put {{split}} into its name.")
        labels = None if labels is None else str(labels).replace("{split}", split)
        candidates = [p for p in (path / f"{split}.npz", path / f"{split}.npy") if p.is_file()]
        if not candidates:
            raise NoSplit(f"{path} holds no {split}.npz or {split}.npy")
        path = candidates[0]
    elif not whole:
        raise FileNotFoundError(f"there is no file or folder {path}")
    if path.suffix not in {".npy", ".npz"}:
        raise ValueError(f"arrays are read from .npy and .npz files, got {path.name}.")
    if path.suffix == ".npy":
        if whole and split != "train":
            raise NoSplit(f"{path} is one array: it has no split '{split}', all of it is 'train'.")
        beside = Path(labels) if labels is not None else path.with_name(f"{path.stem}_labels.npy")
        given = _load(beside) if labels is not None or beside.is_file() else None
        x, where = _load(path), beside
    else:
        x, given = _from_npz(path, split, whole)
        where = path
        if labels is not None:
            given, where = _load(Path(labels)), Path(labels)
    pixels = channels_first(x, path, layout)
    y = np.full(len(pixels), -1) if given is None else as_many(whole_numbers(given, where), pixels, where)
    if len(y) and y.max() >= MOST_CLASSES:
        raise ValueError(f"{where}: a label is {y.max()}; labels number the classes from 0, up to {MOST_CLASSES:,}.")
    if len(y):
        in_range(y, int(y.max()) + 1, where, unknown=True)
    return make_images(
        path.stem,
        pixels,
        y,
        0,
        [str(c) for c in range(int(y.max(initial=-1)) + 1)],
        file=path if path.suffix == ".npy" else None,
    )


def _load(path: Path) -> Array:
    try:
        # Mode "c" is private and writable in memory only: torch warns about arrays that cannot be written.
        loaded = np.load(path, mmap_mode="c", allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except Exception as error:  # numpy's reader raises nearly anything on a broken head
        raise damaged(path, error) from error
    if not isinstance(loaded, np.ndarray):
        raise damaged(path, "it holds several arrays, one was wanted")
    return loaded


def _from_npz(path: Path, split: str, whole: bool) -> tuple[Array, Array | None]:
    names = [(f"{split}_images", f"{split}_labels"), (f"x_{split}", f"y_{split}")]
    if not whole or split == "train":
        names += [("images", "labels"), ("x", "y")]
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            npz_arrays(path)
            for x, y in names:
                if x in file:
                    return file[x], file.get(y)
            there = ", ".join(file.files)
    except Exception as error:  # as above, and what a broken archive makes of zipfile
        if str(error).startswith(str(path)):
            raise
        raise damaged(path, error) from error
    raise NoSplit(f"{path} has no '{split}' images: wanted {' or '.join(x for x, _ in names)}; it has: {there}.")


def channels_first(x: Array, path: Path | str, layout: Layout | None) -> Array:
    if x.dtype != np.uint8 or x.ndim not in {3, 4}:
        raise ValueError(f"{path}: images must be uint8 with 3 or 4 dimensions, got {x.dtype} {x.shape}.")
    if layout is None and x.ndim == 3:
        layout = "NHW"
    if layout is None:
        first, last = x.shape[1] in {1, 3}, x.shape[3] in {1, 3}
        if first == last:
            raise ValueError(f'{path}: {x.shape} may be NCHW or NHWC; say which: layout="NCHW" or layout="NHWC".')
        layout = "NCHW" if first else "NHWC"
    if x.ndim != len(layout):
        raise ValueError(f"{path}: layout {layout} needs {len(layout)} dimensions, the array is {x.shape}.")
    return x[:, None] if layout == "NHW" else x if layout == "NCHW" else x.transpose(0, 3, 1, 2)


def whole_numbers(labels: Array, path: Path | str) -> Array:
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{path}: labels must be whole numbers, got {labels.dtype}.")
    return np.asarray(labels).reshape(-1).astype(np.int64)
