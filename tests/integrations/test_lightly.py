"""Drop-ins for lightly's losses: the same value and gradient as the real ones, in the same call."""

import pytest
import torch

from isotherm.integrations import lightly as ours
from peers import example, library

theirs = library("lightly.loss")


def views(n=12, d=8):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return [(z + 0.4 * torch.randn(n, d, generator=generator, dtype=torch.float64)).requires_grad_() for _ in range(2)]


@pytest.mark.filterwarnings("ignore:To copy construct")  # lightly's DCLW
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("NTXentLoss", {}),
        ("NTXentLoss", {"temperature": 0.1, "memory_bank_size": 0, "gather_distributed": True}),
        ("DCLLoss", {"temperature": 0.2}),
        ("DCLWLoss", {"sigma": 0.7}),
        ("BarlowTwinsLoss", {"lambda_param": 0.01}),
        ("VICRegLoss", {"lambda_param": 10.0, "mu_param": 5.0, "nu_param": 2.0}),
    ],
)
def test_value_and_gradient_are_lightly_s(name, settings):
    results = []
    for losses in (theirs, ours):
        z = views()
        value = getattr(losses, name)(**settings)(*z)
        value.backward()
        results.append([value.detach(), *(v.grad for v in z)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-10)


def test_the_memory_bank_is_lightly_s_once_it_is_full():
    pair = [losses.NTXentLoss(memory_bank_size=(16, 8)) for losses in (theirs, ours)]
    for step in range(4):
        z = [v.detach().float() + step for v in views(8)]
        results = [loss(z[0].clone().requires_grad_(), z[1]) for loss in pair]
        if step >= 2:  # before, each has random directions of its own
            torch.testing.assert_close(results[1], results[0])
    kept = pair[1].memory_bank.keys
    pair[1](*z)  # without gradient nothing is kept
    assert torch.equal(pair[1].memory_bank.keys, kept)
    with pytest.raises(ValueError, match=r"memory_bank_size is \(keys, width\)"):
        ours.NTXentLoss(memory_bank_size=16)


@pytest.mark.filterwarnings("ignore")
def test_the_example_gives_the_same_number_by_both():
    assert example("lightly_loss.py")() < 1e-5
