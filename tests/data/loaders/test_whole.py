"""Batches cropped from whole images: the same for any number of processes and after a kill; damage is named."""

import io
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

from isotherm.data import imbalance, probing
from isotherm.data.decoding.crops import TRIES, Crop, take_crops
from isotherm.data.decoding.decoders import Decoders, processes
from isotherm.data.loaders.images import Loader
from isotherm.data.loaders.whole import WholeImages
from isotherm.data.sets import load
from isotherm.data.sharding import shard
from isotherm.data.undecoded import Undecoded
from isotherm.views import multi_crop, recipe
from written import noise


def picture(seed):
    out = io.BytesIO()
    coarse = Image.fromarray(noise(5, 7, 3, seed=seed))
    coarse.resize((70 + seed, 50 + 2 * seed), Image.Resampling.BICUBIC).save(out, "JPEG", quality=95)
    return out.getvalue()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    monkeypatch.setenv("ISOTHERM_WORKERS", "2")
    for i in range(22):
        file = tmp_path / "images" / "train" / ("ant", "bee")[i % 2] / f"{i:02d}.JPEG"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(i))
    return tmp_path / "images"


def small(views=2):
    return recipe("simclr", views, size=24)


def batches(images, start=0, epoch=3, **how):
    loader = Loader(images, how.pop("recipe", small()), how.pop("batch", 8), seed=5, **how)
    return list(loader.epoch(epoch, start))


def same(one, other):
    return all(
        torch.equal(a.labels, b.labels)
        and torch.equal(a.indices, b.indices)
        and all(torch.equal(x, y) for x, y in zip(a.views, b.views, strict=True))
        for a, b in zip(one, other, strict=True)
    )


def test_a_lazy_set_has_the_ids_labels_and_squares_of_the_decoded_one(tree):
    lazy, decoded = load(f"folder:{tree}", size=16, lazy=True), load(f"folder:{tree}", size=16)
    assert isinstance(lazy.pixels, Undecoded)
    assert lazy.shape == decoded.shape == (3, 16, 16)
    assert torch.equal(lazy.ids, decoded.ids)
    assert torch.equal(lazy.labels, decoded.labels)
    assert lazy.classes == decoded.classes == ("ant", "bee")
    index = torch.tensor([3, 0, 20])
    assert torch.equal(lazy.at(index), decoded.at(index))
    part = imbalance.fraction(lazy, 7, seed=1)
    assert isinstance(part.pixels, Undecoded)
    assert torch.equal(part.at(torch.arange(7)), imbalance.fraction(decoded, 7, seed=1).at(torch.arange(7)))


def test_a_set_stays_in_its_files_when_it_is_large(tree, monkeypatch):
    assert isinstance(load(f"folder:{tree}", size=16).pixels, torch.Tensor)
    monkeypatch.setattr("isotherm.data.sources.folder.LARGE", 22 * 3 * 16 * 16 - 1)
    assert isinstance(load(f"folder:{tree}", size=16).pixels, Undecoded)
    assert isinstance(load(f"folder:{tree}", size=16, lazy=False).pixels, torch.Tensor)


def test_views_are_crops_of_the_whole_image_and_then_the_recipes(tree):
    images, how = load(f"folder:{tree}", size=16, lazy=True), small()
    (first, *_) = batches(images, recipe=how)
    ids = images.ids[first.indices]
    numbers = how.crop_numbers(ids, TRIES, seed=5, epoch=3).numpy()
    files = sorted(tree.glob("train/*/*.JPEG"), key=lambda f: f.relative_to(tree).as_posix())
    crops = tuple(Crop(24, v.scale, v.ratio, v.flip) for v in how.views)
    taken = [take_crops(files[i].read_bytes(), crops, u) for i, u in zip(first.indices.tolist(), numbers, strict=True)]
    stacked = [torch.from_numpy(np.stack([each[v] for each in taken])).contiguous() for v in range(2)]
    wanted = how.from_crops(stacked, ids, seed=5, epoch=3)
    assert all(torch.equal(a, b) for a, b in zip(first.views, wanted, strict=True))
    assert not torch.equal(first.views[0], first.views[1])
    assert first.labels.tolist() == [images.labels[i] for i in first.indices.tolist()]


