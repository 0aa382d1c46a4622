"""A worker of a study ends with its runner, however early the runner is killed."""

import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isotherm.train.commandline import configure

RUNNER = """
import multiprocessing, os, sys, time
from isotherm.experiments.worker import work

if __name__ == "__main__":
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=work, args=(theirs, os.getpid(), 1, ()), daemon=True)
    process.start()
    with open(sys.argv[1], "rb") as file:
        ours.send_bytes(file.read())
    print(process.pid, "torch" in sys.modules, flush=True)
    time.sleep(60)
"""


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_no_worker_outlives_a_runner_that_is_killed_early(tmp_path):
    (tmp_path / "runner.py").write_text(RUNNER)
    config = configure({"images": 1000, "epochs": 1000, "batch": 100, "monitor": 0})
    runners = {}
    for delay in (0.2, 1.0, 2.0, 3.0):
        task = tmp_path / f"task{delay}"
        task.write_bytes(pickle.dumps((config, tmp_path / f"run{delay}", ("geometry",), "")))
        line = [sys.executable, str(tmp_path / "runner.py"), str(task)]
        runners[delay] = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env={**os.environ})
    workers = []
    for delay, runner in runners.items():
        pid, torch = runner.stdout.readline().split()
        workers.append((int(pid), time.monotonic() + delay, runner))
        assert torch == "False"  # the worker's module is light: the signal is set before anything heavy is imported
    for _, when, runner in workers:
        time.sleep(max(0.0, when - time.monotonic()))
        runner.kill()
        runner.communicate()
    deadline = time.monotonic() + 5
    while any(running(pid) for pid, _, _ in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid, _, _ in workers if running(pid)]
    for pid in left:
        os.kill(pid, 9)
    assert left == []


THREADS = """
import json, sys
from isotherm.experiments.worker import take_threads

assert "numpy" not in sys.modules
take_threads(1)
import scipy.linalg
from threadpoolctl import threadpool_info

print(json.dumps({pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}))
"""


def test_numpy_and_scipy_of_a_worker_have_no_more_threads_than_torch():
    unset = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    line = [sys.executable, "-c", THREADS]
    pools = json.loads(subprocess.run(line, env=unset, check=True, capture_output=True, text=True).stdout)
    assert pools
    assert set(pools.values()) == {1}
