"""What an adversary found by reading the code (2026-11-18): results that were wrong without a word, files that were lost."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from isotherm.cli import main
from isotherm.data.pairs import load_pairs
from isotherm.data.sets import load

COLOURS = {"ant": (255, 0, 0), "bee": (0, 255, 0), "cat": (0, 0, 255)}


@pytest.fixture(autouse=True)
def own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)


def picture(name, seed):
    noise = np.random.default_rng(seed).normal(0, 20, (16, 16, 3))
    return Image.fromarray(np.clip(0.7 * np.array(COLOURS[name]) + noise, 0, 255).astype(np.uint8))


def put(folder, names, n):
    for name in names:
        (folder / name).mkdir(parents=True)
        for i in range(n):
            picture(name, i).save(folder / name / f"{i}.png")


def tar(path, keys, **parts):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for i, key in enumerate(keys):
            image = io.BytesIO()
            picture(key.partition("/")[0] if "/" in key else "ant", i).save(image, "PNG")
            for ending, content in {"png": image.getvalue(), **parts}.items():
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


# --- one number for a class in every part


def test_a_class_has_one_number_in_all_parts_of_a_folder(tmp_path, capsys):
    put(tmp_path / "fold/train", ("ant", "bee", "cat"), 20)
    put(tmp_path / "fold/test", ("bee", "cat"), 10)
    (tmp_path / "fold/test/dog").mkdir()
    picture("ant", 0).save(tmp_path / "fold/test/dog/0.png")
    test = load(f"folder:{tmp_path}/fold", "test", size=16)
    assert test.classes == ("ant", "bee", "cat", "dog")
    assert test.labels.tolist() == [1] * 10 + [2] * 10 + [3]
    train = ["train", "--data", "folder:fold", "--data.size", "16", "--steps", "3", "--batch", "20"]
    assert main([*train, "--encoder.widths", "[8]", "--out", "r"]) == 0
    capsys.readouterr()
    for more in ([], ["--on", "folder:fold"]):
        assert main(["evaluate", "r", "--probe", "knn", *more]) == 0
        assert "100.0" in capsys.readouterr().out


def test_a_class_has_one_number_in_all_parts_of_shards_and_lists(tmp_path):
    tar(tmp_path / "s/train-0.tar", [f"{c}/{i}" for c in COLOURS for i in range(2)])
    tar(tmp_path / "s/test-0.tar", [f"{c}/{i}" for c in ("bee", "cat") for i in range(2)])
    test = load(f"shards:{tmp_path}/s", "test", size=16)
    assert (test.classes, test.labels.tolist()) == (("ant", "bee", "cat"), [1, 1, 2, 2])
    put(tmp_path / "l/train", COLOURS, 1)
    put(tmp_path / "l/test", COLOURS, 1)
    (tmp_path / "l/train.txt").write_text("".join(f"train/{c}/0.png\n" for c in COLOURS))
    (tmp_path / "l/test.txt").write_text("test/cat/0.png\n")
    listed = load(f"folder:{tmp_path}/l", "test", list="{split}.txt", size=16)
    assert (listed.classes, listed.labels.tolist()) == (("ant", "bee", "cat"), [2])


def test_a_part_that_is_there_and_damaged_is_not_replaced_by_another(tmp_path, capsys):
    for part in ("train", "val", "test"):
        put(tmp_path / "fold" / part, ("bee", "cat"), 10)
    train = ["train", "--data", "folder:fold", "--data.size", "16", "--steps", "2", "--batch", "20"]
    assert main([*train, "--encoder.widths", "[8]", "--out", "r"]) == 0
    (tmp_path / "fold/test/ant").mkdir()
    capsys.readouterr()
    assert main(["evaluate", "r", "--on", "folder:fold", "--probe", "knn"]) == 2
    assert "test/ant holds no images" in capsys.readouterr().err


def test_shards_of_captions_of_one_part_are_not_another_s(tmp_path):
    tar(tmp_path / "a/cc3m-train-0000.tar", ["t0", "t1", "t2"], txt=b"an ant")
    tar(tmp_path / "a/cc3m-validation-0000.tar", ["v0", "v1"], txt=b"an ant")
    assert len(load_pairs(f"shards:{tmp_path}/a", size=16)) == 3
    assert len(load_pairs(f"shards:{tmp_path}/a", "val", size=16)) == 2
    tar(tmp_path / "b/photos-0000.tar", ["t0"], txt=b"an ant")
    tar(tmp_path / "b/test-0000.tar", ["v0"], txt=b"an ant")
    with pytest.raises(ValueError, match="has no split 'train'"):
        load_pairs(f"shards:{tmp_path}/b", size=16)
    for i in range(2):
        tar(tmp_path / f"c/train-{i}.tar", ["0001", "0002"], txt=b"an ant")
    assert len(load_pairs(f"shards:{tmp_path}/c", size=16).ids.unique()) == 4
