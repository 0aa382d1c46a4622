"""CIFAR-10 and CIFAR-100 as they travel: python and binary archives, the hub's parquet, rows of PNG files."""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from isotherm.data.catalogue import CIFAR_BATCHES, CIFAR_FOLDERS
from isotherm.data.images import Images
from isotherm.data.sources.reading import Array, as_many, damaged, in_range, make_images, members, one_split

FIRST_ID = {"train": 0, "test": 50_000}
_FINE = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
    man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
    pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
    skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
    tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CLASSES = {
    "cifar10": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    "cifar100": tuple(_FINE.split()),
}
COARSE = 20
NUMBERED = ("PUT", "BINPUT", "LONG_BINPUT")
"""Opcodes of a pickle that keep a value for later, under a number that it chooses."""

Records = tuple[Array, Array, Array | None]
"""Pixels (N, 3072), labels, and CIFAR-100's coarse labels."""


def read(folder: Path, name: str, split: str = "train") -> Images:
    """One split, from the first layout found in `folder`.

    Ids are the official order, test after train; the parquet files are in an order of their own, and so are their ids.
    """
    one_split(name, split, FIRST_ID)
    python, python_archive, binary, binary_archive = (folder / f for f in CIFAR_FOLDERS[name])
    batches = CIFAR_BATCHES[name][split]
    for place, archive, suffix, parse in (
        (python, python_archive, "", _pickled),
        (folder, None, "", _pickled),
        (binary, binary_archive, ".bin", _binary),
        (folder, None, ".bin", _binary),
    ):
        names = [f"{b}{suffix}" for b in batches]
        if place.is_dir() and (place / names[0]).is_file():
            return _join(name, split, [parse(_content(place / n), name, place / n) for n in names])
        if archive is not None and archive.is_file():
            inside = members(archive, names)
            return _join(name, split, [parse(inside[n], name, f"{archive}, in it {n},") for n in names])
    if name == "cifar10" and (folder / f"{batches[0]}.png").is_file():
        return _png_rows(folder, split, [folder / f"{b}.png" for b in batches])
    if any((*folder.glob(f"{split}*.parquet"), *folder.glob(f"data/{split}*.parquet"))):
        from isotherm.data.sources import parquet  # noqa: PLC0415 - only this layout needs pyarrow

        return parquet.read(folder, split, name=name, first_id=FIRST_ID[split])
    raise FileNotFoundError(
        f"{folder} holds none of the forms of {name} ({', '.join(CIFAR_FOLDERS[name])}, {split}.parquet)"
    )


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} holds no {path.name}")
    return path.read_bytes()


