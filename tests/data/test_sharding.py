"""Shards made of a folder: whole or not there, the same images, gone on with, and read by WebDataset's rules."""

import io
import os
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from isotherm.cli import main
from isotherm.data.sets import load
from isotherm.data.sharding import shard, told
from isotherm.data.shards import open_shards
from written import encoded, noise


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    for split, n in (("train", 12), ("val", 3)):
        for i in range(n):
            file = tmp_path / "images" / split / ("ant", "bee")[i % 2] / f"v1.{i} x%.PNG"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encoded(noise(300, 300, 3, seed=i)))  # 270 KB: four to a megabyte
    return tmp_path / "images"


def test_shards_hold_every_file_as_it_is_with_its_label(tree, tmp_path):
    result = shard(tree, tmp_path / "out", megabytes=1)
    assert (result.images, result.skipped) == (12, ())
    assert (
        result.shards
        == len(list((tmp_path / "out").glob("train-*.tar")))
        == len(list((tmp_path / "out").glob("*.idx")))
    )
    assert result.shards >= 3
    assert (tmp_path / "out" / "classes.txt").read_text() == "ant\nbee\n"
    with tarfile.open(tmp_path / "out" / "train-000000.tar") as tar:
        names = tar.getnames()
        assert names[0].endswith(".PNG")
        assert names[1] == names[0].replace(".PNG", ".cls")
        assert names[0].count(".") == 1  # else its key would end at the first
        assert " " not in names[0]
    folder, shards = load(f"folder:{tree}", size=8, lazy=True), load(f"shards:{tmp_path / 'out'}", size=8)
    by_id = dict(zip(folder.ids.tolist(), range(12), strict=True))
    order = [by_id[i] for i in shards.ids.tolist()]
    assert order != sorted(order)  # shuffled, for those who read one shard after another
    assert shards.labels.tolist() == folder.labels[order].tolist()
    assert shards.classes == folder.classes
    assert f"12 images in {result.shards} shards of 3 MB" in told(result, tmp_path / "out")[0]


def test_sharding_goes_on_where_it_was_stopped(tree, tmp_path):
    out = tmp_path / "out"
    shard(tree, out, megabytes=1)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    (out / "train-000001.idx").unlink()  # stopped between a shard and its index
    (out / "train-000002.tar").unlink()
    stamp = (out / "train-000000.tar").stat().st_mtime_ns
    shard(tree, out, megabytes=1)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert (out / "train-000000.tar").stat().st_mtime_ns == stamp  # what was there is left


def test_a_full_disk_leaves_no_half_shard(tree, tmp_path, monkeypatch):
    def full(self, *rest):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(OSError, match="No space left"):
        shard(tree, tmp_path / "out", megabytes=1)
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"classes.txt", "train.source"}


def test_damaged_images_are_left_out_and_named_when_every_one_is_checked(tree, tmp_path):
    broken = next((tree / "train" / "ant").iterdir())
    broken.write_bytes(broken.read_bytes()[:1000])
    result = shard(tree, tmp_path / "out", check=True)
    assert result.images == 11
    assert result.skipped[0].startswith(f"{broken} is not an image that can be decoded")
    assert "1 image left out" in told(result, tmp_path / "out")[1]
    assert shard(tree, tmp_path / "out", check=True).images == 11


def test_shards_of_other_images_are_not_mixed(tree, tmp_path):
    shard(tree, tmp_path / "out", megabytes=1)
    with pytest.raises(ValueError, match=r"holds train-00000\d\.tar of other images, .* Name another folder"):
        shard(tree, tmp_path / "out", megabytes=100)
    changed = next((tree / "train" / "ant").iterdir())
    before = changed.stat()
    changed.write_bytes(changed.read_bytes()[::-1])
    with pytest.raises(ValueError, match=r"of these before they changed"):
        shard(tree, tmp_path / "out", megabytes=1)
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "out" / "classes.txt").write_text("cat\n")
    with pytest.raises(ValueError, match=r"holds classes\.txt of other images"):
        shard(tree, tmp_path / "out", megabytes=1)


