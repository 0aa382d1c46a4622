"""k-bit images, made and not read: constant binary channels, to see a distribution loss saturate."""

from __future__ import annotations

from isotherm.data.images import Images
from isotherm.data.probing import k_bit_images
from isotherm.data.sources.reading import one_split

COUNTS = {"train": 4096, "test": 1024}


def read(split: str = "train", bits: int = 8, size: int = 32, count: int | None = None) -> Images:
    """`count` images of `size` × `size` with `bits` channels (Chen & Li 2021, appendix B).

    More than 12 bits want more images than the default: at 16 bits, `count` 200,000. They cost a byte a bit, no more.
    """
    one_split("k-bit", split, tuple(COUNTS))
    return k_bit_images(bits, COUNTS[split] if count is None else count, size, seed=int(split == "test"))
