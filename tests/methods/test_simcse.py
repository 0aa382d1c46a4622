"""SimCSE against its equation, and the losses it cannot use."""

import numpy as np
import pytest
import torch

from isotherm import nn
from isotherm.methods import Given, Network, SimCSE
from isotherm.types import Batch


def test_simcse_is_its_equation_with_and_without_hard_negatives():
    g = torch.Generator().manual_seed(0)
    a, b, hard = (torch.randn(6, 5, generator=g, dtype=torch.float64) for _ in range(3))
    cos = lambda x, y: float(x @ y / x.norm() / y.norm())  # noqa: E731
    batch = Batch([], torch.full((6,), -1), torch.arange(6))
    for negatives in ((), (hard,)):
        wanted = 0.0
        for i in range(6):
            below = sum(np.exp(cos(a[i], b[j]) / 0.05) for j in range(6))
            below += sum(np.exp(cos(a[i], h) / 0.05) for many in negatives for h in many)
            wanted -= np.log(np.exp(cos(a[i], b[i]) / 0.05) / below) / 6
        given = Given(5, hard_negatives=bool(negatives))
        method = SimCSE(Network(torch.nn.Identity(), torch.nn.Identity()), nn.InfoNCELoss(0.05), given)
        assert float(method.objective([a, b, *negatives], [], batch)) == pytest.approx(wanted, abs=1e-10)


def test_simcse_refuses_losses_it_cannot_use():
    network = Network(torch.nn.Identity(), torch.nn.Identity())
    for loss, hard, settings, said in (
        (nn.SupConLoss(), False, {}, "needs labels"),
        (nn.BYOLLoss(), False, {}, "--method byol"),
        (nn.BarlowTwinsLoss(), True, {}, "can use no hard negatives"),
        (nn.NTXentLoss(), False, {"pairing": "own", "symmetric": True}, "symmetric belongs to"),
        (nn.NTXentLoss(), False, {"pairing": "ones"}, "pairing must be one of"),
    ):
        with pytest.raises(ValueError, match=said):
            SimCSE(network, loss, Given(5, hard_negatives=hard), **settings)
