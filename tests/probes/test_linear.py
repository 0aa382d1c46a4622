"""The linear probe against scikit-learn, and how it chooses its regularisation."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from isotherm.probes import (
    fit,
    linear,
)
from probed import GIVEN, XT, YT, X, Y


def test_fit_is_the_optimum_scikit_learn_finds():
    x, y = X[:400].double(), Y[:400]
    for regularisation in (1e-1, 1e-3):
        found = fit(x, y, regularisation)
        z = ((x - found.mean) / found.scale).numpy()
        peer = LogisticRegression(C=1 / (regularisation * len(z)), tol=1e-10, max_iter=10_000).fit(z, y.numpy())
        np.testing.assert_allclose(found.weight.numpy(), peer.coef_, atol=1e-5)
        bias = found.bias.numpy() - found.bias.numpy().mean()  # the loss does not see a common part
        np.testing.assert_allclose(bias, peer.intercept_ - peer.intercept_.mean(), atol=1e-5)
        loss = F.cross_entropy(torch.from_numpy(z @ peer.coef_.T + peer.intercept_), y)
        value = float(loss) + regularisation / 2 * float(np.square(peer.coef_).sum())
        assert found.objective == pytest.approx(value, abs=1e-9)
        assert found.objective <= value + 1e-12


def test_fit_in_float32_reaches_the_same_objective():
    exact = fit(X[:400].double(), Y[:400], 1e-3).objective
    assert fit(X[:400], Y[:400], 1e-3).objective == pytest.approx(exact, abs=1e-6)  # rounding of float32


def test_features_are_standardised_and_constant_ones_do_not_matter():
    strange = torch.cat([X * torch.logspace(-3, 3, 64), torch.full((len(X), 1), 0.1)], 1)
    strange_test = torch.cat([XT * torch.logspace(-3, 3, 64), torch.full((len(XT), 1), 0.7)], 1)
    assert linear(strange, Y, strange_test, YT, 1e-2).accuracy == linear(*GIVEN, 1e-2).accuracy


def test_linear_chooses_a_regularisation_and_is_good():
    found = linear(*GIVEN)
    assert found.accuracy > 0.93
    assert found.seed == 0
    assert found.settings["regularisation"] in (1e-1, 1e-2, 1e-3, 1e-4)
    assert linear(*GIVEN) == found
    given = linear(*GIVEN, regularisation=0.5)
    assert given.seed is None
    assert given.settings == {"regularisation": 0.5}
