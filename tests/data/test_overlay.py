"""Digits on images: pasted when a batch is taken, with the pixels that a copy of the whole set had."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from isotherm.data import imbalance, probing
from isotherm.data.images import Images
from isotherm.data.loaders.images import Loader
from isotherm.data.overlay import Overlay, nine_corners, resized
from isotherm.data.sets import load
from isotherm.data.stored import watched
from isotherm.probes.extract import features_of
from isotherm.streams import uniforms
from isotherm.views import recipe


def pictures(n=60, channels=3, size=32, seed=0, name="made up"):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (n, channels, size, size), dtype=torch.uint8, generator=generator)
    return Images(name, pixels, torch.arange(n) % 5, torch.arange(n) * 3 + 7, tuple("abcde"))


def at_once(images, digits, unique, seed=0):
    """The whole set with its digits, as it was made before digits were pasted batch by batch."""
    height, width = images.shape[1:]
    h, w = digits.shape[1:]
    corners = [(int(a * height), int(b * width)) for a in (0.15, 0.45, 0.75) for b in (0.15, 0.45, 0.75)]
    kept = torch.argsort(uniforms(digits.ids, 1, seed=seed, epoch=0, view=-3)[:, 0], stable=True)[:unique]
    which = torch.floor(uniforms(images.ids, 1, seed=seed, epoch=0, view=-4)[:, 0].double() * unique).long()
    ink = digits.pixels[kept].amax(1, keepdim=True)
    pixels = images.pixels.clone()
    for top, left in corners:
        part = pixels[:, :, top : top + h, left : left + w]
        torch.maximum(part, ink[which][:, :, : part.shape[2], : part.shape[3]], out=part)
    return pixels


@pytest.mark.parametrize("size", [10, 32])
@pytest.mark.parametrize(("unique", "seed"), [(1, 0), (7, 3), (1437, 1)])
def test_pasted_batches_have_the_pixels_of_the_whole_set_pasted_at_once(size, unique, seed):
    images, digits = pictures(size=size), load("digits")
    made = probing.digits_on_images(images, digits, unique, seed)
    wanted = at_once(images, digits, unique, seed)
    index = torch.tensor([5, 3, 59, 3])
    assert torch.equal(made.at(index), wanted[index])
    part = made.subset(torch.arange(10, 40)).subset(torch.tensor([4, 2]))
    assert torch.equal(part.at(torch.tensor([1, 0])), wanted[[12, 14]])
    some = imbalance.fraction(made, 20)
    assert torch.equal(some.at(torch.arange(20)), wanted[(some.ids - 7) // 3])


def test_the_set_itself_is_neither_copied_nor_touched():
    images = pictures()
    before = images.pixels.clone()
    made = probing.digits_on_images(images, load("digits"), 9)
    assert made.pixels.data_ptr() == images.pixels.data_ptr()
    made.at(torch.arange(60))
    made.subset(torch.arange(3)).at(torch.arange(3))
    assert torch.equal(images.pixels, before)


def test_a_mapped_file_is_still_watched_under_its_digits(tmp_path: Path):
    path = tmp_path / "pixels"
    path.write_bytes(b"x")
    images = pictures()
    mapped = Images("mapped", images.pixels, images.labels, images.ids, file=watched(path))
    made = probing.digits_on_images(mapped, load("digits"), 9)
    made.at(torch.arange(2))
    path.write_bytes(b"xyz")
    with pytest.raises(ValueError, match="was changed while it was in use"):
        made.at(torch.arange(2))


def test_views_and_features_are_those_of_the_pasted_images():
    images, digits = pictures(), load("digits")
    made = probing.digits_on_images(images, digits, 9)
    baked = Images("baked", at_once(images, digits, 9), images.labels, images.ids, images.classes)
    for a, b in zip(*(Loader(i, recipe("simclr-cifar"), 20).epoch(1) for i in (made, baked)), strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a.views, b.views, strict=True))
    flat = torch.nn.Flatten()
    assert torch.equal(*(features_of(flat, i, recipe("simclr-cifar"), batch=16) for i in (made, baked)))


@pytest.mark.parametrize("blend", ["max", "sum"])
@pytest.mark.parametrize("places", ["offsets", "grid"])
def test_every_pixel_is_the_one_that_loops_paste(places, blend):
    images, digits = pictures(n=4, size=31), pictures(n=6, channels=1, size=9, seed=1, name="digits")
    made = probing.digits_on_images(images, digits, 6, places=places, blend=blend)
    tops = [int(a * 31) for a in (0.15, 0.45, 0.75)] if places == "offsets" else [0, 11, 21]
    ink, which = made.overlay.ink.numpy(), made.more_labels["digit_image"].numpy()
    wanted = images.pixels.numpy().astype(np.int64)
    for i in range(4):
        for top in tops:
            for left in tops:
                for y in range(min(9, 31 - top)):
                    for x in range(min(9, 31 - left)):
                        for c in range(3):
                            old, new = wanted[i, c, top + y, left + x], int(ink[which[i], y, x])
                            wanted[i, c, top + y, left + x] = max(old, new) if blend == "max" else min(255, old + new)
    assert np.array_equal(made.at(torch.arange(4)).numpy(), wanted)


@pytest.mark.parametrize(("edge", "ink"), [(72, 14), (72, 24), (31, 9), (32, 8), (10, 1)])
def test_places_on_the_grid_do_not_overlap_and_lie_inside(edge, ink):
    covered = np.zeros((edge, edge + 7), int)
    for top, left in nine_corners("grid", edge, edge + 7, ink, ink):
        assert 0 <= top <= edge - ink
        assert 0 <= left <= edge + 7 - ink
        covered[top : top + ink, left : left + ink] += 1
    assert covered.max() == 1
    assert covered.sum() == 9 * ink**2
    assert nine_corners("grid", 72, 72, 14, 14)[4] == (29, 29)  # the middle


def test_digits_are_resized_once_whatever_their_number(monkeypatch):
    ink = pictures(n=10, channels=1, size=28).pixels[:, 0]
    monkeypatch.setattr("isotherm.data.overlay.AT_ONCE", 3)
    wanted = interpolate(ink[:, None].double(), (14, 14), mode="bilinear", antialias=True)[:, 0]
    small = resized(ink, 14)
    assert small.shape == (10, 14, 14)
    assert (small.double() - wanted).abs().max() <= 0.51
    assert resized(ink, None) is ink
    made = probing.digits_on_images(pictures(), pictures(channels=1, size=28), 10, size=8, places="grid")
    assert made.overlay.ink.shape == (10, 8, 8)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"places": "grid"}, r"nine digits of 12×12 do not fit.*32×32.*Resize them to 10 or less"),
        ({"places": "gird"}, "did you mean 'grid'"),
        ({"blend": "mean"}, "blend must be one of max, sum"),
        ({"unique": 61}, "cannot take 61 unique ones"),
    ],
)
def test_what_cannot_be_pasted_is_refused(settings, words):
    digits = pictures(channels=1, size=12, name="digits")
    with pytest.raises(ValueError, match=words):
        probing.digits_on_images(pictures(), digits, **{"unique": 4, **settings})
    with pytest.raises(ValueError, match="pasted on it already"):
        probing.digits_on_images(probing.digits_on_images(pictures(), digits, 4), digits, 4)


def test_an_overlay_of_bytes_never_wraps_around():
    ink = torch.full((1, 2, 2), 200, dtype=torch.uint8)
    over = Overlay(ink, torch.zeros(1, dtype=torch.int64), ((0, 0),), "sum")
    white = over.paste(torch.full((1, 1, 2, 2), 100, dtype=torch.uint8), torch.tensor([0]))
    assert (white == 255).all()
