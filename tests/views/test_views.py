"""Each augmentation against a slow reference of its definition, and the distribution of its parameters."""

import colorsys
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from isotherm import streams
from isotherm.views import RECIPES, recipe
from isotherm.views import operations as do
from isotherm.views.recipes import DRAWS, View
from isotherm.waiting import without_waiting

GENERATOR = torch.Generator().manual_seed(0)
X = torch.rand(6, 3, 12, 10, generator=GENERATOR)
IDS = torch.arange(6)


# --- random numbers -----------------------------------------------------------------------------


def test_the_mixer_is_splitmix64():
    golden, expected = 0x9E3779B97F4A7C15, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    states = [(i * golden) & (2**64 - 1) for i in (1, 2, 3)]
    assert [streams._mix_int(s) for s in states] == expected
    signed = torch.tensor([s - 2**64 if s >= 2**63 else s for s in states])
    assert [int(v) & (2**64 - 1) for v in streams._mix(signed)] == expected


def test_draws_are_uniform_and_independent():
    u = streams.uniforms(torch.arange(20_000), 6, seed=3, epoch=1, view=0).double()
    assert u.min() >= 0
    assert u.max() < 1
    for column in u.T:
        assert stats.kstest(column.numpy(), "uniform").pvalue > 1e-4
    columns = torch.cat([u, streams.uniforms(torch.arange(20_000), 3, seed=3, epoch=2, view=0).double()], 1)
    correlation = np.corrcoef(columns.T.numpy()) - np.eye(9)
    assert np.abs(correlation).max() < 5 / math.sqrt(20_000)
    neighbours = np.corrcoef(u[:-1, 0].numpy(), u[1:, 0].numpy())[0, 1]
    assert abs(neighbours) < 5 / math.sqrt(20_000)


def test_draws_belong_to_the_image_and_to_nothing_else():
    ids = torch.tensor([7, 2**62, 5])
    together = streams.uniforms(ids, 4, seed=1, epoch=2, view=3)
    for i in range(3):
        assert torch.equal(streams.uniforms(ids[i : i + 1], 4, seed=1, epoch=2, view=3)[0], together[i])
    assert torch.equal(streams.uniforms(ids, 2, seed=1, epoch=2, view=3), together[:, :2])
    for changed in ({"seed": 2}, {"epoch": 3}, {"view": 4}):
        other = streams.uniforms(ids, 4, **({"seed": 1, "epoch": 2, "view": 3} | changed))
        assert not torch.equal(other, together)


def test_all_orders_of_four_appear():
    orders = [tuple(streams.permutation(4, seed=0, epoch=e, view=0)) for e in range(2400)]
    counts = [orders.count(p) for p in itertools.permutations(range(4))]
    assert stats.chisquare(counts).pvalue > 1e-4


# --- geometry -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(12, 10), (7, 5), (30, 24), (3, 3)])
def test_crop_is_a_cut_and_an_antialiased_resize(size):
    u = torch.rand(6, 4, generator=torch.Generator().manual_seed(1))
    boxes = do.crop_boxes(u, 12, 10, (0.1, 1.0), (0.5, 2.0))
    flip = torch.tensor([True, False, True, False, False, True])
    made = do.resized_crop(X, boxes, size, flip)
    for i, (top, left, h, w) in enumerate(boxes.long().tolist()):
        cut = X[i : i + 1, :, top : top + h, left : left + w]
        expected = F.interpolate(cut, size, mode="bilinear", antialias=True, align_corners=False)[0]
        expected = expected.flip(-1) if flip[i] else expected
        torch.testing.assert_close(made[i], expected, rtol=1e-5, atol=1e-6)


def test_boxes_lie_inside_and_have_the_drawn_area_and_ratio():
    n, size = 20_000, 400
    u = streams.uniforms(torch.arange(n), 4, seed=0, epoch=0, view=0)
    top, left, h, w = do.crop_boxes(u, size, size, (0.2, 0.5), (3 / 4, 4 / 3)).double().unbind(1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + h <= size).all()
    assert (left + w <= size).all()
    area = (h * w / size**2).numpy()
    assert stats.kstest(area, stats.uniform(0.2, 0.3).cdf).statistic < 0.01
    ratio = (w / h).log().numpy()
    assert stats.kstest(ratio, stats.uniform(math.log(3 / 4), 2 * math.log(4 / 3)).cdf).statistic < 0.01
    place = (top / (size - h + 1)).numpy()
    assert stats.kstest(place, "uniform").statistic < 0.02  # whole pixels


