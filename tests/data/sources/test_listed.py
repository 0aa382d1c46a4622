"""The medical sets as they are published, and VOC's classification: small files in the same layout."""

import json

import numpy as np
import pytest
from PIL import Image

from isotherm.data.sets import load
from isotherm.data.sources.voc_labels import CLASSES
from isotherm.probes.tasks import CLASS_WEIGHTS, shows_several, task_of


def image(path, value, size=(20, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), value, np.uint8)).save(path)


def mura(root):
    lines = {"train": [], "valid": []}
    for split, n in (("train", 3), ("valid", 2)):
        for i in range(n):
            kind = "positive" if i % 2 else "negative"
            path = f"MURA-v1.1/{split}/XR_WRIST/patient{i:05}/study1_{kind}/image1.png"
            image(root / path, 40 * i)
            lines[split].append(path)
        (root / f"MURA-v1.1/{split}_image_paths.csv").write_text("\n".join(lines[split]) + "\n")
    return [0, 1, 0], [0, 1]


def isic2016(root):
    for part, said in (("Training", ["benign", "malignant", "benign"]), ("Test", ["0.0", "1.0"])):
        rows = [(f"ISIC_{i:07}", label) for i, label in enumerate(said)]
        for name, _ in rows:
            image(root / f"ISBI2016_ISIC_Part3_{part}_Data" / f"{name}.jpg", 99)
        lines = "\n".join(",".join(row) for row in rows)
        (root / f"ISBI2016_ISIC_Part3_{part}_GroundTruth.csv").write_text(lines)
    return [0, 1, 0], [0, 1]


def mhist(root):
    rows = [("a.png", "SSA", "6", "train"), ("b.png", "HP", "1", "test"), ("c.png", "HP", "2", "train")]
    for name, *_ in rows:
        image(root / "images" / name, 7)
    head = "Image Name,Majority Vote Label,Number of Annotators who Selected SSA (Out of 7),Partition"
    (root / "annotations.csv").write_text("\n".join([head, *(",".join(row) for row in rows)]))
    return [1, 0], [0]


def chaoyang(root):
    for split, labels in (("train", [3, 0, 2]), ("test", [1])):
        rows = [{"name": f"{split}/{i}-IMG.JPG", "label": label} for i, label in enumerate(labels)]
        for row in rows:
            image(root / row["name"], 50)
        (root / f"{split}.json").write_text(json.dumps(rows))
    return [3, 0, 2], [1]


WRITERS = {"mura": mura, "isic2016": isic2016, "mhist": mhist, "chaoyang": chaoyang}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("name", WRITERS)
def test_a_medical_set_is_read_as_it_is_published(name, root):
    train, test = WRITERS[name](root / name)
    read = load(name, size=16)
    assert read.shape == (3, 16, 16)
    assert read.labels.tolist() == train
    assert load(name, "test", size=16).labels.tolist() == test
    assert len(read.classes) == len(CLASS_WEIGHTS[name])
    assert len(set(read.ids.tolist())) == len(read)


def test_listed_files_that_are_not_there_are_counted(root):
    mhist(root / "mhist")
    (root / "mhist/images/a.png").unlink()
    assert any("1 listed file skipped" in note for note in load("mhist", size=8).notes)
    with pytest.raises(FileNotFoundError, match="is listed and not there"):
        load("mhist", size=8, bad="error")


@pytest.mark.parametrize(
    ("name", "file", "text", "said"),
    [
        ("mhist", "annotations.csv", "Image Name,Partition\na.png,train\n", "columns"),
        ("mhist", "annotations.csv", "a,b,c,d\n1,2,3,4\n", "needs the columns Image Name"),
        ("isic2016", "ISBI2016_ISIC_Part3_Training_GroundTruth.csv", "ISIC_0000000,perhaps\n", "benign or malignant"),
        ("chaoyang", "train.json", "{}x", "a list of"),
        ("mura", "MURA-v1.1/train_image_paths.csv", "MURA-v1.1/train/a/b.png\n", "must end in _positive or _negative"),
    ],
)
def test_a_damaged_list_is_told_in_a_sentence(name, file, text, said, root):
    WRITERS[name](root / name)
    (root / name / file).write_text(text)
    with pytest.raises(ValueError, match=said):
        load(name, size=8)


def voc(root):
    folder = root / "VOCdevkit/VOC2007"
    marks = {"000001": "1", "000002": "-1", "000003": "0"}
    for split in ("train", "test"):
        for c in CLASSES:
            lines = [f"{n} {m if c == 'dog' else ' 1' if c == 'person' else '-1'}" for n, m in marks.items()]
            (folder / "ImageSets/Main").mkdir(parents=True, exist_ok=True)
            (folder / f"ImageSets/Main/{c}_{split}.txt").write_text("\n".join(lines))
    for name in marks:
        image(folder / f"JPEGImages/{name}.jpg", 9)


def test_voc_shows_several_classes_and_says_what_is_too_difficult(root):
    voc(root / "voc2007")
    read = load("voc2007", size=8)
    assert read.more_labels["dog"].tolist() == [1, 0, -1]
    assert read.more_labels["person"].tolist() == [1, 1, 1]
    assert shows_several(read)
    assert task_of(read, load("voc2007", "test", size=8)).outputs == 20
    (root / "voc2007/VOCdevkit/VOC2007/ImageSets/Main/cat_train.txt").write_text("000001 yes")
    with pytest.raises(ValueError, match="an image and 1, 0 or -1"):
        load("voc2007", size=8)
