"""A plain loop on two processes, with accelerate and with DDP alone, trains as one process does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/accelerate_ddp.py"
SOURCE = EXAMPLE.parents[1] / "src"


def run(*words, processes=1):
    launcher = (
        [] if processes == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    )
    command = [sys.executable, *launcher, str(EXAMPLE), *words]
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--plain",), ()], ids=["DDP", "accelerate"])
def test_two_processes_train_as_one(words):
    if not words:
        pytest.importorskip("accelerate", reason="needs accelerate")
    alone = run("--plain")
    assert len(alone) == 6
    assert run(*words, processes=2) == pytest.approx(alone, rel=1e-10)
