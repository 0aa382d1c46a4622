"""COCO's objects: annotations/instances_train2017.json and instances_val2017.json, images in train2017 and val2017.

Any year, and any set in the same layout. Category ids are any numbers; here they are counted from 0 in their order.
"""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotherm.data.scenes.scene import Box, Scene, Scenes, Skipped, read_pixels, scene
from isotherm.data.sources.reading import damaged, one_split

Json = dict[str, Any]


@dataclass(frozen=True)
class _Object:
    box: Box
    label: int
    crowd: bool
    segmentation: Any = None


@dataclass(frozen=True)
class _Image:
    path: Path
    height: int
    width: int
    objects: list[_Object]


def read(folder: Path, split: str = "train", masks: bool = False) -> Scenes:
    """`train` is learnt from; `test` is what COCO calls val."""
    one_split("coco", split, ("train", "test"))
    path, images = _files(folder, "val" if split == "test" else "train")
    try:
        held = json.loads(path.read_bytes())
        categories = {int(c["id"]): str(c["name"]) for c in sorted(held["categories"], key=lambda c: int(c["id"]))}
        skipped = Skipped()
        listed = _listed(held, images, {key: i for i, key in enumerate(categories)}, masks, skipped)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise damaged(path, said) from error

    def take(i: int) -> Scene:
        image = listed[i]
        pixels = read_pixels(image.path, (image.height, image.width))
        objects = image.objects
        boxes, labels, crowd = [o.box for o in objects], [o.label for o in objects], [o.crowd for o in objects]
        return scene(pixels, boxes, labels, crowd, _masks(image) if masks else None)

    objects = tuple(sum(not o.crowd for o in image.objects) for image in listed)
    return Scenes(f"coco {split}", tuple(categories.values()), len(listed), take, objects, masks, skipped.notes())


def _files(folder: Path, part: str) -> tuple[Path, Path]:
    """The annotations and the folder of images; of several years the newest."""
    there = sorted((folder / "annotations").glob(f"instances_{part}*.json"))
    if not there:
        raise ValueError(f"{folder} holds no annotations/instances_{part}2017.json; COCO's layout is wanted.")
    images = folder / there[-1].stem.removeprefix("instances_")
    if not images.is_dir():
        raise ValueError(f"{folder} holds no {images.name}, where the images of {there[-1].name} are wanted.")
    return there[-1], images


def _listed(held: Json, folder: Path, labels: dict[int, int], masks: bool, skipped: Skipped) -> list[_Image]:
    by_image: dict[int, list[Json]] = defaultdict(list)
    for annotation in held["annotations"]:
        by_image[int(annotation["image_id"])].append(annotation)
    listed = []
    for entry in sorted(held["images"], key=lambda entry: int(entry["id"])):
        annotations = by_image.pop(int(entry["id"]), [])
        path = folder / Path(str(entry["file_name"])).name
        if not path.is_file():
            skipped.add("listed images without a file, skipped")
            continue
        image = _Image(path, int(entry["height"]), int(entry["width"]), [])
        for annotation in annotations:
            _put(image, annotation, labels, masks, skipped)
        listed.append(image)
    for annotations in by_image.values():
        for _ in annotations:
            skipped.add("objects of images that are not listed, skipped")
    return listed


def _put(image: _Image, annotation: Json, labels: dict[int, int], masks: bool, skipped: Skipped) -> None:
    """An object to its image, or to what was skipped."""
    label = labels.get(int(annotation["category_id"]))
    if label is None:
        skipped.add("objects with an unknown category id, skipped")
        return
    left, top, width, height = (float(x) for x in annotation["bbox"])
    box = skipped.inside((left, top, left + width, top + height), image.height, image.width)
    segmentation = annotation.get("segmentation")
    if box is None:
        return
    if masks and not segmentation:
        skipped.add("objects without a mask, skipped")
        return
    image.objects.append(_Object(box, label, bool(annotation.get("iscrowd", 0)), segmentation if masks else None))


def _masks(image: _Image) -> Tensor:
    """Polygons and run lengths as pixels, uint8 (K, H, W)."""
    tool = importlib.import_module("pycocotools.mask")
    drawn = [_mask(tool, o.segmentation, image.height, image.width, image.path) for o in image.objects]
    if not drawn:
        return torch.zeros(0, image.height, image.width, dtype=torch.uint8)
    return torch.from_numpy(np.stack(drawn))


def _mask(tool: Any, segmentation: Any, height: int, width: int, path: Path) -> Any:
    make: Callable[..., Any] = tool.frPyObjects
    try:
        if isinstance(segmentation, list):
            return tool.decode(tool.merge(make(segmentation, height, width)))
        if isinstance(segmentation["counts"], list):
            return tool.decode(make(segmentation, height, width))
        return tool.decode(segmentation)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"a mask on {path.name} is neither polygons nor run lengths: {error}.") from error
