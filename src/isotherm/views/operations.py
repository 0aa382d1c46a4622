"""The papers' augmentations as batched tensor operations, each image with its own parameters.

Images are float (N, C, H, W) in [0, 1]. Each operation is a plain function of the images and per-image
parameters, and may overwrite the images it is given; drawing the parameters is `recipes`' business. Cropping,
resizing, flipping and blurring are *separable*: two batched matrix products with per-image weights, exact where an
interpolated sampling grid would alias, and as fast.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.engine.scratch import Scratch
from isotherm.waiting import answers_at_once

_own = threading.local()


def _scratch(like: Tensor) -> Scratch:
    """This thread's buffers for what an operation needs only while it runs."""
    scratch: Scratch | None = getattr(_own, "scratch", None)
    if scratch is None or not scratch.fits(like):
        scratch = _own.scratch = Scratch(like)
    return scratch


GRAY = (0.299, 0.587, 0.114)  # ITU-R 601, as PIL and torchvision


def unit_range(pixels: Tensor) -> Tensor:
    """uint8 images as float32 in [0, 1]."""
    return pixels.to(torch.float32).mul_(1 / 255)


def crop_boxes(u: Tensor, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]) -> Tensor:
    """Boxes (N, 4) of top, left, height, width for random resized crops, from four uniform numbers per image.

    The area is a uniform fraction of the image's in `scale`, the aspect ratio log-uniform in `ratio`, the place
    uniform among whole pixels. A box that would leave the image is shortened on that side (torchvision draws again,
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
    """(N, source, target) weights that cut [start, start + length) out of a line and resize it to `target` pixels.

    Triangle filter, widened when shrinking (antialiasing), truncated at the cut and normalized: what PIL and
    ``interpolate(mode="bilinear", antialias=True)`` do after a crop. Mirrored where `flip` is set. The weights live in
    a buffer of this thread until the next call.
    """
    step = (length / target)[:, None]
    place = torch.arange(target, device=start.device, dtype=start.dtype) + 0.5
    if flip is not None:
        place = torch.where(flip[:, None], target - place, place)
    centre = start[:, None] + place * step
    pixel = torch.arange(source, device=start.device, dtype=start.dtype) + 0.5
    inside = ((pixel > start[:, None]) & (pixel < (start + length)[:, None])).to(start.dtype)
    per_pixel = 1 / step.clamp_min(1)
    out = _scratch(start).take("weights", (len(start), source, target))
    torch.sub((pixel * per_pixel)[:, :, None], (centre * per_pixel)[:, None, :], out=out).abs_()
    weights = torch.sub(inside[:, :, None], out, out=out).clamp_min_(0)  # 1 − distance inside, nothing outside
    return weights.mul_(1 / weights.sum(1, keepdim=True))


def resized_crop(pixels: Tensor, boxes: Tensor, size: tuple[int, int], flip: Tensor) -> Tensor:
    """Each image's box, resized, mirrored where `flip` is set; bytes come out in [0, 1], floats as they are."""
    x, gain = pixels, 1.0
    if pixels.dtype == torch.uint8:
        like = torch.empty(0, dtype=torch.float32, device=pixels.device)
        x, gain = _scratch(like).take("pixels", pixels.shape).copy_(pixels), 1 / 255
    top, left, h, w = boxes.to(x.dtype).unbind(1)
    across = _across(x, resample_weights(left, w, x.shape[3], size[1], flip))
    return _down(across, resample_weights(top, h, x.shape[2], size[0]), gain)


def _across(x: Tensor, weights: Tensor) -> Tensor:
    """A linear map (N, W, W') along the rows of each image; in a buffer of this thread until the next call."""
    n, c, h, w = x.shape
    out = _scratch(x).take("across", (n, c * h, weights.shape[2]))
    return torch.bmm(x.reshape(n, c * h, w), weights, out=out).view(n, c, h, weights.shape[2])


def _down(x: Tensor, weights: Tensor, gain: float = 1.0) -> Tensor:
    """A linear map (N, H, H') down the columns of each image, times `gain`."""
    n, c, h, w = x.shape
    size = weights.shape[2]
    each = _scratch(x).take("down", (n, c, size, h))
    torch.mul(weights.transpose(1, 2)[:, None], gain, out=each[:, :1])
    each[:, 1:] = each[:, :1]
    return torch.bmm(each.view(n * c, size, h), x.reshape(n * c, h, w)).view(n, c, size, w)


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """factor · x."""
    return x.mul_(_each(factor)).clamp_(0, 1)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Away from or towards the image's mean gray."""
    factor = _each(factor)
    channels = x.mean((2, 3))
    mean = channels @ constant(GRAY, x.device, x.dtype) if x.shape[1] == 3 else channels.mean(1)
    return x.mul_(factor).add_(_each(mean) * (1 - factor)).clamp_(0, 1)


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
    turns, swapped, second, low, high, h, chroma = (scratch.take(f"hue{i}", r.shape) for i in range(7))
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
    torch.minimum(middle, low, out=low)
    torch.sub(high, low, out=chroma)
    h.div_(torch.clamp_min(chroma, 1e-12, out=swapped)).add_(turns).abs_().add_(6 * turn[:, None, None])
    h.sub_(torch.mul(h, 1 / 6, out=swapped).floor_().mul_(6))  # in sixths of the circle, 0 ≤ h < 6
    # each channel is a trapezoid wave of h between the lowest and the highest: red has its valley at 3, the others a
    # peak at 2 and 4
    for channel, (centre, base, sign) in enumerate(((3, low, 1), (2, high, -1), (4, high, -1))):
        wave = torch.sub(h, centre, out=swapped).abs_().sub_(1).clamp_(0, 1)
        torch.addcmul(base, chroma, wave, value=sign, out=x[:, channel])
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
    return changed(x, where, lambda part: grayscale(part).expand(-1, x.shape[1], -1, -1))


