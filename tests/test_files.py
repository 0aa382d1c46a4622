"""Files are whole or not there, and whoever has no room for one is told so."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from isotherm import files
from isotherm.train.state import save_checkpoint


def on_a_full_disk(path):
    """Whatever is written to the path next finds no room: the kernel says so, as a full disk does."""
    files.beside(path).symlink_to("/dev/full")


@pytest.mark.parametrize(
    "write",
    [
        lambda path: save_checkpoint(path, {"weights": torch.zeros(1 << 20)}),
        lambda path: files.write_text(path, "short"),
        lambda path: files.write_whole(path, lambda file: np.savez(file, z=np.zeros(1 << 17))),
    ],
    ids=["checkpoint", "text", "arrays"],
)
def test_a_full_disk_is_called_one_and_the_old_file_stays(write, tmp_path):
    path = tmp_path / "file"
    on_a_full_disk(path)
    with pytest.raises(files.DiskFull, match=rf"cannot write {path}: the disk is full\.$"):
        write(path)
    path.write_text("old")
    on_a_full_disk(path)
    with pytest.raises(files.DiskFull, match=r"the disk is full\. The file of before is untouched\.$"):
        write(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_reason_is_never_empty():
    assert files.reason(OSError(errno.EDQUOT, "Disk quota exceeded")) == "the quota of disk space is used up"
    assert files.reason(OSError(errno.EACCES, "Permission denied")) == "Permission denied"
    assert files.reason(RuntimeError()) == "RuntimeError"
    assert files.reason(RuntimeError("first.\nsecond")) == "first"


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_pipe_is_written_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as pool:
        heard = pool.submit((tmp_path / "pipe").read_text)
        files.write_text(tmp_path / "pipe", "through")
        assert heard.result() == "through"
    assert (tmp_path / "pipe").is_fifo()


def test_what_is_read_is_not_written_over(tmp_path):
    path = tmp_path / "z.npy"
    path.touch()
    (tmp_path / "link.npy").symlink_to(path)
    with pytest.raises(ValueError, match="is what is read"):
        files.check_places(json=tmp_path / "link.npy", read=[path])
    with pytest.raises(ValueError, match="cannot both be"):
        files.check_places(tmp_path / "a", tmp_path / "a")
