"""Compressed images into rows of one array, by threads; what had to be changed is counted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from isotherm.checks import count
from isotherm.data.decoding.one_image import Source, in_mode, must_not_be_huge, open_image, undecodable

Array = NDArray[Any]
MODES = {1: "L", 3: "RGB"}
"""Pillow's names, by channels."""


@dataclass
class Tally:
    """What happened to the images decoded so far."""

    converted: int = 0
    """had another mode: grey, palette, CMYK, …"""
    resized: int = 0
    """had another size"""
    failed: list[tuple[int, str]] = field(default_factory=list)
    """row, and what was wrong with it"""

    def add(self, other: Tally) -> None:
        self.converted += other.converted
        self.resized += other.resized
        self.failed += other.failed

    def notes(self, mode: str) -> list[str]:
        """The counts as sentences, for `Images.notes`."""
        notes = []
        if self.converted:
            notes.append(f"{count(self.converted, 'image')} had another mode than {mode}: converted")
        if self.resized:
            notes.append(f"{count(self.resized, 'image')} had another size: resized")
        return notes


def pool() -> ThreadPoolExecutor:
    """Threads, as many as cores: the decoders let go of the interpreter while they work."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())


def fill(out: Array, first: int, sources: Sequence[Source], resize: bool, threads: ThreadPoolExecutor) -> Tally:
    """Decode `sources` into out[first], out[first + 1], …, which has room for (N, C, H, W).

    With `resize`, the middle square of an image of another size is brought to H×W; without, such an image failed.
    """

    def some(start: int) -> Tally:
        tally = Tally()
        for place, source in enumerate(sources[start : start + step], start):
            _one(out[first + place], source, resize, tally, first + place)
        return tally

    step, total = 64, Tally()
    for part in threads.map(some, range(0, len(sources), step)):
        total.add(part)
    return total


def size_of(source: Source) -> tuple[int, int]:
    """Height and width of an image, from its head."""
    try:
        with open_image(source) as image:
            must_not_be_huge(image)
            return image.height, image.width
    except Exception as error:  # Pillow's readers raise nearly anything on a broken image
        raise ValueError(undecodable(error)) from error


def _one(row: Array, source: Source, resize: bool, tally: Tally, place: int) -> None:
    channels, height, width = row.shape
    mode = MODES[channels]
    try:
        with open_image(source) as image:
            must_not_be_huge(image)
            size = (image.width, image.height)
            if size != (width, height) and not resize:
                tally.failed.append(
                    (place, f"is {size[1]}×{size[0]}, the first is {height}×{width}; say size=N to bring all to N×N")
                )
                return
            tally.converted += image.mode != mode
            if size != (width, height):
                tally.resized += 1
                image.draft(None, (2 * width, 2 * height))  # a JPEG many times too large is decoded smaller at once
            pixels = fitted(image, row.shape)
    except Exception as error:  # Pillow's readers raise nearly anything on a broken image
        tally.failed.append((place, undecodable(error)))
        return
    row[:] = pixels


def fitted(image: Image.Image, shape: tuple[int, ...]) -> Array:
    """An image as uint8 (C, H, W): of one with another size the middle square, brought to H×W."""
    channels, height, width = shape
    converted = in_mode(image, MODES[channels])
    if image.size != (width, height):
        side = min(converted.size)
        left, top = (converted.width - side) / 2, (converted.height - side) / 2
        box = (left, top, left + side, top + side)
        converted = converted.resize((width, height), Image.Resampling.BICUBIC, box=box)
    pixels = np.asarray(converted)
    return pixels.transpose(2, 0, 1) if channels == 3 else pixels[None]
