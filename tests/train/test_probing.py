"""Runs on data that probes: digits from another source, random bits for every method and size of network."""

import numpy as np
import pytest
import torch

from isotherm.experiments.trained.images import TrainedImages
from isotherm.probes import linear
from isotherm.train import runs
from isotherm.train.build import build
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from isotherm.train.modality.images import images_of
from written import idx

TINY = {"images": 64, "epochs": 1, "batch": 32, "monitor": 0}


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """Idx files of 300 and 40 noisy images in a data root."""
    folder = tmp_path / "root/mnist"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, n in (("train", 300), ("t10k", 40)):
        pixels, labels = rng.integers(0, 256, (n, 28, 28), np.uint8), (np.arange(n) % 10).astype(np.uint8)
        for kind, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            (folder / f"{part}-{kind}-ubyte").write_bytes(idx(array))
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))


@pytest.fixture
def wide(tmp_path):
    """128 colour images of 48×48 as a set, and as many to judge on."""
    rng = np.random.default_rng(1)
    arrays = {f"{s}_images": rng.integers(0, 256, (128, 48, 48, 3), np.uint8) for s in ("train", "test")}
    arrays |= {f"{s}_labels": np.arange(128) % 4 for s in ("train", "test")}
    np.savez(tmp_path / "wide.npz", **arrays)
    return f"arrays:{tmp_path}/wide.npz"


def test_digits_come_from_mnist_resized_on_a_grid_and_the_probe_is_taught_on_all(mnist, wide, tmp_path):
    digits = {"digits": 5, "digit_source": "mnist", "digit_size": 14, "digit_places": "grid", "digit_blend": "sum"}
    config = configure({**TINY, "images": None, "data": wide, "encoder.widths": [8], **digits})
    images, test = (images_of(config, split) for split in ("train", "test"))
    assert images.overlay.ink.shape == (5, 14, 14)
    assert images.overlay.corners[:2] == ((1, 1), (1, 17))
    assert images.overlay.blend == "sum"
    assert len(images.more_labels["digit_image"].unique()) == 5
    assert test.overlay.ink.shape == (40, 14, 14)  # all there are
    train(config, Runtime(out=tmp_path / "a", quiet=True))
    assert 0 <= TrainedImages(runs.open_run(tmp_path / "a")).linear_digit <= 1
    of_all = configure({**TINY, "images": None, "data": wide, "encoder.widths": [8], **digits, "digits": 300})
    train(of_all, Runtime(out=tmp_path / "b", quiet=True))
    few, all_digits = (TrainedImages(runs.open_run(tmp_path / name)) for name in "ab")
    assert all_digits.linear_object == all_digits.linear  # taught on what it learnt from
    taught, bank = few._with_all_digits
    assert len(taught.more_labels["digit_image"].unique()) > 5
    assert few.linear_object == linear(bank, taught.labels, few.queries, few.test.labels, seed=0).accuracy
    with pytest.raises(ValueError, match="mnist has 300 images; cannot take 301 unique ones"):
        images_of(configure({**TINY, "data": wide, **digits, "digits": 301}), "train")


def test_a_source_of_digits_that_is_not_there_says_how_to_get_it(wide, tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError, match="isotherm data get mnist"):
        images_of(configure({"data": wide, "digits": 4, "digit_source": "mnist"}), "train")


CONVNET = {"encoder.widths": [4, 8], "head.width": 8}
ARMS = {
    "simclr": CONVNET,
    "mocov2": {**CONVNET, "method.queue": 64},
    "byol": CONVNET,
    "supervised": {"encoder.widths": [4, 8]},
    "vae": {"encoder.widths": [4, 8], "encoder.hidden": 16, "encoder.width": 8, "encoder.bn": True, "recipe": "none"},
}


def scaled(settings, factor):
    """The network's widths, larger or smaller."""
    sizes = {k: v for k, v in settings.items() if k.startswith("encoder.") and v is not True}
    return settings | {k: (np.array(v) * factor).astype(int).tolist() for k, v in sizes.items()}


@pytest.mark.parametrize("factor", [0.5, 1, 2])
@pytest.mark.parametrize("name", ARMS)
def test_networks_of_every_size_learn_from_random_bits(name, factor, tmp_path):
    config = configure({**TINY, "method": name, "randbit": 5, **scaled(ARMS[name], factor)})
    network = build(config).method.network.encoder
    widths = [layer.out_channels for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)]
    assert widths == [int(4 * factor), int(8 * factor)]
    result = train(config, Runtime(out=tmp_path / "a", quiet=True))
    assert result.steps == 2
    assert TrainedImages(runs.open_run(tmp_path / "a")).linear_bits is not None


@pytest.mark.parametrize("name", ARMS)
def test_every_method_takes_24_random_bits_and_not_25(name, tmp_path):
    settings = {**TINY, "method": name, **ARMS[name]}
    config = configure({**settings, "randbit": 24})
    built = build(config)
    batch = next(built.material.loader(built.method.network, torch.device("cpu"), 0).epoch(0))
    assert all(view.shape[1] == 25 for view in batch.views)
    loss = built.method.compare(batch)
    loss.backward()
    assert torch.isfinite(loss)
    with pytest.raises(ValueError, match="0 to 24 bits"):
        build(configure({**settings, "randbit": 25}))


def test_the_weight_of_a_plane_comes_through_from_the_command_line():
    settings = {**TINY, "method": "vae", "randbit": 3, "method.plane_weight": "area", "method.beta": 0.5}
    built = build(configure(settings)).method
    assert built.weights.tolist() == pytest.approx([1.0, 1 / 64, 1 / 64, 1 / 64])
    assert built.beta == 0.5
