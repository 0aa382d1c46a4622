"""SVHN: small files, and broken ones."""

import numpy as np
import pytest
from scipy.io import savemat

from isotherm.data.sets import load
from written import noise, same


def test_svhn_files(tmp_path):
    (tmp_path / "svhn").mkdir()
    x = noise(32, 32, 3, 4)
    for split, first_id in (("train", 0), ("test", 73_257), ("extra", 99_289)):
        savemat(tmp_path / "svhn" / f"{split}_32x32.mat", {"X": x, "y": np.array([[1], [10], [9], [2]], np.uint8)})
        same(load("svhn", split, root=tmp_path), x.transpose(3, 2, 0, 1), [1, 0, 9, 2], first_id)


def test_broken_svhn_files_are_named(tmp_path):
    (tmp_path / "svhn").mkdir()
    file = tmp_path / "svhn" / "train_32x32.mat"

    def refused(words):
        with pytest.raises(ValueError, match=rf"train_32x32\.mat is damaged: .*{words}"):
            load("svhn", root=tmp_path)

    savemat(file, {"X": noise(32, 32, 3, 4), "y": np.array([[1], [11], [0], [2]])})
    refused(r"labels must be 0 to 9, row 1 has 11 \(2 of 4")
    savemat(file, {"X": noise(32, 32, 3, 4), "y": np.array([[1]])})
    refused("1 labels for 4")
    savemat(file, {"X": noise(32, 32, 3, 4)})
    refused("must hold X")
    savemat(file, {"X": noise(32, 32, 3, 4).astype(float), "y": np.ones((4, 1))})
    refused("must hold X")
    savemat(file, {"X": noise(32, 32, 3, 4), "y": np.ones((4, 1))}, do_compression=True)
    file.write_bytes(file.read_bytes()[:-900])
    refused("cannot be read")
    file.write_bytes(b"")
    refused("cannot be read")
