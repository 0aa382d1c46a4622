"""PASCAL VOC's objects: VOCdevkit with a folder per year, each with Annotations, ImageSets/Main and JPEGImages.

Learnt from is trainval of every year there is (VOC 07+12 of He et al. 2020, arXiv:1911.05722), asked is the test part
of 2007; without a test part, train and val. Boxes are counted from 1 in the files and reach to their last pixel: from
here on they start at 0, and their right and lower edges lie behind that pixel, as detectron2 reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from isotherm.data.scenes.scene import Box, Scene, Scenes, Skipped, read_pixels, scene
from isotherm.data.sources.decode import size_of
from isotherm.data.sources.reading import damaged, one_split
from isotherm.data.sources.voc_labels import CLASSES


@dataclass(frozen=True)
class _Annotated:
    image: Path
    height: int
    width: int
    boxes: list[Box]
    labels: list[int]
    crowd: list[bool]


def read(folder: Path, split: str = "train", masks: bool = False) -> Scenes:
    """`train` is learnt from, `test` is asked."""
    one_split("voc", split, ("train", "test"))
    if masks:
        raise ValueError("VOC's boxes come without masks of the same objects; coco:PATH and scenes have them.")
    skipped = Skipped()
    listed = [(year, name) for year, part in _parts(folder, split) for name in _names(year, part)]
    annotated = [a for year, name in listed if (a := _annotated(year, name, split == "test", skipped)) is not None]
    objects = tuple(len(a.crowd) - sum(a.crowd) for a in annotated)

    def take(i: int) -> Scene:
        a = annotated[i]
        return scene(read_pixels(a.image, (a.height, a.width)), a.boxes, a.labels, a.crowd)

    return Scenes(f"voc {split}", CLASSES, len(annotated), take, objects, False, skipped.notes())


def _parts(folder: Path, split: str) -> list[tuple[Path, str]]:
    """Folders of years, and which list of each."""
    places = [p for base in (folder / "VOCdevkit", folder) for p in sorted(base.glob("VOC20*")) if p.is_dir()]
    years = [p for p in places or [folder] if (p / "ImageSets/Main").is_dir()]
    if not years:
        raise ValueError(f"{folder} holds no VOC2007 or VOC2012 with ImageSets/Main; give the folder VOCdevkit.")
    tested = [year for year in years if (year / "ImageSets/Main/test.txt").is_file()]
    if tested:
        return [(tested[0], "test")] if split == "test" else [(year, "trainval") for year in years]
    return [(year, "val" if split == "test" else "train") for year in years]


def _names(year: Path, part: str) -> list[str]:
    path = year / "ImageSets/Main" / f"{part}.txt"
    if not path.is_file():
        raise ValueError(f"{path.parent} holds no {path.name}; VOC's lists of images are wanted there.")
    names = [
        line.split()[0] for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
    ]
    wrong = next((name for name in names if "/" in name or "\\" in name or name.startswith(".")), None)
    if wrong is not None or not names:
        raise damaged(path, "each of its lines must name an image" + (f", not '{wrong}'" if wrong else ""))
    return names


def _annotated(year: Path, name: str, asked: bool, skipped: Skipped) -> _Annotated | None:
    """What an annotation says; None, and counted, where there is nothing to read."""
    image, path = year / "JPEGImages" / f"{name}.jpg", year / "Annotations" / f"{name}.xml"
    if not image.is_file() or not path.is_file():
        skipped.add("listed images without a file or an annotation, skipped")
        return None
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise damaged(path, error) from error
    height, width = (_number(root, f"size/{edge}", path, 0.0) for edge in ("height", "width"))
    if height < 1 or width < 1:  # some annotations say 0
        height, width = size_of(image)
    boxes: list[Box] = []
    labels: list[int] = []
    crowd: list[bool] = []
    for each in root.findall("object"):
        kind = (each.findtext("name") or "").strip()
        if kind not in CLASSES:
            skipped.add("objects of a class that VOC does not have, skipped")
            continue
        left, top, right, bottom = (_number(each, f"bndbox/{e}", path) for e in ("xmin", "ymin", "xmax", "ymax"))
        box = skipped.inside((left - 1, top - 1, right, bottom), int(height), int(width))
        if box is not None:
            boxes.append(box)
            labels.append(CLASSES.index(kind))
            crowd.append(asked and _number(each, "difficult", path, 0.0) != 0)
    if not root.findall("object"):
        skipped.add("annotations without objects")
    return _Annotated(image, int(height), int(width), boxes, labels, crowd)


def _number(element: ElementTree.Element, path: str, file: Path, otherwise: float | None = None) -> float:
    text = element.findtext(path)
    if text is None and otherwise is not None:
        return otherwise
    try:
        return float(text or "")
    except ValueError:
        raise damaged(file, f"{path} must be a number, got '{text}'") from None
