"""What every source of images gives: pixels, labels, stable ids, class names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from isotherm.data.overlay import Overlay
from isotherm.data.stored import Watched
from isotherm.data.undecoded import Undecoded


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images of one size, in memory or memory-mapped; or still in their files (`Undecoded`).

    An id belongs to an image: it stays the same in every subset and order, so that whatever is derived from it
    (a random bit, a digit pasted on it, the seed of its augmentation) does too.
    """

    name: str
    pixels: Tensor | Undecoded
    """uint8 (N, C, H, W), without what is pasted on them: `at` takes them with it"""
    labels: Tensor
    """int64 (N,); −1 where nobody knows"""
    ids: Tensor
    """int64 (N,), unique"""
    classes: tuple[str, ...] = ()
    """Names of the labels 0, 1, …; empty when there are none."""
    more_labels: Mapping[str, Tensor] = field(default_factory=dict)
    """Further labels of the same images: coarse classes, the digit pasted on them, …"""
    bits: int = 0
    """How many RandBit planes every view gets after its augmentation (`probing.randbit`)."""
    overlay: Overlay | None = None
    """What is pasted on the pixels when they are taken (`probing.digits_on_images`)."""
    notes: tuple[str, ...] = ()
    """What a reader of results should know: images converted, skipped, left out."""
    file: Watched | None = None
    """Where the pixels are mapped from; None: they are in memory."""

    def __post_init__(self) -> None:
        n = len(self.pixels)
        if n == 0:
            raise ValueError(f"{self.name} holds no images.")
        if self.pixels.dtype != torch.uint8 or self.pixels.ndim != 4:
            raise ValueError(
                f"{self.name}: pixels must be uint8 (N, C, H, W), got {self.pixels.dtype} {tuple(self.pixels.shape)}."
            )
        for name, column in {"labels": self.labels, "ids": self.ids, **self.more_labels}.items():
            if column.shape != (n,) or column.dtype != torch.int64:
                raise ValueError(f"{self.name}: {name} must be int64 ({n},), got {column.dtype} {tuple(column.shape)}.")
        if n and self.classes and not (self.labels.min() >= -1 and self.labels.max() < len(self.classes)):
            raise ValueError(
                f"{self.name}: labels reach from {int(self.labels.min())} to {int(self.labels.max())}, "
                f"but there are {len(self.classes)} classes."
            )

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        size = " × ".join(map(str, self.shape))
        classes = f", {len(self.classes):,} classes" if self.classes else ""
        return f"{self.name}: {len(self):,} images of {size}{classes}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        c, h, w = self.pixels.shape[1:]
        return c, h, w

    def at(self, index: Tensor) -> Tensor:
        """The pixels of these images with what is pasted on them, unless their file was changed meanwhile."""
        pixels = self._bare(index)
        return pixels if self.overlay is None else self.overlay.paste(pixels, index)

    def _bare(self, index: Tensor) -> Tensor:
        """A copy of the pixels of these images."""
        if self.file is not None:
            self.file.check()
        return self.pixels[index]

    def subset(self, index: Tensor, *notes: str) -> Images:
        """These images, in this order; ids and class names stay."""
        if len(index) == 0:
            raise ValueError(f"{self.name}: the subset is empty.")
        return replace(
            self,
            pixels=self.pixels.subset(index) if isinstance(self.pixels, Undecoded) else self._bare(index),
            labels=self.labels[index],
            ids=self.ids[index],
            more_labels={name: column[index] for name, column in self.more_labels.items()},
            overlay=None if self.overlay is None else self.overlay.subset(index),
            notes=self.notes + notes,
            file=None,
        )

    def counts(self) -> list[int]:
        """How many images each class has."""
        known = self.labels[self.labels >= 0]
        return torch.bincount(known, minlength=len(self.classes)).tolist()