def blur_weights(sigma: Tensor, length: int, radius: int) -> Tensor:
    """(N, length, length) Gaussian blur along a line, (from, to), mirrored at its ends; sigma 0: no blur."""
    radius = min(radius, length - 1)
    offset = torch.arange(-radius, radius + 1, device=sigma.device)
    kernel = torch.exp(-0.5 * (offset / sigma.clamp_min(1e-3)[:, None]) ** 2)
    kernel = kernel / kernel.sum(1, keepdim=True)
    pixel = torch.arange(length, device=sigma.device)
    source = (pixel[:, None] + offset).abs()  # reflect at the start …
    source = torch.where(source >= length, 2 * (length - 1) - source, source)  # … and at the end
    weights = kernel.new_zeros(len(sigma), length, length)
    index = source.expand(len(sigma), -1, -1)
    return weights.scatter_add_(2, index, kernel[:, None, :].expand(-1, length, -1).contiguous()).transpose(1, 2)


def gaussian_blur(x: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """Blur each image by its own sigma (0: leave it)."""
    across = _across(x, blur_weights(sigma, x.shape[3], radius))
    return _down(across, blur_weights(sigma, x.shape[2], radius))


BLOCK = 32
"""Pixels that are blurred together by `blur_in_blocks`."""


def blur_in_blocks(x: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """`gaussian_blur` to rounding, at half its cost for large images: what a pixel becomes depends on near ones only.

    A block of 32 pixels is the product of itself and its margins with weights that are the same wherever it lies, but
    for the first and the last block: these are mirrored beyond their end.
    """
    n, c, h, w = x.shape
    if h % BLOCK or w % BLOCK or min(h, w) < 2 * BLOCK or radius > BLOCK or not n:
        return gaussian_blur(x, sigma, radius)
    line = blur_weights(sigma, 2 * BLOCK + 2 * radius, radius)
    first = line[:, : BLOCK + radius, :BLOCK].contiguous()
    middle = line[:, BLOCK - radius : 2 * BLOCK + radius, BLOCK : 2 * BLOCK].contiguous()
    last = first.flip(1, 2)
    rows = x.reshape(n, c * h, w)
    across = torch.empty_like(rows)
    for at in range(0, w, BLOCK):
        weights = first if at == 0 else last if at + BLOCK == w else middle
        start = max(0, at - radius)
        torch.bmm(rows[:, :, start : start + weights.shape[1]], weights, out=across[:, :, at : at + BLOCK])
    columns = across.view(n * c, h, w)
    down = torch.empty_like(columns)
    first, middle, last = (each.transpose(1, 2).repeat_interleave(c, 0) for each in (first, middle, last))
    for at in range(0, h, BLOCK):
        weights = first if at == 0 else last if at + BLOCK == h else middle
        start = max(0, at - radius)
        torch.bmm(weights, columns[:, start : start + weights.shape[2]], out=down[:, at : at + BLOCK])
    return down.view(n, c, h, w)


def solarize(x: Tensor, where: Tensor, threshold: float = 0.5) -> Tensor:
    """Invert what is at least as bright as the threshold, where asked."""
    return changed(x, where, lambda part: torch.where(part >= threshold, 1 - part, part))


def changed(x: Tensor, where: Tensor, change: Callable[..., Tensor], *parameters: Tensor) -> Tensor:
    """The images, those `where` asks for it changed by ``change(images, *parameters)``, each by its own.

    On a processor only these are worked on. A device would have to be asked which they are, and works on all.
    """
    if not answers_at_once(x):
        return torch.where(_each(where), change(x, *parameters), x)
    rows = torch.nonzero(where)[:, 0]
    return x.index_copy_(0, rows, change(x[rows], *(p[rows] for p in parameters)))


@functools.lru_cache(maxsize=64)
def constant(numbers: tuple[float, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """A few numbers on a device, brought there once: a copy from ordinary memory waits for all that is queued."""
    with torch.inference_mode(False):
        return torch.tensor(numbers, dtype=dtype, device=device)


def affine(x: Tensor, angle: Tensor, shift: Tensor, zoom: Tensor, size: tuple[int, int]) -> Tensor:
    """Turn (radians), move (fractions of the size, (N, 2): down, right) and zoom about the centre; black outside."""
    if not len(x):
        return x.new_empty(0, x.shape[1], *size)
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
