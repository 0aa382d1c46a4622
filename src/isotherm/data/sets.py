"""The sets that have a name: how large they are, on what terms, where they are looked for; and `load`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isotherm.checks import did_you_mean, known_settings, parameters
from isotherm.data import roots
from isotherm.data.images import Images
from isotherm.data.sources import cifar, idx

_HUNDRED = """
    n01558993 n01692333 n01729322 n01735189 n01749939 n01773797 n01820546 n01855672 n01978455 n01980166
    n01983481 n02009229 n02018207 n02085620 n02086240 n02086910 n02087046 n02089867 n02089973 n02090622
    n02091831 n02093428 n02099849 n02100583 n02104029 n02105505 n02106550 n02107142 n02108089 n02109047
    n02113799 n02113978 n02114855 n02116738 n02119022 n02123045 n02138441 n02172182 n02231487 n02259212
    n02326432 n02396427 n02483362 n02488291 n02701002 n02788148 n02804414 n02859443 n02869837 n02877765
    n02974003 n03017168 n03032252 n03062245 n03085013 n03259280 n03379051 n03424325 n03492542 n03494278
    n03530642 n03584829 n03594734 n03637318 n03642806 n03764736 n03775546 n03777754 n03785016 n03787032
    n03794056 n03837869 n03891251 n03903868 n03930630 n03947888 n04026417 n04067472 n04099969 n04111531
    n04127249 n04136333 n04229816 n04238763 n04336792 n04418357 n04429376 n04435653 n04485082 n04493381
    n04517823 n04589890 n04592741 n07714571 n07715103 n07753275 n07831146 n07836838 n13037406 n13040303
"""
IMAGENET100 = tuple(_HUNDRED.split())
"""ImageNet-100: Wang & Liu 2021 (arXiv:2012.09740), supplement, Table 3; the same hundred as CACR (arXiv:2105.03746),
Table 21, which names Tian et al. 2019 and Wang & Isola 2020 as its source. Sorted: the place is the label."""


@dataclass(frozen=True)
class Set:
    """One named set of images."""

    name: str
    images: Mapping[str, int]
    """How many each split holds."""
    shape: tuple[int, int, int]
    """Channels, height, width, unless an option says otherwise."""
    licence: str
    source: str
    """The file in `sources` that reads it."""
    folder: str = ""
    """Where it lies in the data root; empty: it needs no files."""
    files: tuple[tuple[str, ...], ...] = ()
    """Forms it is known in: all files of one of them make it complete."""
    missing: str = ""
    """How to get it, after "`isotherm data get NAME` fetches it" where that is so."""
    fetched: bool = True
    splits: Mapping[str, str] = field(default_factory=dict)
    """Other names of splits."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the reader is told besides the folder and the split."""

    def place(self, root: Path | str | None = None) -> Path | None:
        """Its folder; none if it needs none."""
        return roots.root(root) / self.folder if self.folder else None

    def there(self, root: Path | str | None = None) -> bool:
        """Whether all its files are there, in one of their forms."""
        folder = self.place(root)
        return folder is None or any(all(_holds_something(folder / f) for f in form) for form in self.files)

    @property
    def advice(self) -> str:
        """What to do when it is not there."""
        fetch = f"`isotherm data get {self.name}` fetches it; or put" if self.fetched else "Put"
        return f"{fetch} {self.missing}"


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.is_file() and path.stat().st_size > 0


