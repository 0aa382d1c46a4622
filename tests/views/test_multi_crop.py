"""Small crops beside the views: their number, size and area, and that nothing else changes."""

import pytest
import torch

from isotherm.views import multi_crop, recipe

PIXELS = torch.randint(0, 256, (5, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
IDS = torch.tensor([3, 900, 12, 4, 77])


def sizes(made):
    return [v.shape[-1] for v in made(PIXELS, IDS)]


def test_small_crops_come_after_the_views_and_change_none_of_them():
    plain = recipe("simclr-cifar", views=3)
    made = multi_crop(plain, 32, small_crops=4)
    assert sizes(made) == [32] * 3 + [round(32 * 96 / 224)] * 4
    for a, b in zip(plain(PIXELS, IDS, seed=2, epoch=5), made(PIXELS, IDS, seed=2, epoch=5)[:3], strict=True):
        assert torch.equal(a, b)


def test_small_crops_belong_to_the_image_the_epoch_and_the_seed():
    made = multi_crop(recipe("simclr-cifar"), 32, small_crops=3, small_size=12)
    together = made(PIXELS, IDS, seed=5, epoch=7)
    for i in range(5):
        alone = made(PIXELS[i : i + 1], IDS[i : i + 1], seed=5, epoch=7)
        for a, b in zip(alone, together, strict=True):
            torch.testing.assert_close(a[0], b[i])
    fewer = multi_crop(recipe("simclr-cifar"), 32, small_crops=2, small_size=12)(PIXELS, IDS, seed=5, epoch=7)
    for a, b in zip(fewer, together[:4], strict=True):
        torch.testing.assert_close(a, b)  # to rounding: of more of them a kernel may sum in another order
    other = made(PIXELS, IDS, seed=5, epoch=8)
    assert not any(torch.equal(a, b) for a, b in zip(other, together, strict=True))
    assert not torch.equal(together[2], together[3])


def test_a_small_crop_shows_a_small_part():
    """Of an image whose pixels are their own coordinates: a view spans as much of them as its crop does."""
    across = torch.arange(256, dtype=torch.uint8).expand(64, 1, 256, 256)
    made = multi_crop(
        recipe("none", views=1), 256, small_crops=1, small_size=96, small_scale=(0.05, 0.14), crop_scale=(0.5, 1)
    )
    for view, low, high in zip(made(across, torch.arange(64)), (0.5, 0.05), (1.0, 0.14), strict=True):
        span = (view.amax((1, 2, 3)) - view.amin((1, 2, 3))) * 255 / 256  # √(area · ratio), ratio from 3/4 to 4/3
        assert (span >= (low * 3 / 4) ** 0.5 - 0.03).all()
        assert (span <= min(1.0, (high * 4 / 3) ** 0.5 + 0.03)).all()
    assert made.views[0].scale == (0.5, 1.0)


def test_recipes_of_the_papers_have_their_own_small_crops():
    swav, dino = recipe("multi-crop", size=112), recipe("dino", size=112)
    assert sizes(swav) == [112] * 2 + [48] * 6
    assert sizes(dino) == [112] * 2 + [48] * 8
    assert (swav.views[0].scale, swav.small[0].scale) == ((0.14, 1.0), (0.05, 0.14))
    assert (dino.views[1].solarize, dino.small[0].solarize, dino.small[0].blur) == (0.2, 0, 0.5)
    assert sizes(multi_crop(swav, 112, small_crops=0)) == [112] * 2
    assert sizes(multi_crop(swav, 112, small_crops=1, small_size=30)) == [112] * 2 + [30]
    assert multi_crop(dino, 112) == dino


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"small_crops": 2, "small_size": 32}, "32 pixels is not smaller than the large ones.*use --small_size 14"),
        ({"small_crops": -1}, "between 0 and 1,000, got -1"),
        ({"small_scale": (0.1, 0.2)}, "there are none: say --small_crops 6"),
        ({"small_crops": 1, "small_scale": (0.2,)}, "least and the largest part"),
        ({"crop_scale": (0.2, 1.2)}, "crop_scale is the least"),
    ],
)
def test_crops_that_make_no_sense_are_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        multi_crop(recipe("simclr-cifar"), 32, **settings)
