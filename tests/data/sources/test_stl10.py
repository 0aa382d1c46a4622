"""STL-10: images are stored column by column."""

import os

import pytest
import torch

from isotherm.data.sets import SETS, load
from written import noise, same


@pytest.mark.parametrize("inner", ["", "stl10_binary"])
def test_stl10_is_stored_column_by_column(tmp_path, inner):
    folder = tmp_path / "stl10" / inner
    folder.mkdir(parents=True)
    pixels = noise(3, 3, 96, 96)
    for split in ("train", "test", "unlabeled"):
        (folder / f"{split}_X.bin").write_bytes(pixels.transpose(0, 1, 3, 2).tobytes())
        (folder / f"{split}_y.bin").write_bytes(bytes((1, 10, 2)))
    (folder / "unlabeled_y.bin").unlink()
    assert SETS["stl10"].there(tmp_path)
    same(load("stl10", root=tmp_path), pixels, [0, 9, 1])
    same(load("stl10", "test", root=tmp_path), pixels, [0, 9, 1], first_id=5_000)
    same(load("stl10", "unlabeled", root=tmp_path), pixels, [-1, -1, -1], first_id=13_000)
    both = load("stl10", "train+unlabeled", root=tmp_path)
    assert torch.equal(both.pixels, torch.from_numpy(pixels).repeat(2, 1, 1, 1))
    assert (both.labels.tolist(), both.ids.tolist()) == ([0, 9, 1, -1, -1, -1], [0, 1, 2, 13_000, 13_001, 13_002])
    images = load("stl10", "unlabeled", root=tmp_path)
    os.truncate(folder / "unlabeled_X.bin", 1000)
    with pytest.raises(ValueError, match=r"unlabeled_X\.bin was changed while it was in use"):
        images.at(torch.arange(3))
    (folder / "train_y.bin").write_bytes(bytes((1, 0, 11)))
    with pytest.raises(ValueError, match=r"train_y\.bin is damaged: .*\(2 of 3 are out of range\)"):
        load("stl10", root=tmp_path)
    (folder / "train_y.bin").write_bytes(bytes((1, 1)))
    with pytest.raises(ValueError, match="2 labels for 3"):
        load("stl10", root=tmp_path)
    (folder / "train_X.bin").write_bytes(pixels.tobytes()[:-1])
    with pytest.raises(ValueError, match=r"train_X\.bin is damaged: 82,943 bytes are not a whole number of images"):
        load("stl10", root=tmp_path)
