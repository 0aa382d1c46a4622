"""MNIST and Fashion-MNIST: small idx files, and broken ones."""

import gzip

import numpy as np
import pytest

from isotherm.data.sets import SETS, load
from written import idx, noise, same


def write_idx(folder, split="t10k", n=5, zipped=False, labels=None):
    folder.mkdir(parents=True, exist_ok=True)
    pixels = noise(n, 28, 28)
    labels = np.arange(n, dtype=np.uint8) % 10 if labels is None else np.array(labels, np.uint8)
    for name, array in {"images-idx3": pixels, "labels-idx1": labels}.items():
        content = idx(array)
        file = folder / f"{split}-{name}-ubyte{'.gz' if zipped else ''}"
        file.write_bytes(gzip.compress(content) if zipped else content)
    return pixels[:, None], labels


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_files(tmp_path, name, zipped):
    pixels, labels = write_idx(tmp_path / name, "train", zipped=zipped)
    same(load(name, root=tmp_path), pixels, labels)
    pixels, labels = write_idx(tmp_path / name, "t10k", zipped=zipped)
    test = load(name, "test", root=tmp_path)
    same(test, pixels, labels, first_id=60_000)
    assert len(test.classes) == 10
    assert SETS[name].there(tmp_path)


def test_broken_idx_files_are_named(tmp_path):
    folder = tmp_path / "mnist"
    write_idx(folder, "train", zipped=True)
    file = folder / "train-images-idx3-ubyte.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[:-200])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz is damaged"):
        load("mnist", root=tmp_path)
    file.write_bytes(b"no gzip at all")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz is damaged"):
        load("mnist", root=tmp_path)
    file.write_bytes(gzip.compress(idx(noise(5, 28, 28))[:-1]))
    with pytest.raises(ValueError, match=r"announces 3,920 bytes, 3,919 follow"):
        load("mnist", root=tmp_path)
    file.write_bytes(gzip.compress(idx(noise(5, 28))))
    with pytest.raises(ValueError, match="does not begin like an idx file"):
        load("mnist", root=tmp_path)
    file.write_bytes(gzip.compress(idx(noise(6, 28, 28))))
    with pytest.raises(ValueError, match="5 labels for 6 images"):
        load("mnist", root=tmp_path)


def test_idx_labels_out_of_range(tmp_path):
    write_idx(tmp_path / "mnist", "train", labels=[0, 1, 10, 3, 255])
    with pytest.raises(ValueError, match=r"labels must be 0 to 9, row 2 has 10 \(2 of 5 are out of range\)"):
        load("mnist", root=tmp_path)
