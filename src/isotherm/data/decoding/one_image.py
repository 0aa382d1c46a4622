"""One compressed image: opened, refused if it is huge, brought to one mode. Without torch (`decoder`)."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

Source = bytes | Path | None
MOST_PIXELS = 1 << 26
"""Of one image: 8,192×8,192."""


def open_image(source: Source) -> Image.Image:
    """Its head is read, not yet its pixels."""
    if source is None:
        raise ValueError("there are no bytes")
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)


def must_not_be_huge(image: Image.Image) -> None:
    """A small file may decode to any size; a few of them would fill the memory."""
    if image.width * image.height > MOST_PIXELS:
        raise ValueError(
            f"{image.height:,}×{image.width:,} are more than {MOST_PIXELS:,} pixels; make it smaller beforehand"
        )


def in_mode(image: Image.Image, mode: str) -> Image.Image:
    """The image, decoded, as gray (L) or as RGB."""
    if image.mode == mode:
        return image
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers of an unknown range")
    if image.mode.startswith("I"):  # 16 bits a pixel: Pillow would clip them, not scale them
        wide = np.asarray(image)
        # 32-bit numbers that are bytes; Pillow also opens 16-bit PGM so
        if image.mode == "I" and image.format != "PPM" and wide.max(initial=0) < 256:
            return Image.fromarray(wide.clip(0).astype(np.uint8)).convert(mode)
        return Image.fromarray((wide >> 8).astype(np.uint8)).convert(mode)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert(mode)


def undecodable(error: Exception) -> str:
    """What is wrong with an image, as the end of a sentence that begins with its name."""
    return f"is not an image that can be decoded ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
