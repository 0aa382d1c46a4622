"""The twenty image classification sets of ELEVATER (Li et al. 2022, arXiv:2204.08790), as CACR's Table 6 uses them.

Five labelled images per class, linear and fine-tuned, three seeds. A set that has no reader of its own lies in the data
root under its name: folders (train/CLASS/*, test/CLASS/*) or the hub's parquet.
"""

from __future__ import annotations

from collections.abc import Callable

from isotherm.data import roots
from isotherm.evaluate.suite import Entry, Metric, Suite

BY_HAND = (
    "github.com/Computer-Vision-in-the-Wild/DataDownload ('{}'), as {{train,test}}/CLASS/* or {{train,test}}.parquet"
)
OWN = {"cifar10": "cifar10", "cifar100": "cifar100", "mnist": "mnist", "voc2007": "voc2007"}
"""Those that have a reader of their own."""
_PER_CLASS: Metric = "mean-per-class"
_ACCURACY: Metric = "accuracy"
TABLE: tuple[tuple[str, str, int, int, int, Metric], ...] = (
    ("caltech101", "caltech-101", 102, 3_060, 6_084, _PER_CLASS),
    ("cifar10", "cifar-10", 10, 50_000, 10_000, _ACCURACY),
    ("cifar100", "cifar-100", 100, 50_000, 10_000, _ACCURACY),
    ("country211", "country211", 211, 31_650, 21_100, _ACCURACY),
    ("dtd", "dtd", 47, 1_880, 1_880, _ACCURACY),
    ("eurosat", "eurosat_clip", 10, 5_000, 5_000, _ACCURACY),
    ("fer2013", "fer-2013", 7, 28_709, 3_589, _ACCURACY),
    ("fgvc-aircraft", "fgvc-aircraft-2013b-variants102", 100, 3_334, 3_333, _PER_CLASS),
    ("food101", "food-101", 101, 75_750, 25_250, _ACCURACY),
    ("gtsrb", "gtsrb", 43, 26_640, 12_630, _ACCURACY),
    ("hateful-memes", "hateful-memes", 2, 8_500, 500, "roc-auc"),
    ("kitti-distance", "kitti-distance", 4, 6_347, 711, _ACCURACY),
    ("mnist", "mnist", 10, 60_000, 10_000, _ACCURACY),
    ("oxford-flowers", "oxford-flower-102", 102, 1_020, 6_149, _PER_CLASS),
    ("oxford-pets", "oxford-iiit-pets", 37, 3_680, 3_669, _PER_CLASS),
    ("patch-camelyon", "patch-camelyon", 2, 262_144, 32_768, _ACCURACY),
    ("rendered-sst2", "rendered-sst2", 2, 6_920, 1_821, _ACCURACY),
    ("resisc45", "resisc45_clip", 45, 3_150, 25_200, _ACCURACY),
    ("stanford-cars", "stanford-cars", 196, 8_144, 8_041, _ACCURACY),
    ("voc2007", "voc-2007-classification", 20, 2_501, 4_952, "11-point-map"),
)
"""Name, its name in ELEVATER's own download, classes, training and test images (by its list of sets), metric."""


def elevater() -> Suite:
    """The suite, with its sets where they would lie on this machine."""
    return Suite("elevater", tuple(_entry(*row) for row in TABLE))


def _entry(name: str, theirs: str, classes: int, train: int, test: int, metric: Metric) -> Entry:
    if name in OWN:
        return Entry(name, OWN[name], metric, classes, train, test, "isotherm data list")
    places = [folder / name for folder in roots.looked_in()]
    place = next((p for p in places if p.is_dir()), places[0])
    form = "parquet" if any(place.glob("*.parquet")) or any(place.glob("data/*.parquet")) else "folder"
    return Entry(name, f"{form}:{place}", metric, classes, train, test, BY_HAND.format(theirs))


SUITES: dict[str, Callable[[], Suite]] = {"elevater": elevater}
"""By name; each is made when asked for, since it says where its sets lie."""
