"""Sets by name: wrong names, missing files, and the real ones where they are."""

import os
from pathlib import Path

import pytest
import torch

from isotherm.data.sets import SETS, load
from isotherm.data.sources.cifar import CLASSES

REAL = Path(os.environ.get("ISOTHERM_DATA") or "/nonexistent")


@pytest.mark.parametrize(
    ("name", "settings", "error", "words"),
    [
        ("cifar11", {}, ValueError, "no set 'cifar11'; did you mean 'cifar10'?"),
        ("zzz", {}, ValueError, "no set 'zzz'; there is: digits, k-bit, scene-digits, .*, arrays:PATH"),
        ("digits", {"split": "val"}, ValueError, "digits has no split 'val'; it has: train, test"),
        ("imagenette", {"split": "extra"}, ValueError, "imagenette has no split 'extra'; it has: train, validation"),
        ("imagenette", {"sise": 8}, TypeError, "imagenette has no option 'sise'; did you mean 'size'?"),
        ("digits", {"size": 8}, TypeError, "digits has no option 'size'; it has: none"),
        ("imagenet100", {"classes": ["a"]}, TypeError, "it is part of the set"),
        ("folder:/x", {"bad": "ignore"}, ValueError, "bad must be 'skip' or 'error', got 'ignore'"),
        ("folder:/x", {"size": 0}, ValueError, "size must be 1 or more, got 0"),
        ("parquet:/x", {"channels": 2}, ValueError, "channels must be 1"),
        ("parquet:/x", {}, FileNotFoundError, "there is no file or folder /x"),
    ],
)
def test_wrong_names_and_options(name, settings, error, words):
    with pytest.raises(error, match=words):
        load(name, **settings)


@pytest.mark.parametrize("name", sorted(name for name in SETS if SETS[name].folder))
def test_a_missing_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path, name):
    assert not SETS[name].there(tmp_path)
    advice = rf"`isotherm data get {name}` fetches it; or put" if SETS[name].fetched else "Put"
    with pytest.raises(FileNotFoundError, match=rf"{name} is not in {tmp_path / SETS[name].folder}: .*\. {advice}"):
        load(name, root=tmp_path)


@pytest.mark.skipif(not SETS["cifar100"].there(REAL), reason="ISOTHERM_DATA has no cifar100")
def test_the_real_cifar100():
    test = load("cifar100", "test")
    assert test.pixels.shape == (10_000, 3, 32, 32)
    assert set(test.counts()) == {100}
    assert test.classes == CLASSES["cifar100"]
    assert torch.bincount(test.more_labels["coarse_label"]).tolist() == [500] * 20
    mean = test.pixels.double().mean((0, 2, 3)) / 255
    assert torch.allclose(mean, torch.tensor([0.5088, 0.4874, 0.4419]).double(), atol=2e-4)


@pytest.mark.skipif(not SETS["imagenette"].there(REAL), reason="ISOTHERM_DATA has no imagenette")
def test_the_real_imagenette():
    images = load("imagenette", "test", size=32)
    assert images.pixels.shape == (3_925, 3, 32, 32)
    assert len(images.classes) == 10
    assert min(images.counts()) > 350


@pytest.mark.parametrize("name", ["cifar10", "mnist", "fashion-mnist"])
def test_real_sets_fetched_here(name):
    if not SETS[name].there(REAL):
        pytest.skip(f"ISOTHERM_DATA has no {name}")
    for split in ("train", "test"):
        images = load(name, split)
        assert len(images) == SETS[name].images[split]
        assert name == "mnist" or set(images.counts()) == {len(images) // 10}


def test_an_empty_folder_is_not_a_set(tmp_path):
    (tmp_path / "cifar10" / "cifar-10-batches-py").mkdir(parents=True)
    assert not SETS["cifar10"].there(tmp_path)
