"""Small gray pictures pasted on images when these are taken: a set with digits on it is never a second copy of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from isotherm.checks import one_of

Places = Literal["offsets", "grid"]
Blend = Literal["max", "sum"]
OFFSETS = (0.15, 0.45, 0.75)
"""Of height and width: the top left corners in Chen & Li's notebook."""
AT_ONCE = 4096
"""Pictures resized at a time: sixty thousand in floating point would be 188 MB."""


@dataclass(frozen=True, eq=False)
class Overlay:
    """Which small picture each image gets, where, and how the two are combined."""

    ink: Tensor
    """uint8 (U, h, w): the small pictures"""
    which: Tensor
    """int64 (N,): which of them each image has"""
    corners: tuple[tuple[int, int], ...]
    """Top and left of every place; what reaches beyond the border is cut there."""
    blend: Blend = "max"

    def __post_init__(self) -> None:
        one_of("blend", self.blend, get_args(Blend))

    def paste(self, pixels: Tensor, index: Tensor) -> Tensor:
        """Write on these pixels, (B, C, H, W), which are those of the images at `index`; they are given back."""
        ink = self.ink[self.which[index]][:, None]
        for top, left in self.corners:
            part = pixels[:, :, top : top + ink.shape[2], left : left + ink.shape[3]]
            over = ink[:, :, : part.shape[2], : part.shape[3]]
            if self.blend == "max":
                torch.maximum(part, over, out=part)
            else:
                part += torch.minimum(over, 255 - part)  # a byte has no room for more than 255
        return pixels

    def subset(self, index: Tensor) -> Overlay:
        return replace(self, which=self.which[index])


def resized(ink: Tensor, size: int | None) -> Tensor:
    """The pictures, uint8 (U, h, w), as squares of this edge (triangle filter, antialiased); None: as they are."""
    if size is None:
        return ink
    parts = [
        interpolate(part[:, None].float(), (size, size), mode="bilinear", antialias=True).round().to(torch.uint8)
        for part in ink.split(AT_ONCE)
    ]
    return torch.cat(parts)[:, 0]


def nine_corners(places: Places, height: int, width: int, h: int, w: int) -> tuple[tuple[int, int], ...]:
    """Where nine pictures of h × w begin on an image: at the paper's `OFFSETS`, or each in the middle of a ninth."""
    if one_of("places", places, get_args(Places)) == "offsets":
        tops, lefts = ([int(a * edge) for a in OFFSETS] for edge in (height, width))
    else:
        if 3 * h > height or 3 * w > width:
            raise ValueError(
                f"nine digits of {h}×{w} do not fit beside each other on {height}×{width} images. "
                f"Resize them to {min(height, width) // 3} or less, or use the places 'offsets', where they are cut."
            )
        tops, lefts = ([((2 * i + 1) * edge - 3 * e) // 6 for i in range(3)] for edge, e in ((height, h), (width, w)))
    return tuple((top, left) for top in tops for left in lefts)
