"""The papers' augmentations as batched tensor operations, each picture with its own parameters.

Pictures are float (N, C, H, W) in [0, 1]. Each operation is a plain function of the pictures and per-picture
parameters, and may overwrite the pictures it is given; drawing the parameters is `recipes`' business. Cropping,
resizing, flipping and blurring are *separable*: two batched matrix products with per-picture weights, exact where an
interpolated sampling grid would alias, and faster.
"""

from __future__ import annotations

import math
import threading

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.engine.scratch import Scratch

_own = threading.local()


def _scratch(like: Tensor) -> Scratch:
    """This thread's buffers for what an operation needs only while it runs."""
    scratch: Scratch | None = getattr(_own, "scratch", None)
    if scratch is None or not scratch.fits(like):
        scratch = _own.scratch = Scratch(like)
    return scratch


GRAY = (0.299, 0.587, 0.114)  # ITU-R 601, as PIL and torchvision


def unit_range(pixels: Tensor, passing: bool = False) -> Tensor:
    """uint8 pictures as float32 in [0, 1]; `passing`: in a buffer of this thread until the next call."""
    if not passing:
        return pixels.to(torch.float32).div_(255)
    like = torch.empty(0, device=pixels.device)
    return torch.mul(pixels, 1 / 255, out=_scratch(like).take("pixels", pixels.shape))


def crop_boxes(u: Tensor, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]) -> Tensor:
    """Boxes (N, 4) of top, left, height, width for random resized crops, from four uniform numbers a picture.

    The area is a uniform fraction of the picture's in `scale`, the aspect ratio log-uniform in `ratio`, the place
    uniform among whole pixels. A box that would leave the picture is shortened on that side (torchvision draws again,
    up to ten times, and then takes the centre: rare for ratios near 1, and no function of four numbers).
    """
    area = height * width * (scale[0] + (scale[1] - scale[0]) * u[:, 0])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = torch.exp(low + (high - low) * u[:, 1])
    w = torch.round(torch.sqrt(area * aspect)).clamp(1, width)
    h = torch.round(torch.sqrt(area / aspect)).clamp(1, height)
    top = torch.floor(u[:, 2] * (height - h + 1))
    left = torch.floor(u[:, 3] * (width - w + 1))
    return torch.stack([top, left, h, w], 1)


def resample_weights(start: Tensor, length: Tensor, source: int, target: int, flip: Tensor | None = None) -> Tensor:
    """(N, target, source) weights that cut [start, start + length) out of a line and resize it to `target` pixels.

    Triangle filter, widened when shrinking (antialiasing), truncated at the cut and normalised: what PIL and
    ``interpolate(mode="bilinear", antialias=True)`` do after a crop. Mirrored where `flip` is set. The weights live in
    a buffer of this thread until the next call.
    """
    step = (length / target)[:, None]
    place = torch.arange(target, device=start.device) + 0.5
    if flip is not None:
        place = torch.where(flip[:, None], target - place, place)
    centre = start[:, None] + place * step
    pixel = torch.arange(source, device=start.device) + 0.5
    inside = ((pixel > start[:, None]) & (pixel < (start + length)[:, None])).to(start.dtype)
    out = _scratch(start).take("cols" if flip is not None else "rows", (len(start), target, source))
    weights = torch.sub(pixel, centre[:, :, None], out=out).abs_()
    weights.mul_(-1 / step.clamp_min(1)[:, :, None]).add_(1).clamp_min_(0).mul_(inside[:, None, :])
    return weights.mul_(1 / weights.sum(2, keepdim=True))


def resized_crop(x: Tensor, boxes: Tensor, size: tuple[int, int], flip: Tensor) -> Tensor:
    """Each picture's box, resized, mirrored where `flip` is set."""
    top, left, h, w = boxes.to(x.dtype).unbind(1)
    rows = resample_weights(top, h, x.shape[2], size[0])
    cols = resample_weights(left, w, x.shape[3], size[1], flip)
    return separable(x, rows, cols)


