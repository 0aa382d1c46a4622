"""Crops from whole images: torchvision's boxes, Pillow's resizing, JPEGs decoded smaller where nothing is lost."""

import io
import math

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from isotherm.data.decoding.crops import DRAWS, TRIES, Crop, random_box, take_crops
from written import noise

NUMBERS = DRAWS + 4 * (TRIES - 1)
WHOLE = (1.0, 1.0)


def draws(n, seed=0):
    return np.random.default_rng(seed).random((n, NUMBERS), dtype=np.float32)


def smooth(height, width, seed=0):
    return np.asarray(Image.fromarray(noise(6, 8, 3, seed=seed)).resize((width, height), Image.Resampling.BICUBIC))


def jpeg(pixels, quality=95):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=quality)
    return out.getvalue()


def box_by_loops(u, height, width, scale, ratio):
    """torchvision's RandomResizedCrop.get_params, with our numbers for its random ones."""
    tries = [u[0:4]] + [u[DRAWS + 4 * k : DRAWS + 4 * k + 4] for k in range(TRIES - 1)]
    for a, b, c, d in tries:
        target = height * width * (scale[0] + (scale[1] - scale[0]) * a)
        aspect = math.exp(math.log(ratio[0]) + (math.log(ratio[1]) - math.log(ratio[0])) * b)
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return math.floor(c * (height - h + 1)), math.floor(d * (width - w + 1)), h, w
    if width / height < min(ratio):
        w, h = width, round(width / min(ratio))
    elif width / height > max(ratio):
        h, w = height, round(height * max(ratio))
    else:
        h, w = height, width
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize("shape", [(375, 500), (500, 375), (100, 1000), (1, 1), (640, 640)])
def test_boxes_are_torchvisions(shape):
    for row in draws(200).astype(float).tolist():
        for scale in ((0.08, 1.0), (0.9, 1.0)):
            box = random_box(row, *shape, scale, (3 / 4, 4 / 3))
            assert box == box_by_loops(row, *shape, scale, (3 / 4, 4 / 3))
            top, left, h, w = box
            assert 0 <= top <= top + h <= shape[0]
            assert 0 <= left <= left + w <= shape[1]


def test_an_image_too_long_for_any_box_gives_its_middle():
    never = [1.0 - 1e-7] * NUMBERS  # the whole area at the widest aspect
    assert random_box(never, 100, 1000, (0.99, 1.0), (3 / 4, 4 / 3)) == (0, 433, 100, 133)
    assert random_box(never, 1000, 100, (0.99, 1.0), (3 / 4, 4 / 3)) == (433, 0, 133, 100)


def test_a_crop_is_what_pillow_crops_and_resizes():
    pixels = smooth(75, 100)
    numbers = draws(3)
    crops = (
        Crop(32, (0.2, 1.0), (3 / 4, 4 / 3), 0.0),
        Crop(48, (0.1, 0.5), (1.0, 1.0), 1.0),
        Crop(7, WHOLE, WHOLE, 0.0),
    )
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    for crop, row, view in zip(crops, numbers, take_crops(out.getvalue(), crops, numbers), strict=True):
        top, left, h, w = random_box(row.astype(float).tolist(), 75, 100, crop.scale, crop.ratio)
        part = Image.fromarray(pixels[top : top + h, left : left + w])
        wanted = np.asarray(part.resize((crop.size, crop.size), Image.Resampling.BILINEAR))
        wanted = wanted[:, ::-1] if crop.flip else wanted
        assert view.shape == (3, crop.size, crop.size)
        assert np.array_equal(view, wanted.transpose(2, 0, 1))


def test_a_jpeg_much_larger_than_its_crops_is_decoded_smaller(monkeypatch):
    asked = []
    method = JpegImagePlugin.JpegImageFile.draft

    def heard(self, mode, size):
        asked.append(size)
        return method(self, mode, size)

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "draft", heard)
    picture = jpeg(smooth(600, 800))
    (small,) = take_crops(picture, (Crop(64, (0.5, 1.0), (3 / 4, 4 / 3), 0.0),), draws(1))
    assert asked == [(200, 150)]  # a quarter: 64 pixels are at most a sixth of any such box
    asked.clear()
    both = (Crop(64, (0.5, 1.0), (3 / 4, 4 / 3), 0.0), Crop(224, (0.2, 0.3), (3 / 4, 4 / 3), 0.0))
    full, _ = take_crops(picture, both, draws(2))
    assert asked == []  # the other crop needs every pixel
    assert np.abs(small.astype(int) - full).mean() < 2  # the same part of the image
    assert not np.array_equal(small, full)


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "I;16", "1", "LA"])
def test_every_mode_becomes_rgb(mode):
    gray = Image.fromarray(noise(20, 30))
    image = Image.fromarray(noise(20, 30).astype(np.uint16) * 257) if mode == "I;16" else gray.convert(mode)
    out = io.BytesIO()
    image.save(out, "JPEG" if mode == "CMYK" else "PNG")
    (view,) = take_crops(out.getvalue(), (Crop(8, WHOLE, (1.5, 1.5), 0.0),), draws(1))
    assert view.shape == (3, 8, 8)
    assert view.dtype == np.uint8
    assert 60 < view.mean() < 200  # scaled, not clipped


def test_what_is_no_image_is_an_error():
    whole = jpeg(smooth(60, 80))
    for broken in (b"", b"nonsense", whole[: len(whole) // 2]):
        with pytest.raises(Exception):  # noqa: B017, PT011 - Pillow raises nearly anything
            take_crops(broken, (Crop(8, WHOLE, WHOLE, 0.0),), draws(1))
