"""What every set for detection gives: images of any size with boxes, classes and, where it has them, masks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isotherm.checks import count
from isotherm.data.decoding.one_image import in_mode, must_not_be_huge, open_image, undecodable

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels; the left upper corner of the image is (0, 0)."""


LOOKED_AT = 32
"""Scenes that a fingerprint is made of."""


@dataclass(frozen=True, eq=False)
class Scene:
    """An image and the objects on it."""

    pixels: Tensor
    """uint8 (3, H, W)"""
    boxes: Tensor
    """float32 (K, 4), each a `Box`"""
    labels: Tensor
    """int64 (K,), from 0"""
    crowd: Tensor
    """bool (K,): neither learnt nor asked (COCO's crowds; VOC's difficult objects when they are asked)"""
    masks: Tensor | None = None
    """uint8 (K, H, W), 1 where the object is seen"""

    def mirrored(self) -> Scene:
        """Left and right exchanged."""
        width = self.pixels.shape[2]
        left, top, right, bottom = self.boxes.unbind(1)
        boxes = torch.stack([width - right, top, width - left, bottom], 1)
        masks = None if self.masks is None else self.masks.flip(2)
        return replace(self, pixels=self.pixels.flip(2), boxes=boxes, masks=masks)


@dataclass(frozen=True, eq=False)
class Scenes:
    """A set of scenes, each read when it is taken."""

    name: str
    classes: tuple[str, ...]
    size: int
    """How many there are."""
    take: Callable[[int], Scene]
    objects: tuple[int, ...]
    """How many each of them shows, crowds not counted."""
    masks: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not any(self.objects):
            skipped = f" ({'; '.join(self.notes)})" if self.notes else ""
            raise ValueError(f"{self.name} shows no object that could be learnt or asked{skipped}.")

    def __len__(self) -> int:
        return self.size

    def subset(self, index: list[int], *notes: str) -> Scenes:
        """These scenes, in this order."""
        return replace(
            self,
            size=len(index),
            take=lambda i: self.take(index[i]),
            objects=tuple(self.objects[i] for i in index),
            notes=(*self.notes, *notes),
        )

    def with_objects(self) -> Scenes:
        """Those that show something: a detector learns from them alone."""
        shown = [i for i, k in enumerate(self.objects) if k]
        if len(shown) == len(self):
            return self
        return self.subset(shown, f"{count(len(self) - len(shown), 'image')} without objects not learnt from")

    def fingerprint(self) -> str:
        """What tells these scenes from others: their number, their classes, how many objects each shows, and all of
        some."""
        digest = hashlib.sha256(repr((self.name, self.classes, self.objects)).encode())
        for i in np.linspace(0, len(self) - 1, min(len(self), LOOKED_AT)).astype(int).tolist():
            scene = self.take(i)
            for part in (scene.pixels, scene.boxes, scene.labels, scene.crowd):
                digest.update(part.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def first(self, at_most: int | None) -> Scenes:
        if at_most is None or at_most >= len(self):
            return self
        return self.subset(list(range(at_most)), f"the first {at_most:,} of {len(self):,} images")


class Skipped:
    """What a reader of boxes left out or changed, counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, what: str) -> None:
        self.counts[what] += 1

    def inside(self, box: Box, height: int, width: int) -> Box | None:
        """The part of a box that lies in the image; None, and counted, if there is none."""
        left, top, right, bottom = box
        if not (right > left and bottom > top):  # also of numbers that are none
            self.add("boxes of no area, skipped")
            return None
        within = (max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height)))
        if not (within[2] > within[0] and within[3] > within[1]):
            self.add("boxes outside the image, skipped")
            return None
        if within != box:
            self.add("boxes cut at the border of the image")
        return within

    def notes(self) -> tuple[str, ...]:
        return tuple(f"{what}: {n:,}" for what, n in self.counts.items())


def read_pixels(path: Path, size: tuple[int, int]) -> Tensor:
    """An image as RGB, uint8 (3, H, W); of the height and width that its boxes were drawn for."""
    try:
        with open_image(path) as image:
            must_not_be_huge(image)
            pixels = np.array(in_mode(image, "RGB"))
    except Exception as error:  # Pillow's readers raise nearly anything on a broken image
        raise ValueError(f"{path} {undecodable(error)}; replace it, or take it out of the list.") from error
    if pixels.shape[:2] != size:
        raise ValueError(
            f"{path} is {pixels.shape[0]}×{pixels.shape[1]}, its annotation says {size[0]}×{size[1]}; "
            "its boxes would be of another image."
        )
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def scene(pixels: Tensor, boxes: list[Box], labels: list[int], crowd: list[bool], masks: Tensor | None = None) -> Scene:
    """Lists as tensors."""
    return Scene(
        pixels,
        torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
        torch.tensor(labels, dtype=torch.int64),
        torch.tensor(crowd, dtype=torch.bool),
        masks,
    )