def _forms(*forms: str | tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple((form,) if isinstance(form, str) else form for form in forms)


_IDX = _forms(idx.FILES, tuple(f"{f}.gz" for f in idx.FILES))
_PARQUET = ("train.parquet", "test.parquet")

SETS: dict[str, Set] = {
    s.name: s
    for s in (
        Set(
            "digits",
            {"train": 1437, "test": 360},
            (1, 8, 8),
            "CC BY 4.0 (UCI), comes with scikit-learn",
            "digits",
            fetched=False,
        ),
        Set(
            "k-bit",
            {"train": 4096, "test": 1024},
            (8, 32, 32),
            "made by Isotherm",
            "kbit",
            fetched=False,
        ),
        Set(
            "mnist",
            {"train": 60_000, "test": 10_000},
            (1, 28, 28),
            "CC BY-SA 3.0 (LeCun, Cortes & Burges)",
            "idx",
            "mnist",
            _IDX,
            "the four official idx files there (.gz or not).",
            settings={"name": "mnist"},
        ),
        Set(
            "fashion-mnist",
            {"train": 60_000, "test": 10_000},
            (1, 28, 28),
            "MIT (Zalando)",
            "idx",
            "fashion-mnist",
            _IDX,
            "the four official idx files there (.gz or not).",
            settings={"name": "fashion-mnist"},
        ),
        Set(
            "cifar10",
            {"train": 50_000, "test": 10_000},
            (3, 32, 32),
            "no licence stated; cite Krizhevsky 2009",
            "cifar",
            "cifar10",
            _forms(
                *cifar.FOLDERS["cifar10"],
                tuple(b for batches in cifar.BATCHES["cifar10"].values() for b in batches),
                tuple(f"{b}.bin" for batches in cifar.BATCHES["cifar10"].values() for b in batches),
                (
                    *(f"{b}.png" for batches in cifar.BATCHES["cifar10"].values() for b in batches),
                    "train_lables.json",
                    "test_lables.json",
                ),
                _PARQUET,
            ),
            "cifar-10-python.tar.gz, cifar-10-binary.tar.gz or the hub's {train,test}.parquet there.",
            settings={"name": "cifar10"},
        ),
        Set(
            "cifar100",
            {"train": 50_000, "test": 10_000},
            (3, 32, 32),
            "no licence stated; cite Krizhevsky 2009",
            "cifar",
            "cifar100",
            _forms(*cifar.FOLDERS["cifar100"], ("train", "test"), ("train.bin", "test.bin"), _PARQUET),
            "cifar-100-python.tar.gz, cifar-100-binary.tar.gz or the hub's {train,test}.parquet there.",
            settings={"name": "cifar100"},
        ),
        Set(
            "svhn",
            {"train": 73_257, "test": 26_032, "extra": 531_131},
            (3, 32, 32),
            "for non-commercial use",
            "svhn",
            "svhn",
            _forms(("train_32x32.mat", "test_32x32.mat")),
            "train_32x32.mat, test_32x32.mat and, if wanted, extra_32x32.mat there.",
        ),
        Set(
            "stl10",
            {"train": 5_000, "test": 8_000, "unlabeled": 100_000},
            (3, 96, 96),
            "images from ImageNet, on its terms",
            "stl10",
            "stl10",
            tuple(
                tuple(f"{folder}{f}.bin" for f in ("train_X", "train_y", "test_X", "test_y", "unlabeled_X"))
                for folder in ("", "stl10_binary/")
            ),
            "the unpacked stl10_binary.tar.gz there.",
        ),
        Set(
            "imagenette",
            {"train": 9_469, "validation": 3_925},
            (3, 64, 64),
            "images from ImageNet, on its terms",
            "parquet",
            "imagenette",
            _forms(("train.parquet", "validation.parquet")),
            "the hub's {train,validation}.parquet there.",
            fetched=False,
            splits={"test": "validation", "val": "validation"},
            settings={"name": "imagenette", "size": 64},
        ),
        Set(
            "imagenet100",
            {"train": 126_689, "val": 5_000},
            (3, 224, 224),
            "for research and education, after registration",
            "folder",
            "imagenet",
            _forms(tuple(f"{split}/{c}" for split in ("train", "val") for c in IMAGENET100)),
            "the unpacked ILSVRC 2012 archives there, as {train,val}/CLASS/*.JPEG (image-net.org, after registration).",
            fetched=False,
            splits={"test": "val", "validation": "val"},
            settings={"name": "imagenet100", "size": 224, "classes": IMAGENET100},
        ),
        Set(
            "imagenet",
            {"train": 1_281_167, "val": 50_000},
            (3, 224, 224),
            "for research and education, after registration",
            "folder",
            "imagenet",
            _forms(("train", "val")),
            "the unpacked ILSVRC 2012 archives there, as {train,val}/CLASS/*.JPEG (image-net.org, after registration).",
            fetched=False,
            splits={"test": "val", "validation": "val"},
            settings={"name": "imagenet", "size": 224},
        ),
    )
}

FORMATS = ("folder", "parquet", "arrays")
"""Whatever is not in the table: `folder:PATH`, `parquet:PATH`, `arrays:PATH`."""


def named(name: str) -> Set:
    """The set of this name."""
    if name not in SETS:
        known = [*SETS, *(f"{f}:PATH" for f in FORMATS)]
        raise ValueError(f"no set '{name}'{did_you_mean(name, known)}")
    return SETS[name]


def there(name: str) -> None:
    """Refuse a named set whose files are missing, and say how to get them."""
    if ":" not in name and not named(name).there():
        raise FileNotFoundError(f"{name} is not in {named(name).place()}. {named(name).advice}")


def load(name: str, split: str = "train", root: Path | str | None = None, **options: Any) -> Images:
    """One split of a set, by its name or as `folder:PATH`, `parquet:PATH`, `arrays:PATH`.

    `root` is the data root (`where.root`). Options go to the reader: `size`, `bad`, `label`, …
    """
    form, colon, path = name.partition(":")
    if colon and form in FORMATS:
        return _reader(form, name, options)(Path(path).expanduser(), split=split, **options)
    found = named(name)
    for option in options:
        if option in ("name", "classes", "first_id"):
            raise TypeError(f"{name} has no option '{option}'; it is part of the set.")
    read = _reader(found.source, name, options)
    settings = {**found.settings, **options, "split": found.splits.get(split, split)}
    folder = found.place(root)
    if folder is None:
        return read(**settings)
    if found.source in FORMATS and settings["split"] not in found.images:
        raise ValueError(f"{name} has no split '{split}'; it has: {', '.join(found.images)}.")
    try:
        return read(folder, **settings)
    except FileNotFoundError as missing:
        raise FileNotFoundError(f"{name} is not in {folder}: {missing}. {found.advice}") from missing


def _reader(source: str, name: str, options: Mapping[str, Any]) -> Callable[..., Images]:
    # Each source imports what its format needs, and only when it is asked for.
    read: Callable[..., Images] = importlib.import_module(f"isotherm.data.sources.{source}").read
    known_settings(name, options, parameters(read, ("path", "folder", "split", "name")), "option")
    return read
