"""Two processes end where one ends, and one goes on where two were stopped."""

import os
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

import processes
from isotherm import world
from isotherm.cli import main
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import Diverged, train
from small_runs import OWN_LOSS, SMALL, command, lines, wait_for_steps, weights

TWO = {
    "simclr": {},
    "ring": {},
    "algorithm 3, ring": {
        "method": "mocov2",
        "method.queue": 200,
        "method.every_view": True,
        "method.intra_batch": True,
        "loss": "CACRLoss",
        "views": 3,
    },
    "cacr": {"method": "cacr", "views": 3},
    "bank": {"method": "bank", "method.negatives": 100},
    "mocov2": {"method": "mocov2", "method.queue": 200, "loss.temperature": 0.2},
    "algorithm 3": {
        "method": "mocov2",
        "method.queue": 200,
        "method.every_view": True,
        "method.intra_batch": True,
        "loss": "CACRLoss",
        "views": 3,
    },
    "fnc": {"method": "fnc", "views": 3, "loss.top_k": 4},
    "nnclr": {"method": "nnclr", "method.queue": 50},
    "tau": {"method": "tau"},
    "isogclr": {"method": "isogclr"},
    "clipped, cut short": {"steps": 6, "warmup_part": 0.3, "clip": 0.1},
    "unused": {"encoder": "vae", "head": "linear"},
    "mocov3": {"method": "mocov3", "optimizer": "lars", "lr": 1.0},
    "byol": {"method": "byol"},
    "swav": {"method": "swav", "method.queue": 70, "method.queue_start": 0.5, "head.hidden": 16},
    "dino, multi-crop": {"method": "dino", "head.hidden": 16, "small_crops": 2, "small_size": 6},
    "barlow": {"method": "barlow", "lr": 0.001},
    "wmse": {"method": "wmse", "head.hidden": 16, "head.width": 8, "loss.iterations": 2, "views": 3},
    "zerocl": {"method": "zerocl", "lr": 0.001},
    "arb": {"method": "arb", "lr": 0.001},
    "siglip": {"method": "siglip"},
    "swd": {"loss": "GeneralizedContrastiveLoss", "lr": 0.001},
    "vae": {"method": "vae", "lr": 1e-3, "optimizer": "adam", "encoder": "vae"},
    "supervised": {"method": "supervised"},
    "parts": {"parts": 2, "encoder": "vit_small", "encoder.depth": 1, "head": "mocov2", "lr": 0.01},
}
CONVNET = {"encoder.widths": [8, 16]}
FEW = {"images": 160, "batch": 33, "monitor": 0, "lr": 0.05, "precision": "64-true"}


def every_run(folder, file):
    """One run of each kind, and one with a loss from somebody's file."""
    for name, settings in {**TWO, "file": {"loss": f"{file}:Mine"}}.items():
        network = {} if "encoder" in settings or name == "supervised" else CONVNET  # whose loss is in single precision
        length = {} if "steps" in settings else {"epochs": 2}
        place = Runtime(out=Path(folder) / name, quiet=True, exchange="ring" if "ring" in name else "gather")
        train(configure({**FEW, **length, **network, **settings}), place)


def one_of_two(rank, folder, file, port):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GROUP_RANK": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "test"}
    warnings.simplefilter("ignore")
    every_run(folder, file)
    assert world.size() == 2
    with pytest.raises(Diverged):  # both notice, and neither waits for the other
        train(
            configure({**FEW, "lr": 1e300, "head": "mocov2", "epochs": 5}), Runtime(out=Path(folder) / "x", quiet=True)
        )
    locked = Path(folder) / "locked"
    with (
        runs.alone(locked) if rank == 0 else nullcontext(),  # a refusal of the first process is everyone's
        pytest.raises(ValueError, match="another process is at work" if rank == 0 else "the first process"),
    ):
        train(configure(FEW), Runtime(out=locked, quiet=True))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("isotherm")]
    world.leave()


@pytest.fixture(scope="module")
def one_and_two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    (folder / "own").mkdir()
    file = folder / "own" / "mine.py"
    file.write_text(OWN_LOSS)
    every_run(folder / "one", file)
    processes.two(one_of_two, str(folder / "two"), str(file), 20000 + os.getpid() % 20000)
    return folder / "one", folder / "two"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TWO, "file"])
def test_two_processes_end_with_the_weights_of_one(name, one_and_two):
    one, two = (weights(folder / name) for folder in one_and_two)
    assert one.keys() == two.keys()
    for key in one:
        if "num_batches" not in key:
            torch.testing.assert_close(two[key], one[key], rtol=1e-6, atol=1e-8, msg=lambda m, key=key: f"{key}: {m}")
    a, b = (lines(folder / name)[0]["loss_mean"] for folder in one_and_two)
    assert b == pytest.approx(a, rel=1e-8)


@pytest.mark.slow
def test_torchrun_trains_and_one_process_finishes(tmp_path):
    """Two processes are stopped on the way; one goes on, and ends where one process ends."""
    settings = {**SMALL, "epochs": 30, "lr": 0.01}
    out = tmp_path / "a"
    words = command(out, "--checkpoint", "0", "--log_every", "1", "--device", "cpu", settings=settings)
    port = str(20000 + (os.getpid() + 7) % 20000)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port", port]
    launch += ["-m", "--", "isotherm.cli", *words]  # without the dashes torchrun takes --monitor for its own
    process = subprocess.Popen(launch, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    wait_for_steps(out, 5, process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=180)  # torchrun gives its workers half a minute
    stopped_at = torch.load(out / "checkpoint.pt", weights_only=True)["step"]
    assert 5 <= stopped_at < 120
    assert main([*words, "--resume"]) == 0
    train(configure(settings), Runtime(out=tmp_path / "whole", quiet=True))
    mixed, whole = lines(out), lines(tmp_path / "whole")
    assert mixed[-1]["loss_mean"] == pytest.approx(whole[-1]["loss_mean"], rel=2e-2)
    assert [line["step"] for line in mixed if "epoch" not in line] == list(range(1, 121))
