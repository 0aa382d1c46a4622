"""Single digits drawn as in the scenes, for an encoder to learn from before it detects them (`isotherm detect`)."""

from __future__ import annotations

from isotherm.data.images import Images
from isotherm.data.scenes.drawn import patches
from isotherm.data.sources.reading import one_split

COUNTS = {"train": 4000, "test": 1000}


def read(split: str = "train", size: int = 48, count: int | None = None) -> Images:
    """`count` images of `size` × `size`, coloured digits on coloured noise; those of the scenes are drawn apart."""
    one_split("scene-digits", split, tuple(COUNTS))
    return patches(split, COUNTS[split] if count is None else count, size)
