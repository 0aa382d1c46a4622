"""`make gpu-check`: every loss by the fused kernels of this machine's GPU, against float64 on its processor.

Without a GPU it takes triton's interpreter (TRITON_INTERPRET=1) and few rows, so that it can be tried anywhere.
"""

import pytest
import torch

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
