"""Schedules and optimizers against their formulas."""

import numpy as np
import pytest
import torch

from isotherm import nn
from isotherm.temperature import Learnable
from isotherm.train.optimizers import LARS, optimizer
from isotherm.train.schedule import Schedule, scaled_rate


def test_schedules_are_the_papers():
    step = [Schedule(0.03, 2000, 10, "step", [160, 190]).rate(e * 10) for e in (0, 159, 160, 189, 190, 199)]
    np.testing.assert_allclose(step, [0.03, 0.03, 0.003, 0.003, 0.0003, 0.0003])
    cosine = [Schedule(1.0, 100, 10, "cosine", warmup=1).rate(s) for s in (0, 9, 10, 55, 99)]
    np.testing.assert_allclose(cosine[:4], [0.1, 1.0, 1.0, 0.5], atol=1e-12)
    assert cosine[4] < 0.001
    assert Schedule(0.2, 100, 10, "constant").rate(70) == 0.2
    assert scaled_rate(0.12, 768, "linear") == pytest.approx(0.36)
    assert scaled_rate(0.075, 256, "sqrt") == pytest.approx(1.2)


def test_the_trust_of_lars_is_the_size_of_a_step_beside_the_layers_own():
    for trust in (0.001, 0.02):
        layer = torch.nn.Linear(5, 3, bias=False)
        before = layer.weight.detach().clone()
        rule = optimizer("lars", layer, 0.5, trust=trust)
        layer(torch.randn(4, 5)).square().sum().backward()
        rule.step()
        moved = (layer.weight.detach() - before).norm() / before.norm()
        assert moved.item() == pytest.approx(0.5 * trust, rel=1e-3)


def test_lars_is_its_formula_for_three_steps():
    torch.manual_seed(0)
    w = torch.randn(3, 2, dtype=torch.float64)
    b = torch.randn(2, dtype=torch.float64)
    weight, bias = w.clone().requires_grad_(), b.clone().requires_grad_()
    groups = [{"params": [weight], "weight_decay": 0.1}, {"params": [bias], "adapt": False}]
    made = LARS(groups, lr=0.5, momentum=0.9)
    v, u = torch.zeros_like(w), torch.zeros_like(b)
    for _ in range(3):
        made.zero_grad()
        ((weight**2).sum() + (bias**3).sum()).backward()
        g = 2 * w + 0.1 * w
        v = 0.9 * v + 0.001 * w.norm() / g.norm() * g
        u = 0.9 * u + 3 * b**2
        w, b = w - 0.5 * v, b - 0.5 * u
        made.step()
    torch.testing.assert_close(weight.detach(), w)
    torch.testing.assert_close(bias.detach(), b)


def test_weight_decay_spares_biases_norms_and_temperatures():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    module.add_module("loss", nn.NTXentLoss(Learnable(0.1)))
    spared = optimizer("sgd", module, 0.1, weight_decay=0.5, decay_all=False).param_groups
    assert [len(g["params"]) for g in spared] == [1, 4]
    assert [g["weight_decay"] for g in spared] == [0.5, 0.0]
    everything = optimizer("adamw", module, 0.1, weight_decay=0.5).param_groups
    assert [len(g["params"]) for g in everything] == [4, 1]