def test_the_command_shards_every_split(tree, tmp_path, capsys):
    assert main(["data", "shard", str(tree), "--out", str(tmp_path / "out")]) == 0
    told_of = capsys.readouterr().out
    assert "train: 12 images in 1 shard" in told_of
    assert "val: 3 images in 1 shard" in told_of
    assert len(load(f"shards:{tmp_path / 'out'}", "test", size=8)) == 3
    assert main(["data", "shard", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def write_tar(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


PNG = encoded(noise(8, 8, 3))


@pytest.mark.parametrize(
    ("label", "options"),
    [
        ({"cls": b"{}\n"}, {}),
        ({"json": b'{"label": {}, "caption": "x"}'}, {}),
        ({"json": b'{"breed": {}}', "cls": b"7"}, {"label": "breed"}),
        ({"txt": b"{}"}, {}),
    ],
)
def test_labels_are_in_cls_json_or_txt(tmp_path, monkeypatch, label, options):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    files = {}
    for i in range(4):
        files[f"{i}.png"] = PNG
        files |= {f"{i}.{e}": content.replace(b"{}", str(3 - i).encode()) for e, content in label.items()}
    path = write_tar(tmp_path / "s.tar", files)
    for _ in range(2):  # the second time out of the cache
        images = load(f"shards:{path}", size=8, **options)
        assert images.labels.tolist() == [3, 2, 1, 0]
        assert images.classes == ("0", "1", "2", "3")


def test_classes_are_folders_or_archives_where_there_are_no_labels(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    write_tar(tmp_path / "f" / "a.tar", {"dog/1.png": PNG, "cat/1.png": PNG})
    folders = load(f"shards:{tmp_path / 'f'}", size=8)
    assert (folders.classes, folders.labels.tolist()) == (("cat", "dog"), [1, 0])
    for c in ("n01", "n02"):  # as ImageNet-22K comes
        write_tar(tmp_path / "k" / f"{c}.tar", {f"{c}_{i}.JPEG": PNG for i in range(2)})
    archives = load(f"shards:{tmp_path / 'k'}", size=8)
    assert (archives.classes, archives.labels.tolist()) == (("n01", "n02"), [0, 0, 1, 1])
    assert len(set(archives.ids.tolist())) == 4
    write_tar(tmp_path / "web" / "0.tar", {"1.png": PNG, "1.txt": b"a caption", "2.json": b"{}"})
    web = load(f"shards:{tmp_path / 'web'}", size=8)
    assert (web.classes, web.labels.tolist()) == ((), [-1])
    assert "1 sample without an image skipped" in web.notes


def test_keys_that_come_again_in_another_shard_are_other_images(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    for i in range(2):
        write_tar(tmp_path / "s" / f"{i}.tar", {"1.png": encoded(noise(8, 8, 3, seed=i)), "1.cls": b"0"})
    images = load(f"shards:{tmp_path / 's'}", size=8)
    assert len(set(images.ids.tolist())) == 2
    pixels = images.at(torch.tensor([1]))[0].numpy()
    assert np.array_equal(pixels, noise(8, 8, 3, seed=1).transpose(2, 0, 1))


def test_a_damaged_image_is_named_with_its_shard(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    path = write_tar(tmp_path / "shard-317.tar", {"0001.jpg": b"broken", "0001.cls": b"0", "0002.jpg": PNG})
    with pytest.warns(RuntimeWarning, match=r"shard-317\.tar: 0001\.jpg is not an image.*gray image stands"):
        load(f"shards:{path}", size=8).at(torch.arange(1))
    with pytest.raises(ValueError, match=r"shard-317\.tar: 0001\.jpg is not an image.*say bad='skip'"):
        load(f"shards:{path}", size=8, bad="error").at(torch.arange(1))


def test_what_is_no_set_of_images_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    only_text = write_tar(tmp_path / "t.tar", {"1.txt": b"words"})
    with pytest.raises(ValueError, match=r"t\.tar holds no images; it has: \.txt"):
        load(f"shards:{only_text}")
    with pytest.raises(FileNotFoundError, match=r"has no split 'test'"):
        load(f"shards:{only_text}", "test")
    bad = write_tar(tmp_path / "b.tar", {"1.png": PNG, "1.cls": b"dog"})
    with pytest.raises(ValueError, match=r"b\.tar: 1\.cls is damaged: a label is a whole number"):
        load(f"shards:{bad}")
    with pytest.raises(ValueError, match="bad must be"):
        load(f"shards:{bad}", bad="maybe")
    assert len(open_shards(bad)) == 1


def test_palette_cmyk_and_16_bit_images_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    gray, files = Image.fromarray(noise(9, 9)), {}
    kinds = {
        "p": gray.convert("P"),
        "c": gray.convert("CMYK"),
        "w": Image.fromarray(noise(9, 9).astype(np.uint16) * 257),
    }
    for name, image in kinds.items():
        out = io.BytesIO()
        image.save(out, "JPEG" if name == "c" else "PNG")
        files[f"{name}.{'jpg' if name == 'c' else 'png'}"] = out.getvalue()
    pixels = load(f"shards:{write_tar(tmp_path / 's.tar', files)}", size=9).at(torch.arange(3))
    for each in pixels.float():
        assert abs(float(each.mean()) - noise(9, 9).mean()) < 4