def test_whole_image_comes_through_unchanged():
    whole = torch.tensor([0.0, 0, 12, 10]).expand(6, 4)
    torch.testing.assert_close(do.resized_crop(X, whole, (12, 10), torch.zeros(6, dtype=torch.bool)), X)


def test_quarter_turn_and_whole_pixel_moves_are_exact():
    square = X[:, :, :10, :10]
    still, one = torch.zeros(6), torch.ones(6)
    turned = do.affine(square, one * math.pi / 2, torch.zeros(6, 2), one, (10, 10))
    torch.testing.assert_close(turned, torch.rot90(square, -1, (2, 3)), rtol=0, atol=2e-5)
    moved = do.affine(square, still, torch.tensor([0.2, -0.1]).expand(6, 2), one, (10, 10))
    expected = torch.zeros_like(square)
    expected[:, :, 2:, :9] = square[:, :, :8, 1:]
    torch.testing.assert_close(moved, expected, rtol=0, atol=2e-5)
    zoomed = do.affine(square, still, torch.zeros(6, 2), one * 2, (10, 10))
    centre = do.resized_crop(square, torch.tensor([2.0, 2, 6, 6]).expand(6, 4), (12, 12), torch.zeros(6).bool())
    torch.testing.assert_close(zoomed[:, :, 2:-2, 2:-2], centre[:, :, 3:-3, 3:-3], rtol=0, atol=2e-5)


def test_turning_a_wide_image_keeps_its_angles():
    wide = torch.zeros(1, 1, 21, 41)
    wide[:, :, 10, 20:31] = 1  # ten pixels to the right of the centre
    turned = do.affine(wide, torch.tensor([math.pi / 2]), torch.zeros(1, 2), torch.ones(1), (21, 41))
    assert turned[0, 0, 20, 20] > 0.9  # … is ten pixels below it after a quarter turn
    assert turned[0, 0, 10, 30] < 0.1


# --- colour -------------------------------------------------------------------------------------


def gray(pixel):
    return 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]


def each_pixel(function):
    """An image-wise reference from a pixel-wise one."""
    out = torch.zeros_like(X)
    for i in range(len(X)):
        for y in range(X.shape[2]):
            for x in range(X.shape[3]):
                out[i, :, y, x] = torch.tensor(function(i, X[i, :, y, x].tolist()))
    return out


FACTOR = torch.tensor([0.0, 0.3, 0.8, 1.0, 1.4, 3.0])


def clamp(v):
    return min(1.0, max(0.0, v))


def test_brightness_contrast_and_saturation_are_their_definitions():
    f = FACTOR.tolist()
    bright = each_pixel(lambda i, p: [clamp(f[i] * v) for v in p])
    torch.testing.assert_close(do.brightness(X.clone(), FACTOR), bright)
    mean = [np.mean([gray(X[i, :, y, x].tolist()) for y in range(12) for x in range(10)]) for i in range(6)]
    sharp = each_pixel(lambda i, p: [clamp(mean[i] + f[i] * (v - mean[i])) for v in p])
    torch.testing.assert_close(do.contrast(X.clone(), FACTOR), sharp, rtol=1e-5, atol=1e-6)
    vivid = each_pixel(lambda i, p: [clamp(gray(p) + f[i] * (v - gray(p))) for v in p])
    torch.testing.assert_close(do.saturation(X.clone(), FACTOR), vivid, rtol=1e-5, atol=1e-6)


def test_hue_is_a_turn_of_the_hsv_circle():
    turn = torch.tensor([-0.5, -0.1, 0.0, 0.1, 0.33, 0.5])

    def shifted(i, pixel):
        h, s, v = colorsys.rgb_to_hsv(*pixel)
        return colorsys.hsv_to_rgb((h + turn[i].item()) % 1, s, v)

    torch.testing.assert_close(do.hue(X.clone(), turn), each_pixel(shifted), rtol=1e-5, atol=1e-5)
    plain = torch.stack([torch.full((3, 2, 2), v) for v in (0.0, 0.5, 1.0)])
    torch.testing.assert_close(do.hue(plain.clone(), torch.full((3,), 0.2)), plain)