def test_an_image_as_large_as_its_view_gives_the_views_of_the_decoded_set(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    for i in range(4):
        (tmp_path / "s" / "train" / "c").mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(24, 24, 3, seed=i)).save(tmp_path / "s" / "train" / "c" / f"{i}.png")
    from dataclasses import replace  # noqa: PLC0415

    how = small()
    how = replace(how, views=tuple(replace(v, scale=(1.0, 1.0), ratio=(1.0, 1.0)) for v in how.views))
    lazy, decoded = (load(f"folder:{tmp_path / 's'}", size=24, lazy=lazy) for lazy in (True, False))
    for one, other in zip(batches(lazy, recipe=how, batch=4), batches(decoded, recipe=how, batch=4), strict=True):
        for a, b in zip(one.views, other.views, strict=True):
            assert torch.allclose(a, b, atol=2e-6)  # the same crop, colours, blur and flip by another sum


@pytest.mark.parametrize("workers", ["1", "3"])
def test_how_many_processes_decode_changes_nothing(tree, monkeypatch, workers):
    images = load(f"folder:{tree}", size=16, lazy=True)
    two = batches(images)
    monkeypatch.setenv("ISOTHERM_WORKERS", workers)
    assert same(two, batches(images))
    assert same(two, batches(images, prefetch=0))


def test_an_epoch_goes_on_from_any_batch_and_its_shares_make_it_up(tree):
    images = load(f"folder:{tree}", size=16, lazy=True)
    whole = batches(images, drop_last=False)
    assert len(whole) == 3
    assert same(whole[1:], batches(images, start=1, drop_last=False))
    shares = [batches(images, rank=rank, world=3, drop_last=False) for rank in range(3)]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert torch.equal(batch.indices, torch.cat([part.indices for part in parts]))
        joined = torch.cat([part.views[1] for part in parts])
        assert torch.allclose(batch.views[1], joined, atol=1e-6)  # blur is summed in batches of another size


def test_shards_give_the_batches_of_the_folder_they_were_made_of(tree, tmp_path):
    shard(tree, tmp_path / "shards")
    folder, shards = load(f"folder:{tree}", size=16, lazy=True), load(f"shards:{tmp_path / 'shards'}", size=16)
    assert sorted(folder.ids.tolist()) == sorted(shards.ids.tolist())
    for a, b in zip(batches(folder), batches(shards), strict=True):
        assert torch.equal(a.labels, b.labels)
        assert torch.equal(folder.ids[a.indices], shards.ids[b.indices])
        assert all(torch.equal(x, y) for x, y in zip(a.views, b.views, strict=True))


def test_small_crops_come_from_the_whole_image_too(tree):
    images = load(f"folder:{tree}", size=16, lazy=True)
    (batch, *_) = batches(images, recipe=multi_crop(small(), 24, 3, 10))
    assert [tuple(view.shape) for view in batch.views] == [(8, 3, 24, 24)] * 2 + [(8, 3, 10, 10)] * 3


def test_what_is_pasted_on_images_is_pasted_on_their_squares(tree):
    lazy, decoded = (load(f"folder:{tree}", size=32, lazy=lazy) for lazy in (True, False))
    digits = load("digits")
    one, other = (batches(probing.digits_on_images(i, digits, 3)) for i in (lazy, decoded))
    assert same(one, other)
    bits = batches(probing.randbit(lazy, 2))
    assert bits[0].views[0].shape[1] == 5


