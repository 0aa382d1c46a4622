"""Sets with two features that compete, built so that one can be turned up: which one does a loss learn?

Chen & Li 2021 (arXiv:2011.02803), §3 and appendix B. Each gives all its labels, so that both features can be probed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from isotherm.data.images import Images
from isotherm.data.overlay import Blend, Overlay, Places, nine_corners, resized
from isotherm.streams import uniforms
from isotherm.waiting import brought

RANDBIT = "randbit"
DIGIT = "digit"


def randbit(images: Images, bits: int, seed: int = 0) -> Images:
    """RandBit: every view of an image carries the same `bits` constant 0/1 planes, after its augmentation.

    The bits are those of a hash of the image's id, so they are the same in all views, epochs and subsets. Label
    ``randbit`` is their number. The planes are appended by `append_bits`, which the loader calls.
    """
    if not 0 <= bits <= 24:
        raise ValueError(f"randbit takes 0 to 24 bits, got {bits}.")
    u = uniforms(images.ids, 1, seed=seed, epoch=0, view=-2)[:, 0]
    code = torch.floor(u.double() * 2**bits).long()
    labels = {**images.more_labels, RANDBIT: code}
    return replace(images, more_labels=labels, bits=bits, notes=(*images.notes, f"{bits} random bits"))


def append_bits(view: Tensor, images: Images, indices: Tensor) -> Tensor:
    """The view with the RandBit planes of its images, which stand at these indices; as it is where there are none."""
    if not images.bits:
        return view
    code = images.more_labels[RANDBIT][indices]
    planes = (brought(code, view.device)[:, None] >> torch.arange(images.bits, device=view.device)) & 1
    n, _, h, w = view.shape
    return torch.cat([view, planes[:, :, None, None].expand(n, images.bits, h, w).to(view.dtype)], 1)


def digits_on_images(
    images: Images,
    digits: Images,
    unique: int,
    seed: int = 0,
    size: int | None = None,
    places: Places = "offsets",
    blend: Blend = "max",
) -> Images:
    """Digits on images: one of `unique` digit images, fixed by the image's id, pasted at nine places.

    As Chen & Li's notebook does for ImageNet: places at 0.15, 0.45 and 0.75 of height and width (top left corner), cut
    at the border, and the elementwise maximum; the paper's text says `blend` "sum". `places` "grid" has nine that do
    not overlap. `size` is the edge the digits are resized to. 0 unique digits: none is pasted.

    Nothing is pasted before a batch is taken (`Images.at`): the pixels stay where they are, in memory or mapped.
    Label ``digit`` is the class of the digit (−1 where there is none), ``digit_image`` which of the unique images.
    """
    if not 0 <= unique <= len(digits):
        raise ValueError(f"{digits.name} has {len(digits)} images; cannot take {unique} unique ones.")
    if unique == 0:
        nothing = torch.full((len(images),), -1)
        labels = {**images.more_labels, DIGIT: nothing, "digit_image": nothing}
        return replace(images, more_labels=labels, notes=(*images.notes, "no digits"))
    if images.overlay is not None:
        raise ValueError(f"{images.name} has something pasted on it already.")
    kept_digits = torch.argsort(uniforms(digits.ids, 1, seed=seed, epoch=0, view=-3)[:, 0], stable=True)[:unique]
    u = uniforms(images.ids, 1, seed=seed, epoch=0, view=-4)[:, 0]
    which = torch.floor(u.double() * unique).long()
    ink = resized(digits.at(kept_digits).amax(1), size)  # digits are gray: the brightest channel
    corners = nine_corners(places, *images.shape[1:], *ink.shape[1:])
    labels = {**images.more_labels, DIGIT: digits.labels[kept_digits][which], "digit_image": which}
    notes = (*images.notes, f"{unique} unique digits")
    return replace(images, overlay=Overlay(ink, which, corners, blend), more_labels=labels, notes=notes)


def k_bit_images(bits: int, count: int, size: int = 32, seed: int = 0) -> Images:
    """k-bit images: `bits` binary channels, each constant over the image; the label is the number they spell.

    Chen & Li, appendix B: a data set of `bits` bits of entropy, to see a distribution loss saturate. It has no more
    than its images have numbers between them; a note says so where they are too few for all.
    """
    if not 1 <= bits <= 24:
        raise ValueError(f"k-bit images take 1 to 24 bits, got {bits}.")
    if count < 1:
        raise ValueError(f"at least 1 image is needed, got {count}.")
    ids = torch.arange(count)
    code = torch.floor(uniforms(ids, 1, seed=seed, epoch=0, view=-5)[:, 0].double() * 2**bits).long()
    planes = ((code[:, None] >> torch.arange(bits)) & 1).to(torch.uint8) * 255
    pixels = planes[:, :, None, None].expand(count, bits, size, size)
    return Images(f"{bits}-bit", pixels, code, ids, notes=_too_few(code, bits))


def _too_few(code: Tensor, bits: int) -> tuple[str, ...]:
    """What a set holds of the entropy it is named for, if it has fewer images than there are numbers."""
    if len(code) >= 2**bits:
        return ()
    counts = code.unique(return_counts=True)[1].double()
    entropy = math.log2(len(code)) - float((counts * counts.log2()).sum()) / len(code)
    return (f"{len(code):,} images show {len(counts):,} of {2**bits:,} numbers: {entropy:.1f} bits of entropy",)
