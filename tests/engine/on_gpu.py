"""`make gpu-check`: every loss by the fused kernels of this machine's GPU, against float64 on its processor.

Without a GPU it takes triton's interpreter (TRITON_INTERPRET=1) and few rows, so that it can be tried anywhere.
"""

from pathlib import Path

import pytest
import torch

import processes
from isotherm import nn, world
from isotherm.engine.device import check
from isotherm.losses import catalogue
from isotherm.losses.laws import Maker

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ROWS, WIDTH = (1000, 128) if DEVICE.type == "cuda" else (20, 24)
LINEAR = ("SimpleContrastiveLoss", "UAURLoss")  # their sums need no matrix
NAMES = [e.name for e in catalogue.losses() if not e.loss.negative_free and e.name not in LINEAR]


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_by_kernels_is_the_loss_in_float64(name, monkeypatch):
    monkeypatch.setenv("ISOTHERM_KERNELS", "triton")  # whatever fails, fails here
    make, generator = Maker.of(name), torch.Generator().manual_seed(0)
    views = [torch.randn(ROWS, WIDTH, generator=generator) for _ in range(2)]
    if getattr(make(), "distribution", None) == "swd":
        pytest.skip("compares with random samples of a prior, not with negatives")
    results = []
    for device, dtype in ((DEVICE, torch.float32), (torch.device("cpu"), torch.float64)):
        z = [v.to(device, dtype).requires_grad_() for v in views]
        value = make.value(z, make())
        results.append([t.detach().cpu().double() for t in (value, *torch.autograd.grad(value, z))])
    assert check.outcomes, "no kernel has been used"
    for ours, exact in zip(*results, strict=True):
        assert (ours - exact).abs().max() <= 1e-4 * exact.abs().max()


def pair_of_devices(rank, folder):
    """This process's half of a batch, gathered and visited, on its own device."""
    device = torch.device(DEVICE.type, rank) if DEVICE.type == "cuda" else DEVICE
    if device.type == "cuda":
        torch.cuda.set_device(device)
    world.join(rank, 2, Path(folder) / "meet", "nccl" if device.type == "cuda" else "gloo")
    results = {}
    for how in ("gather", "ring"):
        z = [v.chunk(2)[rank].to(device).requires_grad_() for v in batch()]
        with world.exchange(how):
            value = nn.NTXentLoss(0.1)(*z)
        results[how] = [t.detach().cpu() for t in (value, *torch.autograd.grad(value, z))]
    torch.save(results, Path(folder) / f"{rank}.pt")
    world.leave()


def batch():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(ROWS, WIDTH, generator=generator) for _ in range(2)]


@pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.device_count() < 2, reason="there is one GPU")
@pytest.mark.parametrize("how", ["gather", "ring"])
def test_two_devices_equal_one(how, tmp_path):
    z = [v.to(DEVICE).requires_grad_() for v in batch()]
    value = nn.NTXentLoss(0.1)(*z)
    slopes = [s.cpu() for s in torch.autograd.grad(value, z)]
    processes.two(pair_of_devices, str(tmp_path))
    parts = [torch.load(tmp_path / f"{rank}.pt", weights_only=True)[how] for rank in (0, 1)]
    for part in parts:
        torch.testing.assert_close(part[0], value.detach().cpu(), rtol=1e-5, atol=1e-6)
    for i, whole in enumerate(slopes):
        together = torch.cat([part[1 + i] for part in parts]) / 2
        torch.testing.assert_close(together, whole, rtol=1e-4, atol=1e-4 * float(whole.abs().max()))