def test_a_damaged_image_is_named_and_others_stand_in_for_it(tree):
    images = load(f"folder:{tree}", size=16, lazy=True)
    before = batches(images, batch=11)
    broken = tree / "train" / "ant" / "04.JPEG"
    broken.write_bytes(picture(4)[:300])
    index = sorted(tree.glob("train/*/*.JPEG")).index(broken)
    with pytest.warns(RuntimeWarning, match=r"ant/04\.JPEG is not an image .*others stand in for it \(1 such image"):
        after = batches(images, batch=11)
    changed = [
        (i, j)
        for i, (a, b) in enumerate(zip(before, after, strict=True))
        for j in range(11)
        if a.indices[j] != b.indices[j]
    ]
    (where,) = [(i, b.indices.tolist().index(index)) for i, b in enumerate(before) if index in b.indices.tolist()]
    assert changed == [where]
    stand_in = int(after[where[0]].indices[where[1]])
    assert after[where[0]].labels[where[1]] == images.labels[stand_in]
    assert same(after, batches(images, batch=11))  # the same again, and not told again
    refused = load(f"folder:{tree}", size=16, lazy=True, bad="error")
    with pytest.raises(ValueError, match=r"ant/04\.JPEG is not an image that can be decoded .*say bad='skip'"):
        batches(refused, batch=11)
    with pytest.warns(RuntimeWarning, match="a gray image stands in its place"):
        gray = load(f"folder:{tree}", size=16, lazy=True).at(torch.tensor([index]))
    assert gray.unique().tolist() == [128]


def test_a_set_of_nothing_but_damaged_images_is_refused(tree):
    images = load(f"folder:{tree}", size=16, lazy=True)
    for file in tree.glob("train/*/*"):
        file.write_bytes(b"nothing")
    with pytest.warns(RuntimeWarning), pytest.raises(ValueError, match="and so 10 others in its place"):
        batches(images)


def test_a_process_that_is_killed_is_told_and_another_takes_its_place(tree):
    images = load(f"folder:{tree}", size=16, lazy=True)
    wanted = batches(images, batch=2)
    source = WholeImages(images, small(), 5, 3, most=2, ahead=1)
    with source:
        crops = source.batches(iter([batch.indices for batch in wanted]))
        next(crops)
        for pid in source.pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.warns(RuntimeWarning, match=r"killed by signal 9 \(SIGKILL\), as the kernel does when memory runs"):
            rest = [(indices, [c.clone() for c in views]) for indices, views in crops]
        pids = source.pids
    assert len(rest) == len(wanted) - 1
    for (indices, views), batch in zip(rest, wanted[1:], strict=True):
        ids = images.ids[indices]
        ours = small().from_crops(views, ids, seed=5, epoch=3)
        assert all(torch.equal(a, b) for a, b in zip(ours, batch.views, strict=True))
    for pid in pids:  # and none is left behind
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_image_that_kills_every_process_is_refused(tree, monkeypatch):
    images = load(f"folder:{tree}", size=16, lazy=True)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setattr("isotherm.data.decoding.decoders.sys.executable", "/bin/false")
    with pytest.warns(RuntimeWarning, match="exit code 1"), pytest.raises(RuntimeError, match="3 processes one after"):
        batches(images)


def test_processes_end_with_an_epoch_that_is_left(tree):
    images = load(f"folder:{tree}", size=16, lazy=True)
    epoch = Loader(images, small(), 4, seed=5).epoch(0)
    next(epoch)
    epoch.close()
    deadline = time.monotonic() + 20
    while any(t.name.startswith("isotherm-") for t in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [t for t in threading.enumerate() if t.name.startswith("isotherm-")]


def test_memory_is_that_of_the_batches_under_way(tree):
    images = load(f"folder:{tree}", size=16, lazy=True)
    with WholeImages(images, small(), 5, 3, most=4, ahead=2) as source:
        assert source._decoders.memory.nbytes == 3 * 4 * 2 * 3 * 24 * 24
    with pytest.raises(MemoryError, match=r"ahead take 1,099,511,627,776 MB of memory.*Use a smaller batch"):
        Decoders(1, 1 << 60)


def test_how_many_processes_decode(monkeypatch):
    monkeypatch.delenv("ISOTHERM_WORKERS", raising=False)
    cores = len(os.sched_getaffinity(0))
    assert processes() == cores
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(2 * cores))
    assert processes() == 1
    monkeypatch.setenv("ISOTHERM_WORKERS", "many")
    with pytest.raises(ValueError, match="ISOTHERM_WORKERS is how many processes decode"):
        processes()
