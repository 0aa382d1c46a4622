"""Scenes that the project draws: coloured digits on coloured noise or on photographs, with boxes and masks.

They need no download, and a detector learns from them in minutes. A scene is a pure function of (split, seed, index).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from isotherm.checks import at_least
from isotherm.data.images import Images
from isotherm.data.scenes.scene import Scene, Scenes
from isotherm.data.sources import digits

EDGE = 96
"""Of a scene, in pixels."""
SMALLEST, LARGEST = 24, 48
"""Edges of a digit's square, in pixels; its ink is a little narrower."""
MOST = 4
"""Digits on a scene; at least one."""
OVERLAP = 0.2
"""Of a new digit's square that may be covered, at most."""
INK = 100
"""From here on a pixel of a digit, 0 to 255, belongs to its mask."""
TRIES = 20
TRAIN, TEST = 600, 150


def read(
    split: str = "train",
    count: int | None = None,
    seed: int = 0,
    edge: int = EDGE,
    backgrounds: Images | None = None,
) -> Scenes:
    """`train` shows digits of scikit-learn's training part, `test` those of its test part: no digit is in both.

    `backgrounds` are photographs to draw on, each brought to the scene's size; None: smooth coloured noise.
    """
    count = (TRAIN if split == "train" else TEST) if count is None else count
    at_least(1, count=count)
    at_least(LARGEST, edge=edge)
    glyphs = digits.read(split)
    scenes = [_drawn(glyphs, edge, backgrounds, _generator(split, seed, i)) for i in range(count)]
    name = f"scenes {split}" + ("" if backgrounds is None else f" on {backgrounds.name}")
    return Scenes(name, glyphs.classes, count, scenes.__getitem__, tuple(len(s.labels) for s in scenes), True)


def patches(split: str, count: int, edge: int, seed: int = 0) -> Images:
    """Single digits drawn as in the scenes, each with its label."""
    at_least(1, count=count)
    at_least(8, size=edge)
    glyphs = digits.read(split)
    pixels, labels = [], []
    for i in range(count):
        generator = _generator(split, seed + 1_000_003, i)
        which = int(torch.randint(len(glyphs), (1,), generator=generator))
        canvas = _noise(edge, generator)
        side = int(torch.randint(edge // 2, edge + 1, (1,), generator=generator))
        top, left = (int(torch.randint(edge - side + 1, (1,), generator=generator)) for _ in range(2))
        _paint(canvas, _inked(glyphs, which, side), top, left, generator)
        pixels.append(canvas.round().to(torch.uint8))
        labels.append(int(glyphs.labels[which]))
    return Images("scene-digits", torch.stack(pixels), torch.tensor(labels), torch.arange(count), glyphs.classes)


def _generator(split: str, seed: int, index: int) -> torch.Generator:
    return torch.Generator().manual_seed((2 * seed + (split == "test")) * 1_000_000 + index)


def _drawn(glyphs: Images, edge: int, backgrounds: Images | None, generator: torch.Generator) -> Scene:
    canvas = _noise(edge, generator) if backgrounds is None else _photograph(backgrounds, edge, generator)
    taken = torch.zeros(edge, edge, dtype=torch.bool)
    masks: list[Tensor] = []
    labels: list[int] = []
    for _ in range(int(torch.randint(1, MOST + 1, (1,), generator=generator))):
        which = int(torch.randint(len(glyphs), (1,), generator=generator))
        side = int(torch.randint(SMALLEST, LARGEST + 1, (1,), generator=generator))
        ink = _inked(glyphs, which, side)
        for _ in range(TRIES):
            top, left = (int(torch.randint(edge - side + 1, (1,), generator=generator)) for _ in range(2))
            square = (slice(top, top + side), slice(left, left + side))
            if float(taken[square].float().mean()) <= OVERLAP:
                break
        else:
            continue  # no room for it
        _paint(canvas, ink, top, left, generator)
        mask = torch.zeros(edge, edge, dtype=torch.bool)
        mask[square] = ink >= INK
        masks = [m & ~mask for m in masks] + [mask]
        taken[square] = True
        labels.append(int(glyphs.labels[which]))
    seen = [i for i, m in enumerate(masks) if bool(m.any())]
    shown = torch.stack([masks[i] for i in seen])
    return Scene(
        canvas.round().to(torch.uint8),
        _boxes(shown),
        torch.tensor([labels[i] for i in seen]),
        torch.zeros(len(seen), dtype=torch.bool),
        shown.to(torch.uint8),
    )


def _inked(glyphs: Images, which: int, side: int) -> Tensor:
    """A digit as a square of this edge, 0 to 255."""
    pixels = glyphs.at(torch.tensor([which])).float()
    return interpolate(pixels, (side, side), mode="bicubic", align_corners=False)[0, 0].clamp(0, 255)


def _paint(canvas: Tensor, ink: Tensor, top: int, left: int, generator: torch.Generator) -> None:
    """Cover the canvas with a colour where the ink is, at least 100 of 255 away from what is there on average."""
    part = canvas[:, top : top + ink.shape[0], left : left + ink.shape[1]]
    average = part.mean((1, 2))
    colour = torch.rand(3, generator=generator) * 255
    channel = int(torch.randint(3, (1,), generator=generator))
    colour[channel] = average[channel] + (120 if average[channel] < 128 else -120)
    cover = (ink / 255)[None]
    part.copy_(part * (1 - cover) + colour[:, None, None] * cover)


def _noise(edge: int, generator: torch.Generator) -> Tensor:
    """Smooth colours with some grain, float (3, edge, edge), 0 to 255."""
    coarse = torch.rand(1, 3, 4, 4, generator=generator) * 255
    smooth = interpolate(coarse, (edge, edge), mode="bicubic", align_corners=False)[0]
    return (smooth + 16 * torch.randn(3, edge, edge, generator=generator)).clamp(0, 255)


def _photograph(backgrounds: Images, edge: int, generator: torch.Generator) -> Tensor:
    which = torch.randint(len(backgrounds), (1,), generator=generator)
    pixels = backgrounds.at(which).float()
    if pixels.shape[1] not in (1, 3):
        raise ValueError(f"{backgrounds.name} has {pixels.shape[1]} channels; scenes are drawn on 1 or 3.")
    resized = interpolate(pixels, (edge, edge), mode="bilinear", antialias=True)
    return resized[0].expand(3, -1, -1).clone()


def _boxes(masks: Tensor) -> Tensor:
    """The smallest box around each mask, float32 (K, 4)."""
    edges = []
    for mask in masks:
        rows, columns = mask.any(1).nonzero()[:, 0], mask.any(0).nonzero()[:, 0]
        edges.append([int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1])
    return torch.tensor(edges, dtype=torch.float32)
