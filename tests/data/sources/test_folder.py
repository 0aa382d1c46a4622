"""Folders of class folders: what comes and goes, what is no image, what is cached."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

from isotherm.data import roots
from isotherm.data.catalogue import IMAGENET100
from isotherm.data.sets import load
from written import encoded, noise


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


def test_links_to_nowhere_and_in_circles_bring_no_images(tree):
    before = load(f"folder:{tree}", size=8)
    kind = next(p for p in sorted((tree / "train").iterdir()) if p.is_dir())
    (kind / "broken.png").symlink_to(tree / "nowhere.png")
    (kind / "loop").symlink_to(kind)
    after = load(f"folder:{tree}", size=8)
    assert torch.equal(after.ids, before.ids)
    assert any("broken.png" in note or "skipped" in note for note in after.notes)


@pytest.mark.parametrize("leads", ["up", "to another class", "out of the set", "within"])
def test_a_link_to_a_folder_brings_no_images_of_another_class(tree, leads):
    before = load(f"folder:{tree}", size=8)
    (tree / "train" / "bee" / "young").mkdir()
    target = {
        "up": tree / "train",
        "to another class": tree / "train" / "ant",
        "out of the set": tree / "val" / "ant",
        "within": tree / "train" / "bee" / "young",
    }[leads]
    (tree / "train" / "bee" / "link").symlink_to(target)
    after = load(f"folder:{tree}", size=8)
    assert torch.equal(after.ids, before.ids)
    assert torch.equal(after.labels, before.labels)
    assert after.notes == (f"1 link to a folder not followed: {tree / 'train' / 'bee' / 'link'}",)


def test_a_class_folder_may_be_a_link_but_not_to_all_classes(tree):
    (tree / "train" / "cat").symlink_to(tree / "val" / "ant")
    assert load(f"folder:{tree}", size=8).labels.tolist() == [0, 0, 0, 1, 1, 2]
    (tree / "train" / "dog").symlink_to(tree)
    with pytest.raises(ValueError, match="train/dog is a link to the folder of all classes, or above it"):
        load(f"folder:{tree}", size=8)


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


def test_a_cache_larger_than_the_disk_is_refused_before_it_is_written(tree):
    with pytest.raises(OSError, match=r"has no room for 5 images of 3000000×3000000: they take 125,728.5 GiB"):
        load(f"folder:{tree}", lazy=False, size=3_000_000)
