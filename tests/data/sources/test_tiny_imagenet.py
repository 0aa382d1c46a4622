"""Tiny-ImageNet: nested training folders, and validation classes in a file."""

import pytest
from PIL import Image

from isotherm.data.sets import SETS, load
from written import noise


def written(root, inner=""):
    """Two classes of two images, and three to judge on; the pixels of the latter."""
    folder = root / "tiny-imagenet" / inner
    for name in ("n02", "n01"):
        images = folder / "train" / name / "images"
        images.mkdir(parents=True)
        for i in range(2):
            Image.fromarray(noise(64, 64, 3)).save(images / f"{name}_{i}.JPEG")
        (folder / "train" / name / f"{name}_boxes.txt").write_text("n02_0.JPEG\t0\t0\t62\t62\n")
    (folder / "val" / "images").mkdir(parents=True)
    grey = [10, 120, 230]
    for i, value in enumerate(grey):
        Image.new("RGB", (64, 64), (value,) * 3).save(folder / "val" / "images" / f"val_{i}.JPEG")
    rows = [f"val_{i}.JPEG\t{name}\t0\t0\t9\t9\n" for i, name in ((2, "n02"), (0, "n01"), (1, "n02"))]
    (folder / "val" / "val_annotations.txt").write_text("".join(rows))
    return folder


@pytest.mark.parametrize("inner", ["", "tiny-imagenet-200"])
def test_both_splits_have_the_classes_of_the_training_folders(tmp_path, monkeypatch, inner):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path))  # decoded images are kept there
    written(tmp_path, inner)
    assert SETS["tiny-imagenet"].there(tmp_path)
    train = load("tiny-imagenet", root=tmp_path)
    assert (train.classes, train.labels.tolist(), train.shape) == (("n01", "n02"), [0, 0, 1, 1], (3, 64, 64))
    val = load("tiny-imagenet", "test", root=tmp_path)  # as other sets call it
    assert val.classes == train.classes
    assert val.labels.tolist() == [1, 0, 1]
    assert val.pixels[:, 0, 5, 5].tolist() == pytest.approx([230, 10, 120], abs=2)
    assert len({*train.ids.tolist(), *val.ids.tolist()}) == 7


def test_what_is_missing_or_broken_is_named(tmp_path):
    folder = written(tmp_path)
    (folder / "val" / "images" / "val_1.JPEG").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"val_1\.JPEG is damaged"):
        load("tiny-imagenet", "val", root=tmp_path)
    listed = folder / "val" / "val_annotations.txt"
    listed.write_text("val_0.JPEG\tn77\t0\t0\t1\t1\n")
    with pytest.raises(ValueError, match=r"val_annotations\.txt is damaged: train has no class 'n77'"):
        load("tiny-imagenet", "val", root=tmp_path)
    listed.write_text("val_0.JPEG n01\n")
    with pytest.raises(ValueError, match="with a tab between"):
        load("tiny-imagenet", "val", root=tmp_path)
    listed.unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no val/val_annotations\.txt"):
        load("tiny-imagenet", "val", root=tmp_path)
    with pytest.raises(ValueError, match="no split 'extra'"):
        load("tiny-imagenet", "extra", root=tmp_path)
