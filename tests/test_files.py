"""Files are whole or not there, and whoever has no room for one is told so."""

import errno

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
