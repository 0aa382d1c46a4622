"""A worker that is killed and started again by torchrun; a job that SLURM stops and starts again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
    assert "process 0 of 2: process 1 has given no sign of life" in said  # it was killed on the way, not at the end


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
