"""CIFAR in every layout, broken files, and pickles that would run something."""

import io
import json
import os
import pickle
import tarfile

import numpy as np
import pytest

from isotherm.data.catalogue import CIFAR_BATCHES
from isotherm.data.sets import SETS, load
from isotherm.data.sources.cifar import CLASSES
from written import encoded, noise, same


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def cifar_files(name, kind, n=4):
    """The official files of both splits in one form, and what they hold: {split: (pixels, labels, coarse)}."""
    files, told = {}, {}
    for split, batches in CIFAR_BATCHES[name].items():
        parts = []
        for i, batch in enumerate(batches):
            rows = noise(n, 3072, seed=i + 10 * (split == "test"))
            fine = [(i + j) % len(CLASSES[name]) for j in range(n)]
            coarse = [j % 20 for j in fine]
            parts.append((rows, fine, coarse))
            if kind == "python":
                content = {b"data": rows, b"labels": fine}
                if name == "cifar100":
                    content = {b"data": rows, b"fine_labels": fine, b"coarse_labels": coarse}
                files[batch] = pickle.dumps(content, protocol=2)
            else:
                columns = [fine] if name == "cifar10" else [coarse, fine]
                records = np.concatenate([np.array(columns, np.uint8).T, rows], axis=1)
                files[f"{batch}.bin"] = records.tobytes()
        told[split] = (
            np.concatenate([rows for rows, _, _ in parts]).reshape(-1, 3, 32, 32),
            [x for _, fine, _ in parts for x in fine],
            [x for _, _, coarse in parts for x in coarse],
        )
    return files, told


@pytest.mark.parametrize("place", ["archive", "folder", "flat"])
@pytest.mark.parametrize("kind", ["python", "binary"])
@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_official_cifar_files(tmp_path, name, kind, place):
    number = name.removeprefix("cifar")
    inner = f"cifar-{number}-batches-{'py' if kind == 'python' else 'bin'}" if number == "10" else f"cifar-100-{kind}"
    files, told = cifar_files(name, kind)
    folder = tmp_path / name
    folder.mkdir()
    if place == "archive":
        tar(folder / f"cifar-{number}-{kind}.tar.gz", {f"{inner}/{f}": content for f, content in files.items()})
    else:
        target = folder / inner if place == "folder" else folder
        target.mkdir(exist_ok=True)
        for f, content in files.items():
            (target / f).write_bytes(content)
    assert SETS[name].there(tmp_path)
    for split, first_id in (("train", 0), ("test", 50_000)):
        images = load(name, split, root=tmp_path)
        pixels, fine, coarse = told[split]
        same(images, pixels, fine, first_id)
        assert images.classes == CLASSES[name]
        assert {k: v.tolist() for k, v in images.more_labels.items()} == (
            {"coarse_label": coarse} if name == "cifar100" else {}
        )


def write_png_rows(folder, n=3):
    folder.mkdir(exist_ok=True)
    written = noise(6, n, 32, 32, 3)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name, part in zip(names, written, strict=True):
        (folder / f"{name}.png").write_bytes(encoded(part.reshape(n, 1024, 3)))
    (folder / "train_lables.json").write_text(json.dumps([i % 10 for i in range(5 * n)]))
    (folder / "test_lables.json").write_text(json.dumps(list(range(n))))
    return written.transpose(0, 1, 4, 2, 3)


def test_cifar10_as_rows_of_png_files(tmp_path):
    written = write_png_rows(tmp_path / "cifar10")
    same(load("cifar10", root=tmp_path), written[:5].reshape(-1, 3, 32, 32), [i % 10 for i in range(15)])
    same(load("cifar10", "test", root=tmp_path), written[5], [0, 1, 2], first_id=50_000)
    assert SETS["cifar10"].there(tmp_path)


