"""COCO's metrics of detected boxes and masks, as pycocotools computes them.

Average precision is the area under precision over recall (101 points), averaged over the classes; AP over overlaps
(IoU) of 0.50, 0.55, …, 0.95, AP50 and AP75 at one of them (Lin et al. 2014, arXiv:1405.0312). CACR's Table 7 has these.
Crowds, and VOC's difficult objects, are neither wanted nor is a detection on them wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import Any, Literal

import numpy as np
from torch import Tensor

from isotherm.data.scenes.scene import Scene
from isotherm.encoders.build import needed

Json = dict[str, Any]
Kind = Literal["box", "mask"]
NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl")
"""The first six of COCO's summary; small, medium and large are areas below 32², up to 96², and above."""
SURE = 0.5
"""From here on a pixel belongs to a detected mask."""


class Judge:
    """Scenes and what was detected on them, one after another; then the metrics."""

    def __init__(self, classes: tuple[str, ...], masks: bool) -> None:
        needed("pycocotools", "COCO's metrics")
        self.tool = importlib.import_module("pycocotools.mask")
        self.kinds: tuple[Kind, ...] = ("box", "mask") if masks else ("box",)
        self.categories = [{"id": i, "name": name} for i, name in enumerate(classes)]
        self.images: list[Json] = []
        self.wanted: list[Json] = []
        self.detected: list[Json] = []

    def add(self, scene: Scene, boxes: Tensor, labels: Tensor, scores: Tensor, masks: Tensor | None = None) -> None:
        """Boxes (K, 4) as `Box`, labels from 0, masks (K, H, W) as probabilities."""
        number = len(self.images)
        height, width = scene.pixels.shape[1:]
        self.images.append({"id": number, "height": height, "width": width})
        shapes = None if scene.masks is None else scene.masks.bool()
        for entry, crowd in zip(self._entries(scene.boxes, scene.labels, shapes), scene.crowd.tolist(), strict=True):
            self.wanted.append(entry | {"image_id": number, "id": len(self.wanted) + 1, "iscrowd": int(crowd)})
        shapes = None if masks is None else masks > SURE
        for entry, score in zip(self._entries(boxes, labels, shapes), scores.tolist(), strict=True):
            self.detected.append(
                entry | {"image_id": number, "id": len(self.detected) + 1, "iscrowd": 0, "score": score}
            )

    def _entries(self, boxes: Tensor, labels: Tensor, masks: Tensor | None) -> list[Json]:
        entries: list[Json] = []
        for i, ((left, top, right, bottom), label) in enumerate(zip(boxes.tolist(), labels.tolist(), strict=True)):
            entry: Json = {"bbox": [left, top, right - left, bottom - top], "category_id": label}
            if masks is not None and "mask" in self.kinds:
                entry["segmentation"] = self.tool.encode(np.asfortranarray(masks[i].numpy().astype(np.uint8)))
            entries.append(entry)
        return entries

    def metrics(self) -> dict[str, dict[str, float | None]]:
        """By kind and name, from 0 to 1; None where there was nothing to ask."""
        result: dict[str, dict[str, float | None]] = {}
        tool = importlib.import_module("pycocotools.cocoeval")
        for kind in self.kinds:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress and its table
                evaluation = tool.COCOeval(
                    self._coco(self.wanted, kind), self._coco(self.detected, kind), "segm" if kind == "mask" else "bbox"
                )
                evaluation.evaluate()
                evaluation.accumulate()
                evaluation.summarize()
            values = dict(zip(NAMES, evaluation.stats.tolist(), strict=False))
            result[kind] = {name: None if value < 0 else value for name, value in values.items()}
        return result

    def _coco(self, entries: list[Json], kind: Kind) -> Any:
        """A set of pycocotools, with the areas of this kind."""
        held = importlib.import_module("pycocotools.coco").COCO()
        areas = (
            float(self.tool.area(e["segmentation"])) if kind == "mask" else e["bbox"][2] * e["bbox"][3] for e in entries
        )
        held.dataset = {
            "images": self.images,
            "categories": self.categories,
            "annotations": [entry | {"area": area} for entry, area in zip(entries, areas, strict=True)],
        }
        held.createIndex()
        return held
