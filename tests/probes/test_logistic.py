"""The solver of many regressions at once against scikit-learn, one problem after the other."""

import numpy as np
import pytest
import torch

from isotherm.probes.logistic import predicted_classes, solve
from probed import regression


def made(n=90, d=5, problems=4, classes=2, seed=0, scale=1.0):
    random = torch.Generator().manual_seed(seed)
    x, true, noise = (
        torch.randn(*shape, generator=random, dtype=torch.float64) for shape in ((n, d), (d, classes), (n, classes))
    )
    labels = (x @ true + 1.5 * noise).argmax(1)
    x = scale * x + 0.3
    on = torch.rand(problems, n, generator=random) < 0.8
    with_one = torch.cat([x, torch.ones(n, 1, dtype=torch.float64)], 1)
    hot = torch.nn.functional.one_hot(labels, classes).T
    return x, labels, on, with_one, hot[1:] if classes == 2 else hot


@pytest.mark.parametrize("strength", [2.0**-2, 1.0, 2.0**5])
@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
def test_problems_solved_together_have_the_weights_of_scikit_learn(strength, classes, scale):
    x, labels, on, with_one, truth = made(classes=classes, scale=scale)
    weights, logits, solved = solve(with_one, truth, on, strength, 1e-10)
    assert solved
    for k, rows in enumerate(on):
        oracle = regression(strength).fit(x[rows].numpy(), labels[rows].numpy())
        assert np.allclose(weights[:, k, :-1].numpy(), oracle.coef_, rtol=1e-6, atol=1e-8)
        bias = weights[:, k, -1].numpy()
        centred = (bias, oracle.intercept_) if classes == 2 else (bias - bias.mean(), oracle.intercept_)
        assert np.allclose(centred[0], centred[1] - (classes > 2) * oracle.intercept_.mean(), rtol=1e-6, atol=1e-7)
        assert np.array_equal(predicted_classes(logits)[k].numpy(), oracle.predict(x.numpy()))


def test_separable_problems_that_share_few_rows_are_solved_too():
    x, _, _, with_one, _ = made(n=40, d=30, problems=6)
    labels = (x[:, 0] > 0.3).long()
    on = torch.rand(6, 40, generator=torch.Generator().manual_seed(1)) < 0.4
    weights, _, solved = solve(with_one, labels[None], on, 1000.0, 1e-10)
    assert solved
    for k, rows in enumerate(on):
        oracle = regression(1000.0).fit(x[rows].numpy(), labels[rows].numpy())
        assert np.allclose(weights[0, k, :-1].numpy(), oracle.coef_[0], rtol=1e-5, atol=1e-7)


def test_the_start_changes_nothing_but_the_time():
    _, _, on, x, truth = made()
    before, _, _ = solve(x, truth, on, 1.0, 1e-10)
    warm, _, _ = solve(x, truth, on, 4.0, 1e-10, before)
    cold, _, _ = solve(x, truth, on, 4.0, 1e-10)
    assert torch.allclose(warm, cold, atol=1e-9)


def test_single_precision_is_near_the_optimum():
    _, _, on, x, truth = made(n=400, d=20)
    fine, _, _ = solve(x, truth, on, 2.0, 1e-10)
    _, coarse, solved = solve(x.float(), truth, on, 2.0, 1e-4)
    assert solved
    assert float((coarse - (fine.flatten(0, 1) @ x.T).view_as(coarse)).abs().max()) < 5e-4