def test_broken_rows_of_png_files_are_named(tmp_path):
    folder = tmp_path / "cifar10"
    write_png_rows(folder)
    good = (folder / "test_batch.png").read_bytes()
    (folder / "test_batch.png").write_bytes(good[:-300])
    with pytest.raises(ValueError, match=r"test_batch\.png is damaged"):
        load("cifar10", "test", root=tmp_path)
    (folder / "test_batch.png").write_bytes(encoded(noise(3, 1000, 3)))
    with pytest.raises(ValueError, match=r"test_batch\.png is damaged: rows of 1024 RGB pixels were wanted"):
        load("cifar10", "test", root=tmp_path)
    (folder / "test_batch.png").write_bytes(good)
    for labels, words in {
        "[0, 1, 11]": "row 2 has 11",
        "[0, 1]": "2 labels for 3",
        "[0": "damaged",
        '["a"]': "whole",
    }.items():
        (folder / "test_lables.json").write_text(labels)
        with pytest.raises(ValueError, match=rf"test_lables\.json.*{words}"):
            load("cifar10", "test", root=tmp_path)
    (folder / "data_batch_3.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no data_batch_3\.png"):
        load("cifar10", root=tmp_path)


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("where_it_hides", ["whole", "label", "key"])
def test_a_malicious_pickle_is_refused_and_nothing_runs(tmp_path, protocol, where_it_hides):
    marker = tmp_path / "ran"
    evil = Evil(os.mkdir, str(marker))
    content = {"whole": evil, "label": {b"data": noise(1, 3072), b"labels": [evil]}, "key": {"data": 1, "x": evil}}
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "test_batch").write_bytes(pickle.dumps(content[where_it_hides], protocol=protocol))
    with pytest.raises(ValueError, match=r"test_batch asks to run \S+; a CIFAR file holds numbers only"):
        load("cifar10", "test", root=tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize("function", [eval, getattr, np.load, np.frombuffer], ids=lambda f: f.__name__)
def test_a_pickle_may_name_nothing_but_arrays(tmp_path, function):
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "test_batch").write_bytes(pickle.dumps(Evil(function, "1")))
    with pytest.raises(ValueError, match="asks to run"):
        load("cifar10", "test", root=tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({b"data": noise(2, 3072), b"labels": [0, 10]}, "row 1 has 10"),
        ({b"data": noise(2, 3072), b"labels": [0]}, "1 labels for 2 images"),
        ({b"data": noise(2, 3072), b"labels": "no"}, "no list of whole numbers 'labels'"),
        ({b"data": noise(2, 3000), b"labels": [0, 1]}, "'data' must be bytes"),
        ({b"data": noise(2, 3072).astype(np.float32), b"labels": [0, 1]}, "'data' must be bytes"),
        ({b"data": np.asfortranarray(noise(2, 3072)), b"labels": [0, 1]}, "row by row"),
        ({b"labels": [0, 1]}, "no array 'data'"),
        ([1, 2], "a dict was wanted"),
    ],
)
def test_a_pickle_of_something_else_is_named(tmp_path, content, words):
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "test_batch").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match=f"test_batch is damaged: .*{words}"):
        load("cifar10", "test", root=tmp_path)


@pytest.mark.parametrize("kind", ["python", "binary"])
def test_truncated_cifar_files_are_named(tmp_path, kind):
    files, _ = cifar_files("cifar100", kind)
    archive = tmp_path / "cifar100" / f"cifar-100-{kind}.tar.gz"
    archive.parent.mkdir()
    tar(archive, {f"x/{f}": content for f, content in files.items()})
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"cifar-100-{kind}\.tar\.gz is damaged"):
        load("cifar100", "test", root=tmp_path)
    tar(archive, {f: content[:-5] for f, content in files.items()})
    with pytest.raises(ValueError, match=rf"cifar-100-{kind}\.tar\.gz, in it test\S*, is damaged"):
        load("cifar100", "test", root=tmp_path)
    tar(archive, {"something": b"else"})
    with pytest.raises(ValueError, match="it holds no test"):
        load("cifar100", "test", root=tmp_path)
    assert os.listdir(tmp_path) == ["cifar100"]
    assert os.listdir(tmp_path / "cifar100") == [archive.name]