def test_gray_and_solarize_touch_only_the_chosen():
    where = torch.tensor([True, False, True, False, False, True])
    made = do.to_gray(X.clone(), where)
    expected = each_pixel(lambda i, p: [gray(p)] * 3 if where[i] else p)
    torch.testing.assert_close(made, expected, rtol=1e-5, atol=1e-6)
    inverted = each_pixel(lambda i, p: [1 - v if where[i] and v >= 0.5 else v for v in p])
    torch.testing.assert_close(do.solarize(X.clone(), where), inverted)


@pytest.mark.parametrize("radius", [1, 3])
def test_blur_is_a_mirrored_gaussian_convolution(radius):
    sigma = torch.tensor([0.1, 0.5, 1.0, 1.5, 2.0, 0.0])
    made = do.gaussian_blur(X, sigma, radius)
    offset = torch.arange(-radius, radius + 1)
    for i in range(6):
        kernel = torch.exp(-0.5 * (offset / max(sigma[i].item(), 1e-3)) ** 2)
        kernel = kernel / kernel.sum()
        padded = F.pad(X[i][:, None], (radius,) * 4, mode="reflect")
        expected = F.conv2d(padded, (kernel[:, None] * kernel)[None, None])[:, 0]
        torch.testing.assert_close(made[i], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operation", ["brightness", "contrast", "saturation", "hue"])
def test_neutral_colour_changes_change_nothing(operation):
    neutral = torch.zeros(6) if operation == "hue" else torch.ones(6)
    torch.testing.assert_close(getattr(do, operation)(X.clone(), neutral), X, rtol=1e-6, atol=1e-6)


# --- recipes ------------------------------------------------------------------------------------

PIXELS = torch.randint(0, 256, (5, 3, 32, 32), dtype=torch.uint8, generator=GENERATOR)


@pytest.mark.parametrize("name", RECIPES)
def test_views_belong_to_the_image_not_to_the_batch(name):
    make = recipe(name, size=32)
    ids = torch.tensor([3, 900, 12, 4, 77])
    views = make(PIXELS, ids, seed=5, epoch=7)
    assert len(views) == max(2, len(RECIPES[name].views)) + len(RECIPES[name].small)
    for view in views:
        assert view.dtype == torch.float32
        assert view.min() >= -1e-4
        assert view.max() <= 1 + 1e-4
    order = torch.tensor([4, 2, 0])
    for whole, part in zip(views, make(PIXELS[order], ids[order], seed=5, epoch=7), strict=True):
        torch.testing.assert_close(part, whole[order], rtol=1e-5, atol=1e-5)
    if name != "none":
        again = make(PIXELS, ids, seed=5, epoch=8)
        assert not torch.allclose(views[0], again[0])
        assert not torch.allclose(views[0], views[1])


def test_chances_and_strengths_are_those_of_the_recipe():
    n = 4000
    u = streams.uniforms(torch.arange(n), DRAWS, seed=0, epoch=0, view=0)
    pixels = torch.randint(0, 256, (n, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    plain = pixels / 255
    still = View(scale=None, flip=0, jitter=(0, 0, 0, 0), gray=0)
    torch.testing.assert_close(still.draw(pixels, u, range(4)), plain)

    def changed(**setting):
        made = View(**({"scale": None, "flip": 0, "jitter": (0, 0, 0, 0), "gray": 0} | setting)).draw(
            pixels, u, range(4)
        )
        return ((made - plain).abs().amax((1, 2, 3)) > 1e-4).float().mean().item()

    for setting, expected in (
        ({"flip": 0.5}, 0.5),
        ({"gray": 0.2}, 0.2),
        ({"jitter": (0.4, 0, 0, 0), "jitter_chance": 0.8}, 0.8),
        ({"solarize": 0.2}, 0.2),
        ({"blur": 0.5, "sigma": (0.5, 2.0)}, 0.5),
    ):
        assert changed(**setting) == pytest.approx(expected, abs=5 * math.sqrt(0.25 / n)), setting
    bright = View(scale=None, flip=0, jitter=(0.4, 0, 0, 0), jitter_chance=1.0, gray=0).draw(pixels // 2, u, range(4))
    factor = (bright.sum((1, 2, 3)) / (pixels // 2 / 255).sum((1, 2, 3))).double()
    assert stats.kstest(factor.numpy(), stats.uniform(0.6, 0.8).cdf).pvalue > 1e-4


def test_switching_one_operation_off_leaves_the_others():
    u = streams.uniforms(torch.arange(5), DRAWS, seed=0, epoch=0, view=0)
    with_gray = View(gray=1.0).draw(PIXELS, u, range(4))
    without = View(gray=0.0).draw(PIXELS, u, range(4))
    torch.testing.assert_close(with_gray, do.to_gray(without, torch.ones(5).bool()))


def test_recipes_count_size_and_normalize():
    assert len(recipe("simclr-cifar", views=5).views) == 5
    pair = recipe("byol", views=4).views
    assert pair[0] == pair[2] != pair[1] == pair[3]
    sizes = [v.shape[-1] for v in recipe("multi-crop", size=64)(PIXELS, torch.arange(5))]
    assert sizes == [64, 64] + [round(96 / 224 * 64)] * 6
    plain = recipe("none", normalize="cifar10").plain(PIXELS)
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])
    expected = (PIXELS.permute(0, 2, 3, 1) / 255 - mean) / std
    torch.testing.assert_close(plain.permute(0, 2, 3, 1), expected, rtol=1e-5, atol=1e-5)


def test_gray_images_and_other_channels_pass_through():
    one = PIXELS[:, :1]
    for name in ("simclr-cifar", "digits", "instdisc"):
        assert recipe(name)(one, torch.arange(5))[0].shape == (5, 1, 32, 32)
    five = torch.cat([PIXELS, PIXELS[:, :2]], 1)
    assert recipe("simclr-cifar")(five, torch.arange(5))[0].shape == (5, 5, 32, 32)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: recipe("simclr-cifr"), "did you mean 'simclr-cifar'"),
        (lambda: recipe("simclr", views=0), "1 view or more"),
        (lambda: recipe("simclr", size=0), "between 1 and 4096"),
        (lambda: recipe("simclr", normalize=((math.nan,), (1.0,))), "finite"),
        (lambda: recipe("simclr", normalize="cifar11"), "no channel statistics"),
        (lambda: recipe("simclr", normalize=((0.5,), (0.0,))), "std positive"),
        (lambda: recipe("none")(PIXELS.float(), torch.arange(5)), "takes uint8 images"),
        (lambda: recipe("none")(PIXELS, torch.arange(4)), "one id an image"),
        (lambda: recipe("none", normalize="cifar10")(PIXELS[:, :2], torch.arange(5)), "normalizes 3 channels"),
    ],
)
def test_bad_recipes(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("name", RECIPES)
def test_views_do_not_depend_on_what_surrounds_them(name):
    ids = torch.arange(5)
    make = recipe(name, size=24)
    expected = make(PIXELS, ids)
    with torch.inference_mode():
        make(PIXELS, ids)
        make.plain(PIXELS, size=16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = make(PIXELS, ids)
    torch.set_default_dtype(torch.float64)
    try:
        double = make(PIXELS, ids)
    finally:
        torch.set_default_dtype(torch.float32)
    for views in (make(PIXELS, ids), cast, double):
        for a, b in zip(views, expected, strict=True):
            assert a.dtype == torch.float32
            assert torch.equal(a, b)
    assert [len(v) for v in make(PIXELS[:0], ids[:0])] == [0] * len(expected)


def test_a_second_call_leaves_the_first_views_alone():
    make = recipe("mocov2", size=32)
    first = make(PIXELS, torch.arange(5))
    kept = [v.clone() for v in first]
    make(PIXELS.flip(0), torch.arange(5), epoch=1)
    assert all(torch.equal(a, b) for a, b in zip(first, kept, strict=True))


@pytest.mark.parametrize("name", ["simclr", "byol", "mocov2", "digits"])
def test_views_are_the_same_where_a_device_is_not_asked_which_images_are_chosen(name):
    pixels = torch.randint(0, 256, (24, 3, 20, 20), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    make = recipe(name, size=16, normalize="cifar10")
    asked = make(pixels, torch.arange(24), seed=1)
    with without_waiting():
        unasked = make(pixels, torch.arange(24), seed=1)
    for a, b in zip(asked, unasked, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