def _join(name: str, split: str, parts: Sequence[Records]) -> Images:
    pixels = np.concatenate([p for p, _, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([fine for _, fine, _ in parts])
    coarse = [c for _, _, c in parts if c is not None]
    more = {"coarse_label": np.concatenate(coarse)} if coarse else {}
    return make_images(name, pixels, labels, FIRST_ID[split], CLASSES[name], more)


def _binary(content: bytes, name: str, path: Path | str) -> Records:
    """Records of the label (CIFAR-100: coarse, fine) and 3,072 bytes: red, green, blue."""
    labels = 1 if name == "cifar10" else 2
    if not content or len(content) % (labels + 3072):
        raise damaged(path, f"{len(content):,} bytes are not a whole number of records of {labels + 3072:,} bytes")
    rows = np.frombuffer(content, np.uint8).reshape(-1, labels + 3072)
    fine = in_range(rows[:, labels - 1], len(CLASSES[name]), path)
    return rows[:, labels:], fine, in_range(rows[:, 0], COARSE, path) if labels == 2 else None


def _png_rows(folder: Path, split: str, files: Sequence[Path]) -> Images:
    """The layout of the npm package: one image a row, 1,024 RGB pixels; labels in a JSON list (spelled so)."""
    from PIL import Image  # noqa: PLC0415 - only this layout needs Pillow

    parts = []
    for file in files:
        try:
            with Image.open(io.BytesIO(_content(file))) as image:
                if image.mode != "RGB" or image.width != 1024 or image.height > 50_000:
                    raise damaged(
                        file,
                        f"rows of 1024 RGB pixels were wanted, 50,000 at most; it is {image.height} × {image.width}, "
                        f"{image.mode}",
                    )
                parts.append(np.ascontiguousarray(np.asarray(image).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)))
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise damaged(file, error) from error
    names = folder / f"{split}_lables.json"
    try:
        labels = np.array(json.loads(_content(names)))
    except ValueError as error:
        raise damaged(names, error) from error
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise damaged(names, "a list of whole numbers was wanted")
    pixels = np.concatenate(parts)
    return make_images(
        "cifar10", pixels, in_range(as_many(labels, pixels, names), 10, names), FIRST_ID[split], CLASSES["cifar10"]
    )


def _pickled(content: bytes, name: str, path: Path | str) -> Records:
    """The dict of an official pickle, read without running anything it says."""
    try:
        _check_places(content)
        batch = _Plain(io.BytesIO(content), encoding="bytes").load()
    except _Refused as refused:
        raise ValueError(
            f"{path} asks to run {refused}; a CIFAR file holds numbers only. It was not read: do not trust it."
        ) from None
    except Exception as error:  # a broken pickle raises nearly anything
        raise damaged(path, f"it cannot be unpickled ({error or type(error).__name__})") from error
    if not isinstance(batch, dict):
        raise damaged(path, "a dict was wanted")
    batch = {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in batch.items()}
    pixels = batch.get("data")
    if not isinstance(pixels, _Array):
        raise damaged(path, "it holds no array 'data'")
    rows = pixels.rows(path)
    fine = _labels(batch, "labels" if name == "cifar10" else "fine_labels", len(CLASSES[name]), rows, path)
    return rows, fine, None if name == "cifar10" else _labels(batch, "coarse_labels", COARSE, rows, path)


def _check_places(content: bytes) -> None:
    """Refuse a pickle that numbers what it keeps higher than it has bytes: room is made for all the numbers below."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in NUMBERED and int(argument or 0) > len(content):
            raise ValueError(f"it keeps something as number {argument:,}")


def _labels(batch: dict[str, Any], key: str, classes: int, rows: Array, path: Path | str) -> Array:
    column = batch.get(key)
    if not isinstance(column, list) or not all(type(x) is int for x in column):
        raise damaged(path, f"it holds no list of whole numbers '{key}'")
    return in_range(as_many(np.array(column, dtype=np.int64), rows, path), classes, path)


class _Refused(Exception):
    """What a pickle wanted to be called."""


class _Array:
    """Stands in for a numpy array: keeps what the pickle says about it, so that not even numpy's code runs on it."""

    state: object = None

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: object) -> None:
        self.state = state

    def rows(self, path: Path | str) -> Array:
        """The bytes as (N, 3072)."""
        match self.state:
            case (int(), (int(n), 3072), _Dtype(code="u1" | b"u1"), bool() | int() as by_columns, bytes(raw)) if (
                not by_columns and len(raw) == 3072 * n
            ):
                return np.frombuffer(raw, np.uint8).reshape(n, 3072)
        raise damaged(path, "'data' must be bytes, N×3072, row by row")


class _Dtype:
    """Stands in for a numpy dtype."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None: ...


class _Latin1:
    """Stands in for `_codecs.encode`, by which Python 3 writes bytes for Python 2."""

    def __new__(cls, text: str, *_: object) -> bytes:  # type: ignore[misc]
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None: ...


class _Plain(pickle.Unpickler):
    """Numbers, text, lists, dicts and the stand-ins above; nothing else can be named."""

    KNOWN: ClassVar[dict[tuple[str, str], type]] = {
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
        ("_codecs", "encode"): _Latin1,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.KNOWN:
            raise _Refused(f"{module}.{name}")
        return self.KNOWN[module, name]
