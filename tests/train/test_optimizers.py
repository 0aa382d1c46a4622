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


def test_lars_moves_all_weights_at_once_as_it_would_one_by_one():
    """Many weights in a group, some of them zero, some without a gradient: those of one optimizer for each of them."""
    torch.manual_seed(0)
    start = [torch.randn(n, m) for n, m in ((4, 3), (2, 7), (5, 5))] + [torch.zeros(3, 3), torch.randn(2, 2)]
    together, alone = ([w.clone().requires_grad_() for w in start] for _ in range(2))
    rules = [LARS([{"params": together, "weight_decay": 0.1}], lr=0.5)]
    rules += [LARS([{"params": [w], "weight_decay": 0.1}], lr=0.5) for w in alone]
    for step in range(3):
        for weights in (together, alone):
            for i, w in enumerate(weights[:4]):
                w.grad = torch.randn(w.shape, generator=torch.Generator().manual_seed(10 * step + i)) * (i > 0)
        for rule in rules:
            rule.step()
    for a, b, before in zip(together, alone, start, strict=True):
        torch.testing.assert_close(a, b)
        assert torch.equal(a, before) == (a is together[4])  # the one without a gradient


def test_a_fused_sgd_that_leaves_its_first_step_out_begins_with_the_second():
    weights = [torch.nn.Linear(3, 2, bias=False) for _ in range(2)]
    weights[1].load_state_dict(weights[0].state_dict())
    rules = [optimizer("sgd", w, 0.1, fused=True) for w in weights]
    for step, rule, left_out in ((0, rules[0], True), (1, rules[0], False), (1, rules[1], False)):
        module = weights[rules.index(rule)]
        module.weight.grad = torch.full_like(module.weight, float(step) or torch.inf)
        rule.found_inf, rule.grad_scale = torch.tensor(float(left_out)), None  # as a gradient scaler tells it
        rule.step()
    assert torch.equal(weights[0].weight, weights[1].weight)


def test_weight_decay_spares_biases_norms_and_temperatures():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    module.add_module("loss", nn.NTXentLoss(Learnable(0.1)))
    spared = optimizer("sgd", module, 0.1, weight_decay=0.5, decay_all=False).param_groups
    assert [len(g["params"]) for g in spared] == [1, 4]
    assert [g["weight_decay"] for g in spared] == [0.5, 0.0]
    everything = optimizer("adamw", module, 0.1, weight_decay=0.5).param_groups
    assert [len(g["params"]) for g in everything] == [4, 1]
