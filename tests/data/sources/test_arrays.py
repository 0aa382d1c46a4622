"""Arrays in numpy's own files, and broken ones."""

import os

import numpy as np
import pytest
import torch

from isotherm.data.sets import load
from written import noise, same


@pytest.mark.parametrize(
    ("array", "pixels"),
    [
        (noise(5, 8, 6), noise(5, 8, 6)[:, None]),
        (noise(5, 8, 6, 3), noise(5, 8, 6, 3).transpose(0, 3, 1, 2)),
        (noise(5, 3, 8, 6), noise(5, 3, 8, 6)),
    ],
    ids=["NHW", "NHWC", "NCHW"],
)
def test_numpys_own_files(tmp_path, array, pixels):
    labels = np.array([0, 1, 2, 1, -1])
    np.save(tmp_path / "a.npy", array)
    same(load(f"arrays:{tmp_path / 'a.npy'}"), pixels, [-1] * 5)
    np.save(tmp_path / "y.npy", labels)
    same(load(f"arrays:{tmp_path / 'a.npy'}", labels=tmp_path / "y.npy"), pixels, labels)
    np.save(tmp_path / "a_labels.npy", labels)
    same(load(f"arrays:{tmp_path / 'a.npy'}"), pixels, labels)
    np.savez(tmp_path / "b.npz", images=array, labels=labels)
    same(load(f"arrays:{tmp_path / 'b.npz'}"), pixels, labels)
    np.savez(tmp_path / "c.npz", x_train=array, y_train=labels, test_images=array[:2], test_labels=labels[:2, None])
    same(load(f"arrays:{tmp_path / 'c.npz'}"), pixels, labels)
    same(load(f"arrays:{tmp_path / 'c.npz'}", "test"), pixels[:2], labels[:2])
    np.save(tmp_path / "test.npy", array)
    same(load(f"arrays:{tmp_path}", "test"), pixels, [-1] * 5)


def test_broken_arrays_are_named(tmp_path):
    file = tmp_path / "a.npy"

    def refused(error, words, **options):
        with pytest.raises(error, match=words):
            load(f"arrays:{file}", **options)

    refused(FileNotFoundError, r"there is no file or folder .*a\.npy")
    np.save(file, np.array([{"a": 1}], dtype=object))
    refused(ValueError, r"a\.npy is damaged: .*Python objects")
    np.save(file, noise(4, 8, 8).astype(np.float32))
    refused(ValueError, "must be uint8 with 3 or 4 dimensions, got float32")
    np.save(file, noise(4, 8, 8, 5))
    refused(ValueError, 'say which: layout="NCHW" or layout="NHWC"')
    assert load(f"arrays:{file}", layout="NHWC").shape == (5, 8, 8)
    refused(ValueError, "layout must be one of NHW, NHWC, NCHW; got 'CHW'", layout="CHW")
    refused(ValueError, "layout NHW needs 3 dimensions", layout="NHW")
    np.save(file, noise(4, 8, 8))
    refused(ValueError, "it has no split 'test', all of it is 'train'", split="test")
    refused(FileNotFoundError, "there is no file /no/such", labels="/no/such")
    for labels, words in (([0, 1], "2 labels for 4"), ([0, 1, 2, -2], "row 3 has -2"), ([0.5] * 4, "whole numbers")):
        np.save(tmp_path / "a_labels.npy", np.array(labels))
        refused(ValueError, rf"a_labels\.npy.*{words}")
    file.write_bytes(file.read_bytes()[:-10])
    refused(ValueError, r"a\.npy is damaged")
    file = tmp_path / "b.npz"
    np.savez(file, scans=noise(4, 8, 8))
    refused(ValueError, "wanted train_images or x_train or images or x; it has: scans")
    file.write_bytes(file.read_bytes()[:-30])
    refused(ValueError, r"b\.npz is damaged")


def test_labels_that_number_no_classes_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", noise(2, 3, 4, 4))
    np.save(tmp_path / "a_labels.npy", np.array([0, 10**12]))
    with pytest.raises(ValueError, match="labels number the classes from 0"):
        load(f"arrays:{tmp_path / 'a.npy'}")
    np.save(tmp_path / "none.npy", noise(0, 3, 4, 4))
    with pytest.raises(ValueError, match="holds no images"):
        load(f"arrays:{tmp_path / 'none.npy'}")


def test_an_array_that_is_cut_under_its_reader_is_a_sentence(tmp_path):
    np.save(tmp_path / "a.npy", noise(4000, 8, 8))
    images = load(f"arrays:{tmp_path / 'a.npy'}")
    some = images.subset(torch.arange(10))
    os.truncate(tmp_path / "a.npy", 1000)
    with pytest.raises(ValueError, match=r"a\.npy was changed while it was in use"):
        images.at(torch.tensor([3999]))
    assert len(some.at(torch.arange(10))) == 10  # in memory
