"""Multi-crop: small crops of little area beside the large ones, which cost little and ask hard questions.

Caron et al. 2020 (SwAV, arXiv:2006.09882), §3.3: they look for the image's large crops and are never looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isotherm.views.recipes import MOST, Recipe

AREA = (0.05, 0.14)
"""Of a small crop, as a part of the image's (SwAV)."""
EDGE = 96 / 224
"""Of a small crop, as a part of the large one's (SwAV)."""


def multi_crop(
    recipe: Recipe,
    edge: int,
    small_crops: int | None = None,
    small_size: int | None = None,
    small_scale: Sequence[float] | None = None,
    crop_scale: Sequence[float] | None = None,
) -> Recipe:
    """A recipe with so many small crops, of this size and area; `crop_scale` is the area of its large ones.

    `edge` is that of a large crop in pixels. What is not given is the recipe's own, else SwAV's: 3/7 of the edge, 5 to
    14 % of the area. A recipe that says nothing of small crops draws them as its first view, but for the crop.
    """
    large = recipe.views
    if crop_scale is not None:
        large = tuple(replace(view, scale=area("crop_scale", crop_scale)) for view in large)
    count = len(recipe.small) if small_crops is None else small_crops
    if not 0 <= count <= MOST:
        raise ValueError(f"small_crops lies between 0 and {MOST:,}, got {count}.")
    if not count:
        for name, value in {"small_size": small_size, "small_scale": small_scale}.items():
            if value is not None:
                raise ValueError(f"{name} {value} is about small crops, and there are none: say --small_crops 6.")
        return replace(recipe, views=large, small=())
    kinds = recipe.small or (replace(large[0], size=None, scale=AREA),)
    size = small_size or kinds[0].size or max(1, round(EDGE * edge))
    if not 1 <= size < edge:
        fitting = max(1, round(EDGE * edge))
        raise ValueError(
            f"a small crop of {size} pixels is not smaller than the large ones, which have {edge}: "
            f"use --small_size {fitting}, or --size for larger large ones."
        )
    scale = None if small_scale is None else area("small_scale", small_scale)
    kinds = tuple(replace(view, size=size, scale=scale or view.scale) for view in kinds)
    return replace(recipe, views=large, small=tuple(kinds[i % len(kinds)] for i in range(count)))


def area(name: str, scale: Sequence[float]) -> tuple[float, float]:
    """A range of areas, as parts of the image's."""
    if len(scale) != 2 or not 0 < scale[0] <= scale[1] <= 1:
        raise ValueError(
            f"{name} is the least and the largest part of an image's area, such as [0.05, 0.14]; got {list(scale)}."
        )
    return float(scale[0]), float(scale[1])