def separable(x: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Two linear maps a picture: rows (N, H', H) down the columns, cols (N, W', W) along the rows."""
    n, c, h, w = x.shape
    scratch = _scratch(x)
    across = scratch.take("across", (n, c * h, cols.shape[1]))
    torch.bmm(x.reshape(n, c * h, w), cols.transpose(1, 2), out=across)
    down = scratch.take("down", (n, c, *rows.shape[1:])).copy_(rows[:, None].expand(n, c, *rows.shape[1:]))
    made = torch.bmm(down.view(n * c, *rows.shape[1:]), across.view(n * c, h, cols.shape[1]))
    return made.view(n, c, rows.shape[1], cols.shape[1])


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """factor · x."""
    return x.mul_(_each(factor)).clamp_(0, 1)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Away from or towards the picture's mean gray."""
    factor = _each(factor)
    mean = grayscale(x).mean((1, 2, 3), keepdim=True)
    return x.mul_(factor).add_(mean * (1 - factor)).clamp_(0, 1)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Away from or towards each pixel's own gray."""
    if x.shape[1] != 3:
        return x
    factor = _each(factor)
    gray = grayscale(x).mul_(1 - factor)
    return x.mul_(factor).add_(gray).clamp_(0, 1)


def hue(x: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue by a fraction of the circle, at constant saturation and value (HSV)."""
    if x.shape[1] != 3:
        return x
    r, g, b = x.unbind(1)
    scratch = _scratch(x)
    turns, swapped, second, low, high, h = (scratch.take(f"hue{i}", r.shape) for i in range(6))
    # Sort the channels and remember in `turns` which sixth of the colour circle they were in. Comparisons are kept as
    # 0 and 1 in floating point: `where` is several times slower.
    torch.lt(g, b, out=turns).mul_(-6)
    torch.maximum(g, b, out=second)
    torch.minimum(g, b, out=low)
    torch.lt(r, second, out=swapped)
    torch.maximum(r, second, out=high)
    middle = torch.minimum(r, second, out=second)
    turns.addcmul_(swapped, turns, value=-2).sub_(swapped, alpha=2)
    torch.sub(middle, low, out=h)
    chroma = torch.sub(high, torch.minimum(middle, low, out=low), out=low)
    h.div_(torch.clamp_min(chroma, 1e-12, out=swapped)).add_(turns).abs_().add_(6 * turn[:, None, None])
    h.sub_(torch.mul(h, 1 / 6, out=swapped).floor_().mul_(6))  # in sixths of the circle, 0 ≤ h < 6
    # how much of the chroma each channel lacks at h: a trapezoid wave
    for channel, (centre, rises) in enumerate(((3.0, False), (2.0, True), (4.0, True))):
        lack = torch.sub(h, centre, out=swapped).abs_()
        lack = lack.sub_(1) if rises else lack.neg_().add_(2)
        torch.addcmul(high, chroma, lack.clamp_(0, 1), value=-1, out=x[:, channel])
    return x


def grayscale(x: Tensor) -> Tensor:
    """(N, 1, H, W): the weighted mean of the channels, in a buffer of this thread until the next call."""
    if x.shape[1] != 3:
        return x.mean(1, keepdim=True)
    r, g, b = x.split(1, 1)
    gray = torch.mul(r, GRAY[0], out=_scratch(x).take("gray", r.shape))
    return gray.add_(g, alpha=GRAY[1]).add_(b, alpha=GRAY[2])


def to_gray(x: Tensor, where: Tensor) -> Tensor:
    """Gray in all channels, where asked."""
    chosen = torch.nonzero(where)[:, 0]
    gray = grayscale(x[chosen])
    return x.index_copy_(0, chosen, gray.expand(-1, x.shape[1], -1, -1))


def blur_weights(sigma: Tensor, length: int, radius: int) -> Tensor:
    """(N, length, length) Gaussian blur along a line, mirrored at its ends; sigma 0: no blur."""
    radius = min(radius, length - 1)
    offset = torch.arange(-radius, radius + 1, device=sigma.device)
    kernel = torch.exp(-0.5 * (offset / sigma.clamp_min(1e-3)[:, None]) ** 2)
    kernel = kernel / kernel.sum(1, keepdim=True)
    pixel = torch.arange(length, device=sigma.device)
    source = (pixel[:, None] + offset).abs()  # reflect at the start …
    source = torch.where(source >= length, 2 * (length - 1) - source, source)  # … and at the end
    weights = kernel.new_zeros(len(sigma), length, length)
    index = source.expand(len(sigma), -1, -1)
    return weights.scatter_add_(2, index, kernel[:, None, :].expand(-1, length, -1).contiguous())


def gaussian_blur(x: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """Blur each picture by its own sigma (0: leave it)."""
    return separable(x, blur_weights(sigma, x.shape[2], radius), blur_weights(sigma, x.shape[3], radius))


def solarize(x: Tensor, where: Tensor, threshold: float = 0.5) -> Tensor:
    """Invert what is at least as bright as the threshold, where asked."""
    chosen = torch.nonzero(where)[:, 0]
    part = x[chosen]
    return x.index_copy_(0, chosen, torch.where(part >= threshold, 1 - part, part))


def affine(x: Tensor, angle: Tensor, shift: Tensor, zoom: Tensor, size: tuple[int, int]) -> Tensor:
    """Turn (radians), move (fractions of the size, (N, 2): down, right) and zoom about the centre; black outside."""
    cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
    down, right = -2 * shift[:, 0], -2 * shift[:, 1]
    aspect = x.shape[2] / x.shape[3]
    # where each output pixel comes from, in coordinates of [−1, 1]
    inverse = torch.stack(
        [
            torch.stack([cos, sin * aspect, cos * right + sin * aspect * down], 1),
            torch.stack([-sin / aspect, cos, -sin / aspect * right + cos * down], 1),
        ],
        1,
    )
    grid = F.affine_grid(inverse, [len(x), x.shape[1], *size], align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _each(parameter: Tensor) -> Tensor:
    return parameter[:, None, None, None]
