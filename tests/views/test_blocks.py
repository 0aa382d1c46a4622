"""Blur in blocks, and views of crops: what the whole gives, to rounding."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from isotherm.streams import uniforms
from isotherm.views import operations as do
from isotherm.views import recipe
from isotherm.views.recipes import DRAWS
from isotherm.views.threads import one_core_threads

SHAPES = [(64, 96, 3), (224, 224, 11), (64, 128, 32), (40, 64, 2), (32, 32, 31), (8, 8, 9)]


@pytest.mark.parametrize(("height", "width", "radius"), SHAPES)
def test_blur_in_blocks_is_the_blur(height, width, radius):
    x = torch.rand(3, 3, height, width, generator=torch.Generator().manual_seed(0))
    sigma = torch.tensor([0.0, 0.1, 2.0])
    assert torch.allclose(
        do.blur_in_blocks(x.clone(), sigma, radius), do.gaussian_blur(x.clone(), sigma, radius), atol=1e-6
    )
    assert do.blur_in_blocks(x[:0], sigma[:0], radius).shape == (0, 3, height, width)


@pytest.mark.parametrize("name", ["simclr", "byol", "mocov2", "digits"])
def test_views_of_crops_are_those_of_images_that_are_their_own_crops(name):
    how = recipe(name, 3, 32)
    how = replace(how, views=tuple(replace(v, scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=0) for v in how.views))
    pixels = torch.randint(0, 256, (7, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    ids = torch.arange(7) * 5
    ours, wanted = how.from_crops([pixels] * 3, ids, seed=2, epoch=1), how(pixels, ids, seed=2, epoch=1)
    assert all(torch.allclose(a, b, atol=3e-6) for a, b in zip(ours, wanted, strict=True))


def test_views_of_crops_do_not_depend_on_how_many_threads_make_them(monkeypatch):
    monkeypatch.setattr("isotherm.views.recipes.AT_ONCE", 5 * 3 * 64 * 64)  # several parts
    how = recipe("simclr", 2, 64, "imagenet")
    generator, ids = torch.Generator().manual_seed(0), torch.arange(33)
    crops = [torch.randint(0, 256, (33, 3, 64, 64), dtype=torch.uint8, generator=generator) for _ in range(2)]
    before = torch.get_num_threads()
    alone = how.from_crops(crops, ids, seed=1)
    usual = 2
    torch.set_num_threads(usual)
    for count in (1, 3):
        with one_core_threads(count) as threads:
            together = how.from_crops(crops, ids, seed=1, threads=threads)
            assert {threads.submit(torch.get_num_threads).result() for _ in range(9)} == {1}
            assert torch.get_num_threads() == usual
            with ThreadPoolExecutor(1) as others:
                assert others.submit(torch.get_num_threads).result() == usual
        assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
    torch.set_num_threads(before)


def test_the_first_numbers_of_a_crop_are_those_of_its_view():
    ids = torch.arange(4)
    how = recipe("simclr")
    numbers = how.crop_numbers(ids, 10, seed=3, epoch=2)
    assert numbers.shape == (4, 2, 5 + 36)
    assert torch.equal(numbers[:, 1, :5], uniforms(ids, DRAWS, seed=3, epoch=2, view=1)[:, :5])
    assert len(numbers.unique()) > 0.99 * numbers.numel()
