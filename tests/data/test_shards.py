"""Tar shards: their samples are found without reading them, any part is read by its place, damage is named."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from isotherm.data.names import Names
from isotherm.data.shards import expand, open_shards
from isotherm.data.tar_index import Part, scan, write_index


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    return tmp_path / "root" / "cache" / "shards"


def write_tar(path: Path, files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def pairs(first: int, n: int) -> dict[str, bytes]:
    files = {}
    for i in range(first, first + n):
        files[f"{i:04d}.jpg"] = bytes([i]) * (700 + i)
        files[f"{i:04d}.txt"] = f"caption {i}".encode()
    return files


def test_any_part_of_any_sample_is_read_by_its_place(tmp_path: Path) -> None:
    for shard in range(3):
        write_tar(tmp_path / f"s-{shard:03d}.tar", pairs(10 * shard, 4))
    shards = open_shards(str(tmp_path / "s-{000..002}.tar"))
    assert len(shards) == 12
    assert [shards.keys[i] for i in (0, 5, 11)] == ["0000", "0011", "0023"]
    assert shards.read(5, "jpg") == bytes([11]) * 711
    assert shards.read(11, "png", "txt") == b"caption 23"
    assert shards.name(11, "txt") == f"{tmp_path}/s-002.tar: 0023.txt"
    assert shards.has("txt").all()
    assert not shards.has("json").any()


def test_a_sample_may_lack_a_part_and_says_which_it_has(tmp_path: Path) -> None:
    files = {"a/x.JPG": b"1", "a/x.seg.png": b"22", "a/.hidden.txt": b"", "README": b"no", "b/y.png": b"333"}
    shards = open_shards(write_tar(tmp_path / "one.tar", files))
    assert [shards.keys[i] for i in range(len(shards))] == ["a/x", "b/y"]
    assert shards.read(0, "jpg") == b"1"  # extensions are compared in lower case
    assert shards.read(0, "seg.png") == b"22"
    assert shards.has("jpg").tolist() == [True, False]
    with pytest.raises(ValueError, match=r"one\.tar: sample 'b/y' has no \.jpg or \.jpeg; it has: \.png\."):
        shards.read(1, "jpg", "jpeg")


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_kind_of_tar_is_read(tmp_path: Path, form: int) -> None:
    folder = "a-long-folder-name/" * 5 if form == tarfile.USTAR_FORMAT else "å-long-folder/" * 20
    shards = open_shards(write_tar(tmp_path / "one.tar", {f"{folder}x.jpg": b"image", f"{folder}x.txt": b"t"}, form))
    assert (shards.keys[0], shards.read(0, "jpg")) == (f"{folder}x", b"image")


def test_the_heads_are_looked_through_once(tmp_path: Path, own_cache: Path) -> None:
    path = write_tar(tmp_path / "one.tar", pairs(0, 3))
    first = open_shards(path)
    (kept,) = own_cache.glob("one-*.idx")
    assert kept.read_text().startswith("v1.2 3\njpg 512 700 0000.jpg txt ")
    kept.write_text(kept.read_text().replace("0001.", "renamed."))  # what is read now is the index
    again = open_shards(path)
    assert (first.keys[1], again.keys[1]) == ("0001", "renamed")
    assert again.read(1, "jpg") == first.read(1, "jpg")


def test_an_index_beside_the_shard_is_used_and_checked_when_a_part_is_read(tmp_path: Path, own_cache: Path) -> None:
    path = write_tar(tmp_path / "one.tar", pairs(0, 2))
    samples = list(scan(path))
    write_index(tmp_path / "one.idx", samples)
    assert open_shards(path).read(1, "txt") == b"caption 1"
    assert not own_cache.exists()
    write_index(tmp_path / "one.idx", [[part._replace(size=part.size - 1) for part in parts] for parts in samples])
    with pytest.raises(ValueError, match=r"one\.tar and its index disagree at byte 512"):
        open_shards(path).read(0, "jpg")
    (tmp_path / "one.idx").write_text("nonsense\n")
    with pytest.raises(ValueError, match=r"one\.idx is no index of a shard"):
        open_shards(path)


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("indexed", [False, True])
def test_a_shard_that_ends_early_is_refused_by_name(tmp_path: Path, keep: float, indexed: bool) -> None:
    path = write_tar(tmp_path / "shard-317.tar", pairs(1, 20))
    if indexed:
        write_index(tmp_path / "shard-317.idx", scan(path))
    last = list(scan(path))[-1][-1]
    os.truncate(path, int((last.start + last.size) * keep))
    with pytest.raises(ValueError, match=r"shard-317\.tar .*ends early.*Copy it again, or leave it out"):
        open_shards(path)


def test_a_shard_cut_between_two_files_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "shard-317.tar", pairs(1, 5))
    last = list(scan(path))[3][0]
    os.truncate(path, last.start - 512)  # every file before is whole: only the end is missing
    with pytest.raises(ValueError, match=r"shard-317\.tar ends early, at byte"):
        open_shards(path)


def test_a_shard_damaged_in_its_middle_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "one.tar", pairs(1, 5))
    with path.open("r+b") as file:
        file.seek(list(scan(path))[2][0].start - 512)
        file.write(b"\xff" * 512)
    with pytest.raises(ValueError, match=r"one\.tar is damaged"):
        open_shards(path)


def test_a_shard_changed_in_use_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "one.tar", pairs(0, 3))
    shards = open_shards(path)
    write_tar(path, pairs(1, 3))
    os.utime(path, (1, 1))
    with pytest.raises(ValueError, match=r"one\.tar was changed while it was in use"):
        shards.read(0, "jpg")


def test_what_cannot_be_a_set_of_shards_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "one.tar", pairs(0, 2))
    with pytest.raises(ValueError, match=r"one\.tar is listed twice"):
        open_shards([path, tmp_path / ".." / tmp_path.name / "one.tar"])
    with pytest.raises(FileNotFoundError, match=r"there is no shard .*two\.tar"):
        open_shards(str(tmp_path / "{one,two}.tar"))
    with pytest.raises(ValueError, match=r"is packed.*Unpack it"):
        open_shards(tmp_path / "one.tar.gz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="holds no shards"):
        open_shards(tmp_path / "empty")
    with pytest.raises(ValueError, match="holds no files"):
        open_shards(write_tar(tmp_path / "nothing.tar", {}))
    with pytest.raises(ValueError, match=r"holds \./1\.jpg twice"):
        open_shards(write_tar(tmp_path / "twice.tar", {"1.jpg": b"", "./1.jpg": b""}))
    with pytest.raises(ValueError, match=r"sample '1' do not lie together"):
        open_shards(write_tar(tmp_path / "apart.tar", {"1.jpg": b"", "2.jpg": b"", "1.txt": b""}))
    (tmp_path / "no.tar").write_bytes(b"not a tar at all" * 100)
    with pytest.raises(ValueError, match=r"no\.tar is damaged"):
        open_shards(tmp_path / "no.tar")


def test_braces_stand_for_names() -> None:
    assert expand("a.tar") == ["a.tar"]
    assert expand("s-{008..011}.tar") == ["s-008.tar", "s-009.tar", "s-010.tar", "s-011.tar"]
    assert expand("{8..10}") == ["8", "9", "10"]
    assert expand("{train,val}-{0..1}") == ["train-0", "train-1", "val-0", "val-1"]
    with pytest.raises(ValueError, match=r"\{9\.\.1\} must count up"):
        expand("{9..1}")
    with pytest.raises(ValueError, match="to 1,000,000 shards at most"):
        expand("{0..99999999999}")
    with pytest.raises(ValueError, match=r"\{x\} in s-\{x\} is no range"):
        expand("s-{x}")


def test_progress_is_told_shard_by_shard(tmp_path: Path) -> None:
    for i in range(3):
        write_tar(tmp_path / f"{i}.tar", pairs(i, 1))
    heard: list[tuple[int, int]] = []
    open_shards(tmp_path, lambda done, of: heard.append((done, of)))
    assert heard == [(1, 3), (2, 3), (3, 3)]


def test_names_are_kept_as_bytes() -> None:
    names = Names(["a", "", "ü/ß", "b\udcff"])
    assert [names[i] for i in range(4)] == ["a", "", "ü/ß", "b\udcff"]
    joined = Names.join([names, Names([]), Names(["z"])])
    assert [joined[i] for i in range(len(joined))] == ["a", "", "ü/ß", "b\udcff", "z"]
    with pytest.raises(IndexError):
        joined[5]


def test_looking_for_samples_needs_no_torch() -> None:
    script = "import sys, isotherm.data.shards; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_places_are_numbers_not_objects(tmp_path: Path) -> None:
    shards = open_shards(write_tar(tmp_path / "one.tar", pairs(0, 3)))
    assert shards.parts["jpg"].starts.dtype == np.int64
    assert isinstance(next(iter(scan(tmp_path / "one.tar")))[0], Part)
