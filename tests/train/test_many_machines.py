"""Workers that die, hang or hold other data; a job that SLURM stops and starts again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import isotherm
from small_runs import SMALL, command, lines, same, wait_for_steps, weights

pytestmark = pytest.mark.slow

SOURCE = str(Path(isotherm.__file__).parent.parent)
TEMPLATE = Path(__file__).parent.parent.parent / "docs" / "slurm.sh"
LONG = {**SMALL, "epochs": 10, "lr": 0.01}
ALWAYS = ("--checkpoint", "0", "--log_every", "1", "--device", "cpu", "--quiet", "true")


def environment(**more):
    path = os.pathsep.join(p for p in (SOURCE, os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path} | more


def torchrun(words, *options):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *options]
    return subprocess.Popen([*launch, "-m", "--", "isotherm.cli", *words], env=environment(), stderr=subprocess.PIPE)


def ended(process):
    """What it said until it ended well; one that hangs is ended, and what it said is shown."""
    try:
        said = process.communicate(timeout=300)[1].decode()
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # torchrun ends its workers
        pytest.fail(f"it hangs: {process.communicate(timeout=60)[1].decode()[-3000:]}")
    assert process.returncode == 0, said[-3000:]
    return said


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alone(rank, port, words, folder=None):
    """One of two processes that nobody looks after."""
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "test"}
    launch = [sys.executable, "-m", "isotherm.cli", *words]
    return subprocess.Popen(launch, env=environment(**place), stderr=subprocess.PIPE, text=True, cwd=folder)


def port():
    return 20000 + (os.getpid() * 7 + time.monotonic_ns()) % 20000


def test_a_killed_worker_is_started_again_and_the_result_is_the_same(tmp_path):
    words = command(tmp_path / "a", *ALWAYS, "--resume", settings=LONG)
    process = torchrun(words, "--max-restarts=2")
    wait_for_steps(tmp_path / "a", 5, process)
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    said = ended(process)
    ended(torchrun(command(tmp_path / "b", *ALWAYS, settings=LONG)))
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    steps = [line["step"] for line in lines(tmp_path / "a") if "epoch" not in line]
    assert steps == list(range(1, 41))
    assert "another process has ended" in said  # it was killed on the way, and not at the end


@pytest.mark.parametrize("end", [signal.SIGSTOP, signal.SIGKILL])
def test_a_lost_worker_ends_the_other_with_a_sentence(tmp_path, end):
    """Silent, after the time that was stated; gone, at once."""
    at = port()
    words = command(tmp_path / "a", *ALWAYS, "--timeout", "20", settings={**LONG, "epochs": 4000})
    first, second = (alone(rank, at, words) for rank in (0, 1))
    try:
        wait_for_steps(tmp_path / "a", 3, first)
        second.send_signal(end)
        began = time.monotonic()
        said = first.communicate(timeout=200)[1]
        assert first.returncode == 1, said
        assert time.monotonic() - began < 90  # 20 seconds, on a machine that may be busy
        (line,) = [line for line in said.splitlines() if line.startswith("isotherm: ")]
        assert "process 0 of 2: another process has ended or has not answered for 20 seconds." in line
        assert "--resume" in line
        assert torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)["step"] >= 2
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


FAILS = """
import os
from isotherm.nn import NTXentLoss

class Fails(NTXentLoss):
    calls = 0

    def per_query(self, pairs):
        Fails.calls += 1
        if os.environ["RANK"] == "1" and Fails.calls == 4:
            raise RuntimeError("the camera is unplugged\\nand more")
        return super().per_query(pairs)
"""


def test_a_worker_that_raises_ends_the_other_which_says_who_it_was_and_what_it_said(tmp_path):
    (tmp_path / "mine.py").write_text(FAILS)
    at, began = port(), time.monotonic()
    settings = {**LONG, "epochs": 4000, "loss": f"{tmp_path}/mine.py:Fails"}
    words = command(tmp_path / "a", *ALWAYS, "--timeout", "100", settings=settings)
    first, second = (alone(rank, at, words) for rank in (0, 1))
    try:
        said = first.communicate(timeout=300)[1]
        assert first.returncode == 1, said
        (line,) = [line for line in said.splitlines() if line.startswith("isotherm: ")]
        assert "process 0 of 2: process 1 has ended, and said: RuntimeError: the camera is unplugged." in line
        assert "--resume" in line
        assert time.monotonic() - began < 250  # at once, on a machine that may be busy
        assert "the camera is unplugged" in second.communicate(timeout=100)[1]
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


def test_a_worker_with_other_data_is_named_at_the_start(tmp_path):
    """Everyone says who differs, or who could not start, and nobody waits."""
    images = np.random.default_rng(0).integers(0, 255, (64, 8, 8, 1), dtype=np.uint8)
    folders = [tmp_path / str(rank) for rank in (0, 1)]
    for folder, pixels in zip(folders, (images, 255 - images), strict=True):
        folder.mkdir()
        np.save(folder / "x.npy", pixels)
    few = {**SMALL, "images": None, "batch": 16}
    cases = [
        ("arrays:x.npy", ["process 1 has other data than most of the 2 processes"] * 2),
        ("arrays:y.npy", ["process 1 could not start; it says why", "y.npy"]),
    ]
    np.save(folders[0] / "y.npy", images)
    for i, (data, wanted) in enumerate(cases):
        at = port()
        words = command(tmp_path / f"run{i}", "--device", "cpu", "--timeout", "100", settings={**few, "data": data})
        outcomes = [alone(rank, at, words, folder) for rank, folder in enumerate(folders)]
        for process, sentence in zip(outcomes, wanted, strict=True):
            said = process.communicate(timeout=200)[1]
            assert process.returncode == 2, said
            assert sentence in said


def test_slurm_stops_a_job_and_starts_it_again(tmp_path):
    """The template with stand-ins for SLURM's two commands: SIGTERM saves and requeues; the next job ends the run."""
    tools = tmp_path / "bin"
    tools.mkdir()
    scripts = {
        "srun": f'shift\nshift\nexec {sys.executable} -m torch.distributed.run "$@"\n',  # an option, and torchrun
        "scontrol": f'[ "$1" = show ] && echo 127.0.0.1\n[ "$1" = requeue ] && echo "$2" >> {tmp_path}/requeued\n:\n',
    }
    for name, script in scripts.items():
        (tools / name).write_text(f"#!/bin/bash\n{script}")
        (tools / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "17", "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "here", "SLURM_GPUS_ON_NODE": "2"}
    place = environment(PATH=f"{tools}:{os.environ['PATH']}", PORT=str(port()), **slurm)
    words = ["bash", str(TEMPLATE), *command(tmp_path / "a", *ALWAYS, settings=LONG)[1:]]
    job = subprocess.Popen(words, env=place, stderr=subprocess.DEVNULL)
    wait_for_steps(tmp_path / "a", 5, job)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=200) != 0
    assert (tmp_path / "requeued").read_text() == "17\n"
    stopped_at = torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)["step"]
    assert 5 <= stopped_at < 40
    again = subprocess.run(words, env=place, stderr=subprocess.DEVNULL, check=False, timeout=400)
    assert again.returncode == 0
    assert (tmp_path / "requeued").read_text() == "17\n"  # what has ended is not queued again
    steps = [line["step"] for line in lines(tmp_path / "a") if "epoch" not in line]
    assert steps == list(range(1, 41))
