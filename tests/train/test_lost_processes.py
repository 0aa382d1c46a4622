"""One of several processes dies, falls silent, gets stuck, raises, or was given something else than the others.

Nobody looks after them, as torchrun would: each must end by itself, in one sentence that names the right one.
"""

import fcntl
import os
import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import processes
from isotherm.train.commandline import configure
from isotherm.train.loop import WAIT
from isotherm.train.modality import first_run
from isotherm.train.names import LOCK
from small_runs import SMALL, command, wait_for_steps
from small_text import QUICK

pytest_plugins = ("small_text",)
pytestmark = pytest.mark.slow

SILENCE = 4.0
LONG = {**SMALL, "epochs": 4000, "lr": 0.01}
WORDS = ("--checkpoint", "0", "--log_every", "1", "--device", "cpu", "--quiet", "true", "--silence", str(SILENCE))
LATE = 60
"""Seconds in which all must have ended, of a machine that may be busy. The time-out is half an hour."""


@contextmanager
def several(words, folders, environment=()):
    """Processes that train together, each in its folder; none is left in the end."""
    place = {"WORLD_SIZE": str(len(folders)), "LOCAL_WORLD_SIZE": str(len(folders)), "MASTER_ADDR": "127.0.0.1"}
    place |= {"MASTER_PORT": str(20000 + (os.getpid() * 7 + time.monotonic_ns()) % 20000), "GROUP_RANK": "0"}
    place |= {"TORCHELASTIC_RUN_ID": "test", **dict(environment)}
    words = words if callable(words) else lambda _, same=words: same
    all_of_them = [
        processes.Command(words(rank), environment=place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, folder=folder)
        for rank, folder in enumerate(folders)
    ]
    try:
        yield all_of_them
    finally:
        for process in all_of_them:
            process.kill()
            process.said.unlink(missing_ok=True)


def sentence(process, code):
    """The one that it ended with."""
    ended, said = process.wait(LATE)
    assert ended == code, said
    (line,) = [line for line in said.splitlines() if line.startswith("isotherm: ")]
    assert "Traceback" not in said
    return line


@pytest.mark.parametrize(
    ("how", "lost", "named"),
    [
        (signal.SIGKILL, 1, "process 1 has given no sign of life for "),
        (signal.SIGSTOP, 2, "process 2 has given no sign of life for "),
        (signal.SIGSTOP, 0, "process 0, where the processes meet (its last sign: "),
    ],
    ids=["killed", "stopped", "first stopped"],
)
def test_a_process_that_is_lost_ends_the_others_which_name_it(how, lost, named, tmp_path):
    with several(command(tmp_path / "a", *WORDS, settings=LONG), [tmp_path] * 3) as all_of_them:
        wait_for_steps(tmp_path / "a", 3, all_of_them[0])
        all_of_them[lost].send_signal(how)
        for rank in {0, 1, 2} - {lost}:
            line = sentence(all_of_them[rank], 1)
            assert f"process {rank} of 3: {named}" in line
            assert "--resume" in line
    assert torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)["step"] >= 2


FAILS = """
import os, time
from isotherm.nn import NTXentLoss
from isotherm.world import presence

class Fails(NTXentLoss):
    calls = 0

    def per_query(self, pairs):
        Fails.calls += 1
        if os.environ["RANK"] == "1" and Fails.calls == 4:
            self.fail()
        return super().per_query(pairs)

class Raises(Fails):
    def fail(self):
        raise RuntimeError("the camera is unplugged\\nand more")

class Measures(Fails):
    def fail(self):
        presence.doing("measuring")  # which takes as long as it takes
        time.sleep(1000)

class Sticks(Fails):
    def fail(self):
        while True:
            time.sleep(0.1)
"""


