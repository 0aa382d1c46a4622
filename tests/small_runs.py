"""Small runs on digits, and what lies in their folders, for the tests of training."""

import json
import time

import torch

from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.devices import fabric_for
from isotherm.train.loop import Run, Stopped, train

SMALL = {"images": 512, "batch": 128, "epochs": 2, "monitor": 0, "encoder.widths": [8, 16]}
OWN_LOSS = """
from isotherm.nn import NTXentLoss

class Mine(NTXentLoss):
    def __init__(self, temperature=0.2, scale: float = 1.0):
        super().__init__(temperature)
        self.scale = scale

    def per_query(self, pairs):
        return self.scale * super().per_query(pairs)

class Typed(Mine):
    def __init__(self, temperature: "Unknown" = 0.3, *, scale=2):
        super().__init__(temperature, scale)
"""
"""A file of somebody's own."""


def run(out, **settings):
    return train(configure({**SMALL, **settings}), Runtime(out=out, quiet=True))


def weights(out):
    return torch.load(out / "checkpoint.pt", weights_only=True)["method"]


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def lines(out):
    entries = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in entries]


def command(out, *more, settings=SMALL):
    """What is typed after `isotherm`."""
    words = [w for name, value in settings.items() for w in (f"--{name}", json.dumps(value).strip('"'))]
    return ["train", *words, "--out", str(out), *more]


def begun(out):
    """A run's settings and place, its folder made, with a checkpoint after every step."""
    config = configure(SMALL)
    out.mkdir()
    return config, Runtime(out=out, quiet=True, checkpoint=0)


def stopped_after_a_step(out, settings=SMALL):
    """A run that was asked to stop at once."""
    config, place = configure(settings), Runtime(out=out, quiet=True)
    out.mkdir()
    stopped = Run(fabric_for(config, place), config, place)
    stopped.asked_to_stop = "SIGTERM"
    try:
        stopped.to_the_end()
    except Stopped:
        return
    raise AssertionError("it went on")


def wait_for_steps(out, steps, process):
    """Until that many lines are logged, or the process has ended."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        path = out / "metrics.jsonl"
        if path.exists() and path.read_bytes().count(b"\n") >= steps:
            return
        if process.poll() is not None:
            return
        time.sleep(0.01)
    raise AssertionError(f"no progress: {process.poll()}")
