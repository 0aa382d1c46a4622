"""The linear probe against scikit-learn, and how it chooses its regularisation."""

import numpy as np
import pytest
import scipy.optimize
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from isotherm.probes import (
    fit,
    linear,
)
from isotherm.probes.logistic import axes_of, minimum, standardised
from probed import GIVEN, XT, YT, X, Y


def test_fit_is_the_optimum_scikit_learn_finds():
    x, y = X[:400].double(), Y[:400]
    for regularisation in (1e-1, 1e-3):
        found = fit(x, y, regularisation)
        z = ((x - found.mean) / found.scale).numpy()
        best = {"solver": "newton-cg", "tol": 1e-12, "max_iter": 10_000}
        peer = LogisticRegression(C=1 / (regularisation * len(z)), **best).fit(z, y.numpy())
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


def nearly_on_a_line(n=600, d=24, seed=0):
    """Features as after a collapse: one direction has nearly all the variance, the classes are in the rest."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 5
    x = torch.randn(n, d, generator=random) + 0.5 * F.one_hot(y, d)
    return 0.03 * x + torch.randn(n, 1, generator=random), y


@pytest.mark.parametrize("regularisation", [1e-2, 1e-4, 1e-6])
def test_features_nearly_on_a_line_have_the_optimum_of_scikit_learn(regularisation):
    x, y = nearly_on_a_line()
    found = fit(x.double(), y, regularisation)
    z = ((x.double() - found.mean) / found.scale).numpy()
    peer = LogisticRegression(
        C=1 / (regularisation * len(z)), tol=1e-12, max_iter=100_000, solver="newton-cg"
    ).fit(z, y.numpy())  # fmt: skip
    np.testing.assert_allclose(found(x.double()).softmax(1).numpy(), peer.predict_proba(z), atol=1e-5)


def test_features_nearly_on_a_line_take_few_evaluations(monkeypatch):
    taken = []

    def counted(*given, **options):
        taken.append(scipy_minimize(*given, **options))
        return taken[-1]

    scipy_minimize = scipy.optimize.minimize
    monkeypatch.setattr(scipy.optimize, "minimize", counted)
    x, y = nearly_on_a_line(3000)
    z, _, _ = standardised(x)
    _, value = minimum(z, y, 5, 1e-6, 1e-8)
    _, least = minimum(z, y, 5, 1e-6, 1e-8, axes=axes_of(z))
    assert least <= value + 1e-7
    assert taken[1].nfev < taken[0].nfev / 5


def test_with_more_features_than_rows_no_axes_are_looked_for():
    x, y = nearly_on_a_line(20)
    assert axes_of(standardised(x)[0]) is None
    assert fit(x, y, 1e-2).objective == pytest.approx(fit(x.double(), y, 1e-2).objective, abs=1e-4)


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
