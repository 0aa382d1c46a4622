"""Random resized crops out of a compressed image: boxes in the whole of it, decoded no larger than they need.

Without torch: `decoder` runs it in processes that only decode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from isotherm.data.decoding.one_image import in_mode, must_not_be_huge, open_image

TRIES = 10
"""Boxes drawn until one lies within the image (torchvision's number)."""
DRAWS = 5
"""Numbers of the first try: area, aspect, top, left, and whether it is mirrored; four for each further one."""


class Crop(NamedTuple):
    """How one view is cut out of an image."""

    size: int
    """Its edge in pixels."""
    scale: tuple[float, float]
    """Range of the box's area, as a part of the image's."""
    ratio: tuple[float, float]
    flip: float
    """Chance that it is mirrored."""


def random_box(
    draws: Sequence[float], height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Top, left, height and width of a random resized crop, from uniform numbers.

    As torchvision's ``RandomResizedCrop``: the area is a uniform part of the image's in `scale`, the aspect ratio
    log-uniform in `ratio`, the place uniform; a box that does not fit is drawn again, and after ten the largest
    central one within `ratio` is taken.
    """
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for attempt in range(TRIES):
        at = 0 if attempt == 0 else DRAWS + 4 * (attempt - 1)
        area_draw, aspect_draw, top_draw, left_draw = draws[at : at + 4]
        area = height * width * (scale[0] + (scale[1] - scale[0]) * area_draw)
        aspect = math.exp(low + (high - low) * aspect_draw)
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(top_draw * (height - h + 1)), int(left_draw * (width - w + 1)), h, w
    w, h = width, height
    if width / height < ratio[0]:
        h = min(height, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = min(width, round(height * ratio[1]))
    return (height - h) // 2, (width - w) // 2, h, w


def take_crops(encoded: bytes, crops: Sequence[Crop], draws: NDArray[np.float32]) -> list[NDArray[Any]]:
    """The crops of an image, uint8 (3, size, size) each; `draws` holds a row of numbers for each of them.

    A JPEG is decoded at a half, a quarter or an eighth of its size where every box keeps at least as many pixels as
    its crop has. Resized as torchvision and Pillow do: triangle filter, antialiased, of the box alone.
    """
    with open_image(encoded) as image:
        must_not_be_huge(image)
        width, height = image.size
        rows = [[float(number) for number in row] for row in draws]
        boxes = [random_box(row, height, width, crop.scale, crop.ratio) for crop, row in zip(crops, rows, strict=True)]
        spare = min(min(h, w) // crop.size for crop, (_, _, h, w) in zip(crops, boxes, strict=True))
        reduction = next((r for r in (8, 4, 2) if spare >= r), 1)
        if reduction > 1:
            image.draft(None, (width // reduction, height // reduction))
        whole = in_mode(image, "RGB")
        across, down = whole.width / width, whole.height / height
        views = []
        for crop, (top, left, h, w), row in zip(crops, boxes, rows, strict=True):
            box = (left * across, top * down, (left + w) * across, (top + h) * down)
            view = _resized(whole, box, crop.size)
            if row[4] < crop.flip:
                view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            views.append(np.asarray(view).transpose(2, 0, 1))
        return views


def _resized(whole: Image.Image, box: tuple[float, float, float, float], size: int) -> Image.Image:
    """A box, which need not end at whole pixels, as a square; pixels beyond it have no part in it."""
    left, top = math.floor(box[0]), math.floor(box[1])
    right, bottom = min(whole.width, math.ceil(box[2])), min(whole.height, math.ceil(box[3]))
    part = whole.crop((left, top, right, bottom))
    within = (box[0] - left, box[1] - top, min(box[2], right) - left, min(box[3], bottom) - top)
    return part.resize((size, size), Image.Resampling.BILINEAR, box=within)
