"""Every reader on small files of its format, on real files where there are some, and on broken ones."""

import gzip
import io
import json
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from isotherm.data import roots
from isotherm.data.sets import IMAGENET100, SETS, load
from isotherm.data.sources.cifar import BATCHES, CLASSES
from written import idx, noise

REAL = Path(os.environ.get("ISOTHERM_DATA") or "/nonexistent")


def same(images, pixels, labels, first_id=0):
    assert images.pixels.dtype == torch.uint8
    assert np.array_equal(images.pixels.numpy(), pixels)
    assert images.labels.tolist() == list(labels)
    assert images.ids.tolist() == list(range(first_id, first_id + len(pixels)))


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def encoded(pixels, form="PNG"):
    """(H, W, C) or (H, W) as the bytes of an image file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


# Where


def test_the_root_is_what_was_given_then_the_environment_then_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "a"))
    assert roots.root() == tmp_path / "a"
    assert roots.root(tmp_path / "b") == tmp_path / "b"
    assert roots.cache() == tmp_path / "a" / "cache"
    monkeypatch.delenv("ISOTHERM_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert roots.root() == tmp_path / "c" / "isotherm" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "d"))
    assert roots.root() == tmp_path / "d" / ".cache" / "isotherm" / "data"


# Digits


def test_digits_are_embedded_and_split_for_good():
    train, test = load("digits"), load("digits", "test")
    assert (len(train), len(test)) == (1437, 360)
    assert train.shape == (1, 8, 8)
    assert int(train.pixels.max()) == 255
    assert sorted(train.ids.tolist() + test.ids.tolist()) == list(range(1797))
    assert test.ids[:5].tolist() == [3, 8, 10, 11, 19]
    assert min(test.counts()) >= 20


# MNIST and Fashion-MNIST


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


# CIFAR


def cifar_files(name, kind, n=4):
    """The official files of both splits in one form, and what they hold: {split: (pixels, labels, coarse)}."""
    files, told = {}, {}
    for split, batches in BATCHES[name].items():
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


# SVHN


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


# STL-10


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
    (folder / "train_y.bin").write_bytes(bytes((1, 0, 11)))
    with pytest.raises(ValueError, match=r"train_y\.bin is damaged: .*\(2 of 3 are out of range\)"):
        load("stl10", root=tmp_path)
    (folder / "train_y.bin").write_bytes(bytes((1, 1)))
    with pytest.raises(ValueError, match="2 labels for 3"):
        load("stl10", root=tmp_path)
    (folder / "train_X.bin").write_bytes(pixels.tobytes()[:-1])
    with pytest.raises(ValueError, match=r"train_X\.bin is damaged: 82,943 bytes are not a whole number of images"):
        load("stl10", root=tmp_path)


# Folders


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    for split, c, n in [("train", "ant", 3), ("train", "bee", 2), ("val", "ant", 1), ("val", "bee", 1)]:
        for i in range(n):
            file = tmp_path / "images" / split / c / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encoded(noise(8, 8, 3, seed=i)))
    return tmp_path / "images"


def test_a_folder_of_class_folders(tree):
    train = load(f"folder:{tree}", size=8)
    assert train.classes == ("ant", "bee")
    assert train.labels.tolist() == [0, 0, 0, 1, 1]
    assert np.array_equal(train.pixels[4].numpy(), noise(8, 8, 3, seed=1).transpose(2, 0, 1))
    assert train.notes == ()
    assert len(load(f"folder:{tree}", "validation", size=8)) == len(load(f"folder:{tree}", "val", size=8)) == 2


def test_a_image_keeps_its_id_when_others_come_and_go(tree):
    before = load(f"folder:{tree}", size=8)
    (tree / "train" / "ant" / "0-.png").write_bytes(encoded(noise(8, 8, 3)))
    (tree / "train" / "ant" / "1.png").unlink()
    after = load(f"folder:{tree}", size=8)
    kept = before.ids[[0, 2, 3, 4]]
    assert after.ids[[0, 2, 3, 4]].tolist() != kept.tolist()
    assert set(kept.tolist()) < set(after.ids.tolist())
    assert len(set(after.ids.tolist())) == 5
    assert not set(after.ids.tolist()) & set(load(f"folder:{tree}", "val", size=8).ids.tolist())


def test_a_folder_is_decoded_once_until_it_changes(tree):
    cache = roots.cache()
    load(f"folder:{tree}", size=8)
    (first,) = cache.iterdir()
    pixels = np.load(first / "pixels.npy")
    np.save(first / "pixels.npy", 255 - pixels)  # what the next one reads is what is cached
    assert np.array_equal(load(f"folder:{tree}", size=8).pixels.numpy(), 255 - pixels)
    os.utime(tree / "train" / "ant" / "0.png", ns=(1, 1))
    assert np.array_equal(load(f"folder:{tree}", size=8).pixels.numpy(), pixels)
    load(f"folder:{tree}", size=4)
    assert len(list(cache.iterdir())) == 3
    elsewhere = tree.parent / "elsewhere"
    load(f"folder:{tree}", size=8, cache=elsewhere)
    assert len(list(elsewhere.iterdir())) == 1


def test_a_damaged_cache_is_named(tree):
    load(f"folder:{tree}", size=8)
    (place,) = roots.cache().iterdir()
    (place / "pixels.npy").write_bytes((place / "pixels.npy").read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"{place.name} is damaged: .* Remove it, it is made again"):
        load(f"folder:{tree}", size=8)


def test_mixed_sizes_and_modes_are_converted_and_counted(tree):
    ant = tree / "train" / "ant"
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 8:16] = 200  # the middle square
    (ant / "wide.png").write_bytes(encoded(wide))
    (ant / "grey.jpg").write_bytes(encoded(np.full((8, 8), 90, np.uint8), "JPEG"))
    (ant / "deep.png").write_bytes(encoded(np.full((8, 8), 90 << 8, np.uint16)))
    Image.fromarray(noise(8, 8, 4)).save(ant / "clear.png")
    Image.new("P", (8, 8)).save(ant / "palette.png", transparency=b"\0\1")
    Image.new("CMYK", (64, 40), (0, 0, 0, 0)).save(ant / "print.jpg")
    train = load(f"folder:{tree}", size=8)
    assert train.notes == (
        "5 images had another mode than RGB: converted",
        "2 images had another size: resized",
    )
    files = sorted(p.name for p in ant.iterdir())
    assert (train.pixels[files.index("wide.png")] == 200).all()
    assert (train.pixels[files.index("deep.png")] == 90).all()
    assert (train.pixels[files.index("print.jpg")] == 255).all()
    assert load(f"folder:{tree}", size=8).notes == train.notes


def test_files_that_are_no_images_are_skipped_and_counted_or_an_error(tree):
    (tree / "train" / "ant" / "list.txt").write_text("0.png")
    (tree / "train" / "ant" / ".hidden").write_text("not counted")
    train = load(f"folder:{tree}", size=8)
    assert len(train) == 5
    assert train.notes == (f"1 file skipped, no image: {tree / 'train' / 'ant' / 'list.txt'}",)
    with pytest.raises(ValueError, match=r"list\.txt is not an image \(1 such file\)"):
        load(f"folder:{tree}", size=8, bad="error")
    (tree / "train" / "ant" / "list.txt").unlink()
    whole = (tree / "train" / "bee" / "0.png").read_bytes()
    (tree / "train" / "bee" / "0.png").write_bytes(whole[:-40])
    train = load(f"folder:{tree}", size=8)
    assert train.labels.tolist() == [0, 0, 0, 1]
    assert np.array_equal(train.pixels[3].numpy(), noise(8, 8, 3, seed=1).transpose(2, 0, 1))
    assert train.notes[0].endswith(str(tree / "train" / "bee" / "0.png"))
    for _ in range(2):  # the second time from the cache
        with pytest.raises(ValueError, match=r"bee/0\.png is not an image that can be decoded .* bad='skip'"):
            load(f"folder:{tree}", size=8, bad="error")
    (tree / "train" / "bee" / "1.png").write_text("nothing")
    with pytest.raises(ValueError, match="train/bee holds no image that can be decoded"):
        load(f"folder:{tree}", size=8)
    assert not [p for p in roots.cache().iterdir() if p.name.startswith(".")]


def test_a_class_folder_without_images_is_named(tree):
    (tree / "train" / "cat").mkdir()
    with pytest.raises(ValueError, match=r"train/cat holds no images\. Fill it or remove it"):
        load(f"folder:{tree}", size=8)


def test_folders_that_are_not_there(tree):
    with pytest.raises(FileNotFoundError, match="there is no folder /no/such"):
        load("folder:/no/such")
    with pytest.raises(FileNotFoundError, match="holds no folder 'test'; it holds: train, val"):
        load(f"folder:{tree}", "test")
    (tree / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no class folders"):
        load(f"folder:{tree}", "empty")


def test_imagenet100_is_a_hundred_folders_of_imagenet(tmp_path):
    assert len(set(IMAGENET100)) == 100
    for split in ("train", "val"):
        for c in (*IMAGENET100, "n00000001"):
            (tmp_path / "imagenet" / split / c).mkdir(parents=True)
            (tmp_path / "imagenet" / split / c / "a.JPEG").write_bytes(encoded(noise(8, 8, 3), "JPEG"))
    hundred = load("imagenet100", "test", root=tmp_path, size=4, cache=tmp_path / "cache")
    assert hundred.classes == IMAGENET100
    assert hundred.labels.tolist() == list(range(100))
    assert len(load("imagenet", root=tmp_path, size=4, cache=tmp_path / "cache")) == 101
    (tmp_path / "imagenet" / "val" / IMAGENET100[7] / "a.JPEG").unlink()
    (tmp_path / "imagenet" / "val" / IMAGENET100[7]).rmdir()
    with pytest.raises(
        FileNotFoundError, match=f"lacks 1 of 100 class folders, such as {IMAGENET100[7]}.*registration"
    ):
        load("imagenet100", "val", root=tmp_path, size=4, cache=tmp_path / "cache")


# Parquet

FEATURES = {
    "image": {"_type": "Image"},
    "fine_label": {"_type": "ClassLabel", "names": ["ant", "bee", "cat"]},
    "coarse_label": {"_type": "ClassLabel", "names": ["insect", "mammal"]},
}


def write_parquet(path, encoded_images, fine=(0, 1, 2, 1), coarse=(0, 0, 1, 0), features=FEATURES, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"image": [{"bytes": p, "path": None} for p in encoded_images], **more}
    if fine is not None:
        columns |= {"fine_label": list(fine), "coarse_label": list(coarse)}
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({k: pa.array(v, image if k == "image" else None) for k, v in columns.items()})
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path, row_group_size=2)


def four(h=8, w=8):
    return noise(4, h, w, 3)


def test_parquet_in_the_hubs_layout(tmp_path):
    pixels = four()
    write_parquet(tmp_path / "set" / "train.parquet", [encoded(p) for p in pixels])
    train = load(f"parquet:{tmp_path / 'set'}")
    same(train, pixels.transpose(0, 3, 1, 2), [0, 1, 2, 1])
    assert train.classes == ("ant", "bee", "cat")
    assert train.more_labels["coarse_label"].tolist() == [0, 0, 1, 0]
    assert train.notes == ()
    other = load(f"parquet:{tmp_path / 'set'}", label="coarse_label")
    assert other.classes == ("insect", "mammal")
    assert other.more_labels["fine_label"].tolist() == [0, 1, 2, 1]
    one = load(f"parquet:{tmp_path / 'set' / 'train.parquet'}")
    assert torch.equal(one.pixels, train.pixels)


def test_parquet_in_shards_counts_rows_through(tmp_path):
    pixels = four()
    for i in range(2):
        write_parquet(tmp_path / "data" / f"test-0000{i}-of-00002.parquet", [encoded(p) for p in pixels])
    test = load(f"parquet:{tmp_path}", "test")
    assert np.array_equal(test.pixels[4:].numpy(), pixels.transpose(0, 3, 1, 2))
    assert (test.ids - test.ids[0]).tolist() == list(range(8))
    assert test.ids[0] > 1 << 31  # far from those of train


def test_parquet_without_labels_or_names(tmp_path):
    pixels = [encoded(p) for p in four()]
    write_parquet(
        tmp_path / "train.parquet", pixels, fine=None, features=None, captions=[["a", "b"]] * 4, n=[5, 6, 7, 8]
    )
    train = load(f"parquet:{tmp_path}")
    assert train.labels.tolist() == [-1] * 4
    assert train.classes == ()
    assert load(f"parquet:{tmp_path}", label="n").labels.tolist() == [5, 6, 7, 8]
    with pytest.raises(ValueError, match="no column of whole numbers 'captions'; it has: n"):
        load(f"parquet:{tmp_path}", label="captions")
    write_parquet(tmp_path / "train.parquet", pixels, fine=(0, None, 1, -1))
    assert load(f"parquet:{tmp_path}").labels.tolist() == [0, -1, 1, -1]


def test_parquet_with_mixed_sizes_and_modes(tmp_path):
    written = [encoded(noise(8, 8, 3)), encoded(noise(8, 8)), encoded(noise(9, 8, 3)), encoded(noise(8, 8, 3))]
    write_parquet(tmp_path / "train.parquet", written)
    with pytest.raises(ValueError, match=r"train\.parquet: the image in row 2 is 9×8, the first is 8×8; say size=N"):
        load(f"parquet:{tmp_path}")
    train = load(f"parquet:{tmp_path}", size=8)
    assert train.shape == (3, 8, 8)
    assert train.notes == (
        "1 image had another mode than RGB: converted",
        "1 image had another size: resized",
    )
    assert load(f"parquet:{tmp_path}", size=4, channels=1).shape == (1, 4, 4)


@pytest.mark.parametrize(
    "bad", [b"no image", None, b"", encoded(noise(8, 8, 3))[:-60]], ids=["text", "null", "empty", "cut"]
)
@pytest.mark.parametrize("row", [0, 3])
def test_a_corrupt_image_in_parquet_is_named_by_its_row(tmp_path, bad, row):
    written = [encoded(p) for p in four()]
    written[row] = bad
    write_parquet(tmp_path / "train.parquet", written)
    with pytest.raises(
        ValueError, match=rf"train\.parquet: the image in row {row} is not an image that can be decoded"
    ):
        load(f"parquet:{tmp_path}")


def test_broken_parquet_files_are_named(tmp_path):
    file = tmp_path / "train.parquet"
    write_parquet(file, [encoded(p) for p in four()], fine=(0, 1, 3, 1))
    with pytest.raises(ValueError, match=r"train\.parquet is damaged: labels must be 0 to 2, row 2 has 3"):
        load(f"parquet:{tmp_path}")
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"train\.parquet is damaged"):
        load(f"parquet:{tmp_path}")
    file.write_bytes(whole[:50] + bytes(200) + whole[250:])
    with pytest.raises(ValueError, match=r"train\.parquet"):
        load(f"parquet:{tmp_path}")
    pq.write_table(pa.table({"text": ["a"]}), file)
    with pytest.raises(ValueError, match=r"train\.parquet has no column image\{bytes, path\}; it has: text"):
        load(f"parquet:{tmp_path}")
    write_parquet(file, [], (), ())
    with pytest.raises(ValueError, match="holds no images"):
        load(f"parquet:{tmp_path}")
    with pytest.raises(FileNotFoundError, match=r"holds no test\.parquet or test-\*\.parquet; its splits are: train"):
        load(f"parquet:{tmp_path}", "test")


# Arrays


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
    np.savez(file, photos=noise(4, 8, 8))
    refused(ValueError, "wanted train_images or x_train or images or x; it has: photos")
    file.write_bytes(file.read_bytes()[:-30])
    refused(ValueError, r"b\.npz is damaged")


# Names


@pytest.mark.parametrize(
    ("name", "settings", "error", "words"),
    [
        ("cifar11", {}, ValueError, "no set 'cifar11'; did you mean 'cifar10'?"),
        ("zzz", {}, ValueError, "no set 'zzz'; there is: digits, k-bit, .*, arrays:PATH"),
        ("digits", {"split": "val"}, ValueError, "digits has no split 'val'; it has: train, test"),
        ("imagenette", {"split": "extra"}, ValueError, "imagenette has no split 'extra'; it has: train, validation"),
        ("imagenette", {"sise": 8}, TypeError, "imagenette has no option 'sise'; did you mean 'size'?"),
        ("digits", {"size": 8}, TypeError, "digits has no option 'size'; it has: none"),
        ("imagenet100", {"classes": ["a"]}, TypeError, "it is part of the set"),
        ("folder:/x", {"bad": "ignore"}, ValueError, "bad must be 'skip' or 'error', got 'ignore'"),
        ("folder:/x", {"size": 0}, ValueError, "size must be 1 or more, got 0"),
        ("parquet:/x", {"channels": 2}, ValueError, "channels must be 1"),
        ("parquet:/x", {}, FileNotFoundError, "there is no file or folder /x"),
    ],
)
def test_wrong_names_and_options(name, settings, error, words):
    with pytest.raises(error, match=words):
        load(name, **settings)


@pytest.mark.parametrize("name", sorted(name for name in SETS if SETS[name].folder))
def test_a_missing_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path, name):
    assert not SETS[name].there(tmp_path)
    advice = rf"`isotherm data get {name}` fetches it; or put" if SETS[name].fetched else "Put"
    with pytest.raises(FileNotFoundError, match=rf"{name} is not in {tmp_path / SETS[name].folder}: .*\. {advice}"):
        load(name, root=tmp_path)


# Real files


@pytest.mark.skipif(not SETS["cifar100"].there(REAL), reason="ISOTHERM_DATA has no cifar100")
def test_the_real_cifar100():
    test = load("cifar100", "test")
    assert test.pixels.shape == (10_000, 3, 32, 32)
    assert set(test.counts()) == {100}
    assert test.classes == CLASSES["cifar100"]
    assert torch.bincount(test.more_labels["coarse_label"]).tolist() == [500] * 20
    mean = test.pixels.double().mean((0, 2, 3)) / 255
    assert torch.allclose(mean, torch.tensor([0.5088, 0.4874, 0.4419]).double(), atol=2e-4)


@pytest.mark.skipif(not SETS["imagenette"].there(REAL), reason="ISOTHERM_DATA has no imagenette")
def test_the_real_imagenette():
    images = load("imagenette", "test", size=32)
    assert images.pixels.shape == (3_925, 3, 32, 32)
    assert len(images.classes) == 10
    assert min(images.counts()) > 350


@pytest.mark.parametrize("name", ["cifar10", "mnist", "fashion-mnist"])
def test_real_sets_fetched_here(name):
    if not SETS[name].there(REAL):
        pytest.skip(f"ISOTHERM_DATA has no {name}")
    for split in ("train", "test"):
        images = load(name, split)
        assert len(images) == SETS[name].images[split]
        assert name == "mnist" or set(images.counts()) == {len(images) // 10}


# What a reviewer found


def test_links_to_nowhere_and_in_circles_bring_no_images(tree):
    before = load(f"folder:{tree}", size=8)
    kind = next(p for p in sorted((tree / "train").iterdir()) if p.is_dir())
    (kind / "broken.png").symlink_to(tree / "nowhere.png")
    (kind / "loop").symlink_to(kind)
    after = load(f"folder:{tree}", size=8)
    assert torch.equal(after.ids, before.ids)
    assert any("broken.png" in note or "skipped" in note for note in after.notes)


def test_wide_pixels_are_brought_to_bytes_or_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    folder = tmp_path / "set" / "train" / "wide"
    folder.mkdir(parents=True)
    gray = noise(8, 8)
    Image.fromarray(gray.astype(np.int32)).save(folder / "a.tiff")
    assert np.array_equal(load(f"folder:{tmp_path / 'set'}", size=8).pixels[0, 0].numpy(), gray)
    Image.fromarray(gray.astype(np.float32) / 255).save(folder / "b.tiff")
    with pytest.raises(ValueError, match="floating-point numbers of an unknown range"):
        load(f"folder:{tmp_path / 'set'}", size=8, bad="error")


def test_labels_that_number_no_classes_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", noise(2, 3, 4, 4))
    np.save(tmp_path / "a_labels.npy", np.array([0, 10**12]))
    with pytest.raises(ValueError, match="labels number the classes from 0"):
        load(f"arrays:{tmp_path / 'a.npy'}")
    np.save(tmp_path / "none.npy", noise(0, 3, 4, 4))
    with pytest.raises(ValueError, match="holds no images"):
        load(f"arrays:{tmp_path / 'none.npy'}")


def test_an_empty_folder_is_not_a_set(tmp_path):
    (tmp_path / "cifar10" / "cifar-10-batches-py").mkdir(parents=True)
    assert not SETS["cifar10"].there(tmp_path)
