"""A disk that is full, a folder that cannot be written, a clock that jumps back, files deleted under a run.

Full and read-only disks are real ones, small and in memory, where this user may mount them; else these tests skip.
"""

import itertools
import os
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest

from isotherm.cli import main
from isotherm.train.devices import fabric_for
from isotherm.train.loop import Run
from small_runs import SMALL, begun, command, lines, run, same, weights


@contextmanager
def disk(place, *options):
    """A disk in memory, mounted there."""
    place.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(words, check=False).returncode:
        pytest.skip("may not mount a disk in memory")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_ends_a_run_in_a_sentence_and_with_more_room_it_goes_on_to_the_same(tmp_path, capsys):
    run(tmp_path / "whole")
    with disk(tmp_path / "small", "size=64k") as small:
        words = command(small / "a", "--resume", "--quiet", "--checkpoint", "0")
        assert main(words) == 2
        assert "the disk is full" in capsys.readouterr().err
        assert not list((small / "a").glob("*.isotherm-part"))
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
        assert main(words) == 0
        assert same(weights(small / "a"), weights(tmp_path / "whole"))
        assert lines(small / "a")[-1] == lines(tmp_path / "whole")[-1]


@pytest.mark.parametrize("below", ["", "new/folder"], ids=["folder", "parent"])
def test_what_cannot_be_written_is_told_at_once(below, tmp_path, capsys, monkeypatch):
    with disk(tmp_path / "fixed", "ro") as fixed:
        out = fixed / below
        monkeypatch.setenv("ISOTHERM_DATA", str(out))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # the user may have MNIST
        for words in (
            command(out, "--quiet"),
            ["study", "entropy", "--scale", "smoke", "--out", str(out)],
            ["data", "get", "mnist"],
        ):
            assert main(words) == 2, words
            said = capsys.readouterr().err
            assert "Read-only file system" in said, words
            assert "Traceback" not in said


def test_a_clock_that_jumps_back_changes_nothing(tmp_path, monkeypatch):
    run(tmp_path / "whole", monitor=2)
    clock = itertools.count(time.time(), -3600.0)
    monkeypatch.setattr(time, "time", lambda: next(clock))
    run(tmp_path / "back", monitor=2)
    assert same(weights(tmp_path / "back"), weights(tmp_path / "whole"))
    assert lines(tmp_path / "back") == lines(tmp_path / "whole")


@pytest.mark.parametrize("gone", ["metrics.jsonl", "everything"])
def test_files_deleted_under_a_run_end_it_in_a_sentence(gone, tmp_path):
    config, place = begun(tmp_path / "a")
    at_work = Run(fabric_for(config, place), config, place)

    def delete(*_):
        if gone == "everything":
            shutil.rmtree(tmp_path / "a", ignore_errors=True)
        (tmp_path / "a" / gone).unlink(missing_ok=True)

    at_work.progress.step = delete
    with pytest.raises(ValueError, match=r"metrics\.jsonl was deleted under the run"):
        at_work.to_the_end()
    assert not (tmp_path / "a/result.json").exists()


def test_a_checkpoint_deleted_under_a_run_is_written_again(tmp_path):
    run(tmp_path / "whole")
    config, place = begun(tmp_path / "a")
    at_work = Run(fabric_for(config, place), config, place)
    at_work.progress.step = lambda *_: (tmp_path / "a/checkpoint.pt").unlink(missing_ok=True)
    at_work.to_the_end()
    assert same(weights(tmp_path / "a"), weights(tmp_path / "whole"))
    assert main(command(tmp_path / "a", "--resume", settings=SMALL)) == 0