@pytest.mark.parametrize("steps_are", ["Raises", "Sticks", "Measures"])
def test_a_process_that_raises_or_is_stuck_ends_the_other_which_says_who_and_what(steps_are, tmp_path):
    (tmp_path / "mine.py").write_text(FAILS)
    settings = {**LONG, "loss": f"{tmp_path}/mine.py:{steps_are}"}
    words = command(tmp_path / "a", *WORDS, "--timeout", "5" if steps_are == "Measures" else "1800", settings=settings)
    with several(words, [tmp_path] * 2) as (first, second):
        line = sentence(first, 1)
        if steps_are == "Raises":
            assert "process 0 of 2: process 1 has ended, and said: RuntimeError: the camera is unplugged." in line
            assert "the camera is unplugged" in second.wait(LATE)[1]
        elif steps_are == "Measures":
            late = "the others wait for process 1 (measuring), which lives but does not come"
            assert f"process 0 of 2: {late}" in line
            assert f"process 1 of 2: {late}" in sentence(second, 1)
        else:
            stuck = "process 1 has been stuck for "
            assert f"process 0 of 2: {stuck}" in line
            assert "after step 3, in fail, line " in line
            assert f"process 1 of 2: {stuck}" in sentence(second, 1)


def test_a_process_that_was_given_something_else_is_named_before_the_first_step(tmp_path):
    """Everyone says who differs, or who could not start, and nobody waits."""
    images = np.random.default_rng(0).integers(0, 255, (64, 8, 8, 1), dtype=np.uint8)
    folders = [tmp_path / str(rank) for rank in (0, 1)]
    for folder, pixels in zip(folders, (images, 255 - images), strict=True):
        folder.mkdir()
        np.save(folder / "other.npy", pixels)
        np.save(folder / "same.npy", images)
    np.save(folders[0] / "missing.npy", images)
    np.save(folders[0] / "kind.npy", images)
    np.save(folders[1] / "kind.npy", images.astype(np.float32) / 255)
    cases = [
        ("other.npy", "32", ["process 1 has other data than most of the 2 processes"] * 2),
        ("kind.npy", "32", ["process 1 could not start; it says why", "uint8"]),
        ("missing.npy", "32", ["process 1 could not start; it says why", "missing.npy"]),
        ("same.npy", "64-true", ["process 1 has other settings than most of the 2 processes"] * 2),
        ("same.npy", "ring", ["process 1 has other exchange than most of the 2 processes"] * 2),
    ]
    few = {**SMALL, "images": None, "batch": 16}
    for file, other, wanted in cases:
        ways = ("gather", "ring" if other == "ring" else "gather")
        settings = [
            {**few, "data": f"arrays:{file}", "precision": p} for p in ("32", "32" if other == "ring" else other)
        ]
        words = [
            command(tmp_path / f"{file} {other}", *WORDS, "--exchange", way, settings=each)
            for way, each in zip(ways, settings, strict=True)
        ]
        with several(words.__getitem__, folders) as both:
            for process, part in zip(both, wanted, strict=True):
                assert part in sentence(process, 2)


def test_several_processes_wait_for_masked_words_that_another_run_makes(corpus, tmp_path, monkeypatch):
    """The first learns that somebody is at it; the others wait with it instead of ending."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = {"data": f"text:{corpus}", **QUICK, "epochs": 1, "encoder.masked": 6, "encoder.dropout": 0.0}
    made = first_run.folder(configure(settings))
    made.mkdir(parents=True)
    with (made / LOCK).open("a") as another:
        fcntl.flock(another, fcntl.LOCK_EX)
        words = command(tmp_path / "out", "--device", "cpu", settings=settings)
        with several(words, [tmp_path, tmp_path], {"XDG_CACHE_HOME": str(tmp_path / "cache")}) as both:
            deadline = time.monotonic() + LATE
            while "first masked words" not in both[0].said.read_text() and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(3 * WAIT)  # they have looked more than once
            assert [process.poll() for process in both] == [None, None]
            fcntl.flock(another, fcntl.LOCK_UN)
            assert [process.wait(LATE)[0] for process in both] == [0, 0]
    assert (made / "result.json").exists()
    assert (tmp_path / "out/result.json").exists()
