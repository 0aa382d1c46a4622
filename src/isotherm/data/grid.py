"""An image of images: originals in the first column, their views beside them, a word over each column."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image, ImageDraw, PngImagePlugin
from torch import Tensor

from isotherm.data.images import Images
from isotherm.data.probing import append_bits
from isotherm.files import write_whole
from isotherm.views import Recipe

GAP = 3
SMALLEST = 96
"""Edge of a tile, at least."""
MARK = ("Software", "isotherm data show")
"""By which a drawing is known."""
HEAD = 16
"""Height of the line of words."""


def draw_views(images: Images, recipe: Recipe, rows: int, out: Path, seed: int = 0) -> None:
    """Write a PNG: `rows` images of the set, one per row, the image itself and then its views.

    It replaces a drawing of its own and nothing else.
    """
    if out.exists() and not _drawn(out):
        raise ValueError(f"{out} is there and was not drawn by this; write into another file.")
    edge = images.shape[1] * -(-SMALLEST // images.shape[1])  # a whole number of times larger: strokes stay even
    if rows < 1:
        raise ValueError(f"at least 1 row is needed, got {rows}.")
    indices = torch.linspace(0, len(images) - 1, min(rows, len(images))).long()
    pixels, ids = images.at(indices), images.ids[indices]
    plain = append_bits(pixels.to(torch.float32) / 255, images, indices)
    views = [append_bits(view, images, indices) for view in recipe(pixels, ids, seed=seed)]
    columns = [[_tile(x, images, edge) for x in column] for column in [plain, *views]]
    width = max(tile.shape[2] for column in columns for tile in column)
    sheet = torch.full(
        (3, HEAD + len(indices) * (edge + GAP) + GAP, len(columns) * (width + GAP) + GAP), 255, dtype=torch.uint8
    )
    for j, column in enumerate(columns):
        for i, tile in enumerate(column):
            top, left = HEAD + GAP + i * (edge + GAP), GAP + j * (width + GAP)
            sheet[:, top : top + edge, left : left + tile.shape[2]] = tile
    out.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(sheet.permute(1, 2, 0).numpy())
    for j in range(len(columns)):
        ImageDraw.Draw(picture).text((GAP + j * (width + GAP), GAP), f"view {j}" if j else "image", fill=(29, 33, 37))
    mark = PngImagePlugin.PngInfo()
    mark.add_text(*MARK)
    write_whole(out, lambda file: picture.save(file, "PNG", pnginfo=mark))


def _drawn(path: Path) -> bool:
    try:
        with Image.open(path) as picture:
            return picture.info.get(MARK[0]) == MARK[1]
    except OSError:
        return False


def _tile(x: Tensor, images: Images, edge: int) -> Tensor:
    """One image as (3, edge, W) bytes: its colours, and its random bits as a strip of squares on the right."""
    channels = x.shape[0] - images.bits
    colours = x[:channels]
    if channels != 3:  # gray, or channels that are no colours: side by side in gray
        colours = torch.cat(list(colours), 1)[None].expand(3, -1, -1)
    tile = _enlarged(colours, edge, edge * colours.shape[2] // colours.shape[1])
    if not images.bits:
        return tile
    strip = x[channels:, 0, 0].to(torch.float32)
    strip = _enlarged(strip[None, :, None].expand(3, -1, -1) * 0.8 + 0.1, edge, max(6, edge // 8))
    return torch.cat([tile, strip], 2)


def _enlarged(x: Tensor, height: int, width: int) -> Tensor:
    enlarged = torch.nn.functional.interpolate(x[None].clamp(0, 1), (height, width), mode="nearest")[0]
    return (enlarged * 255).round().to(torch.uint8)
