"""Lists of images: ImageNet-LT's lines, a subset's paths or classes, WebVision's files, ImageNet-22K's folders."""

import pytest

from isotherm.data.sets import load
from isotherm.data.undecoded import Undecoded
from written import encoded, noise


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    for split, n in (("train", 3), ("val", 1)):
        for c in ("n01", "n02", "n03"):
            for i in range(n):
                put(tmp_path / "imagenet" / split / c / f"{c}_{i}.JPEG", i)
    return tmp_path / "imagenet"


def put(file, seed=0):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encoded(noise(8, 8, 3, seed=seed)))


@pytest.mark.parametrize("lazy", [True, False])
def test_a_list_of_paths_and_labels(tree, lazy):
    (tree / "lt.txt").write_text("train/n03/n03_1.JPEG 2\ntrain/n01/n01_0.JPEG 0\n\n")
    images = load(f"folder:{tree}", list="lt.txt", size=8, lazy=lazy)
    assert isinstance(images.pixels, Undecoded) == lazy
    assert images.labels.tolist() == [2, 0]
    assert images.classes == ("n01", "1", "n03")
    whole = load(f"folder:{tree}", size=8)
    assert images.ids.tolist() == [whole.ids[7], whole.ids[0]]  # an image is itself, however it was found
    assert len(load(f"folder:{tree}", "val", list="lt.txt", size=8)) == 3  # a list of train alone


def test_a_list_for_each_split(tree):
    for split in ("train", "val"):
        (tree / f"{split}.txt").write_text(f"{split}/n02/n02_0.JPEG 0\n{split}/n01/n01_0.JPEG 1\n")
    assert load(f"folder:{tree}", "val", list=f"{tree}/{{split}}.txt", size=8).classes == ("n02", "n01")
    with pytest.raises(FileNotFoundError, match="no split 'test'"):
        load(f"folder:{tree}", "test", list=f"{tree}/{{split}}.txt", size=8)


def test_a_list_without_labels_has_folders_for_classes(tree):
    (tree / "some.txt").write_text("train/n02/n02_0.JPEG\ntrain/n01/n01_2.JPEG\n")
    images = load(f"folder:{tree}", list="some.txt", size=8)
    assert (images.labels.tolist(), images.classes) == ([1, 0], ("n01", "n02"))


def test_classes_may_be_the_lines_of_a_file(tree):
    (tree / "two.txt").write_text("n03\nn01\n")
    images = load(f"folder:{tree}", classes=str(tree / "two.txt"), size=8)
    assert (images.labels.tolist(), images.classes) == ([0, 0, 0, 1, 1, 1], ("n03", "n01"))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(f"folder:{tree}", classes=str(tree / "none.txt"), size=8)


def test_webvision_is_read_by_its_own_lists(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    root = tmp_path / "webvision"
    for file in ("google/q0001/a b.jpg", "flickr/q0002/c.jpg", "val_images_256/val1.jpg"):
        put(root / file)
    (root / "info").mkdir()
    (root / "info" / "train_filelist_google.txt").write_text("google/q0001/a b.jpg 1\n")
    (root / "info" / "train_filelist_flickr.txt").write_text("flickr/q0002/c.jpg 0\n")
    (root / "info" / "val_filelist.txt").write_text("val1.jpg 1\n")
    (root / "info" / "synsets.txt").write_text("n01 tench, Tinca tinca\nn02 goldfish\n")
    train, test = (load(f"folder:{root}", split, size=8) for split in ("train", "test"))
    assert (train.labels.tolist(), train.classes) == ([1, 0], ("n01", "n02"))
    assert (test.labels.tolist(), test.classes) == ([1], ("n01", "n02"))


def test_class_folders_without_splits_are_all_train(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    for c in ("n00", "n01"):
        put(tmp_path / "k22" / c / f"{c}_1.JPEG")
    assert load(f"folder:{tmp_path / 'k22'}", size=8).classes == ("n00", "n01")
    with pytest.raises(FileNotFoundError, match="holds no folder 'test'"):
        load(f"folder:{tmp_path / 'k22'}", "test", size=8)


def test_what_a_list_must_not_say(tree):
    def refused(text, words, **options):
        (tree / "l.txt").write_text(text)
        with pytest.raises(ValueError, match=words):
            load(f"folder:{tree}", list="l.txt", size=8, **options)

    refused("", r"l\.txt is damaged: it is empty")
    refused("../x.jpg 0\n", "leads out of the set's folder")
    refused("train/n01/n01_0.JPEG 0\ntrain/n01/n01_1.JPEG\n", "has no label, others have")
    refused("n01/n01_0.JPEG 0\n", "names 1 file of 1 that are not there.*Its paths must begin in")
    refused("train/n01/n01_0.JPEG 0\n" * 2, r"l\.txt is damaged: train/n01/n01_0\.JPEG is in it twice")


def test_a_few_listed_files_may_be_missing(tree, monkeypatch):
    good = "".join(f"train/n0{c}/n0{c}_{i}.JPEG 0\n" for c in (1, 2) for i in range(3))
    (tree / "l.txt").write_text(good + "train/gone.JPEG 0\n")
    with pytest.raises(ValueError, match="names 1 file of 7 that are not there"):
        load(f"folder:{tree}", list="l.txt", size=8)
    monkeypatch.setattr("isotherm.data.sources.lists.ABSENT", 7)
    images = load(f"folder:{tree}", list="l.txt", size=8)
    assert len(images) == 6
    assert "1 file skipped" in images.notes[0]
    with pytest.raises(ValueError, match="names 1 file of 7 that are not there"):
        load(f"folder:{tree}", list="l.txt", size=8, bad="error")
