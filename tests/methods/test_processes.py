"""Two and three processes give the values, gradients and memories of one: SwAV, DINO, and small crops anywhere."""

from pathlib import Path

import pytest
import torch

import processes
from isotherm import nn, world
from isotherm.train.averaging import Averaging
from small_methods import batch, built, part

ITEMS, STEPS, SMALL = 9, 4, 2
SPLITS = {2: (4, 5), 3: (1, 5, 3)}
CASES = {
    "swav": ("swav", None, {"prototypes": 4, "freeze": 0.5, "queue": 10, "queue_start": 0.0}),
    "swav, a long queue": ("swav", None, {"prototypes": 4, "freeze": 0.0, "queue": 100}),
    "dino": ("dino", None, {"prototypes": 4, "freeze": 0.5, "momentum": 0.9}),
    "dino, rows of any length": ("dino", None, {"prototypes": 4, "freeze": 0.0, "norm_last_layer": False}),
    "simclr": ("simclr", nn.NTXentLoss(), {}),
    "cacr": ("cacr", nn.CACRLoss(), {}),
    "barlow": ("barlow", nn.BarlowTwinsLoss(), {}),
    "mocov2": ("mocov2", nn.NTXentLoss(), {"queue": 12}),
    "algorithm 3": ("mocov2", nn.CACRLoss(), {"queue": 12, "every_view": True, "intra_batch": True}),
    "fnc": ("fnc", nn.FNCLoss(0.2, top_k=3, threshold=0.0), {}),
    "fnc with a queue": (
        "mocov2",
        nn.FNCLoss(0.2, top_k=3, threshold=0.0),
        {"queue": 12, "every_view": True, "intra_batch": True},
    ),
    "mocov3": ("mocov3", nn.NTXentLoss(), {"momentum": 0.9}),
    "byol": ("byol", nn.BYOLLoss(), {"momentum": 0.9}),
    "simsiam": ("simsiam", nn.SimSiamLoss(), {}),
}


def steps(case, mine=slice(None)):
    """Values and everyone's mean gradients of a few steps of gradient descent, and the state at their end."""
    name, loss, settings = CASES[case]
    m = built(name, loss, small=SMALL, **settings)
    learning = [p for p in m.parameters() if p.requires_grad]
    averaging = Averaging(learning, size=1000)  # several buckets
    values, gradients = [], []
    for step in range(STEPS):
        m.zero_grad()
        m.at(step, STEPS, 2)
        value = m.compare(part(batch(ITEMS, small=SMALL, seed=step), mine))
        with averaging.during_backward():
            value.backward()
        values.append(value.detach())
        gradients.append([torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in learning])
        with torch.no_grad():
            for p, slope in zip(learning, gradients[-1], strict=True):
                p.sub_(slope, alpha=0.1)
        m.after_step()
    return values, gradients, m.state_dict()


def process(rank, count, folder):
    world.join(rank, count, Path(folder) / f"meet{count}")
    start = sum(SPLITS[count][:rank])
    mine = slice(start, start + SPLITS[count][rank])
    torch.save({case: steps(case, mine) for case in CASES}, Path(folder) / f"{count}-{rank}.pt")
    world.leave()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    for count in SPLITS:
        processes.several(count, process, count, str(folder))
    return folder


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", SPLITS)
def test_several_processes_are_one(count, case, folder):
    one = steps(case)
    for rank in range(count):
        each = torch.load(folder / f"{count}-{rank}.pt", weights_only=True)[case]
        torch.testing.assert_close(each, one, rtol=1e-9, atol=1e-12)
