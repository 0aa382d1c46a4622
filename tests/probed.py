"""Digits, a small network, and regression as scikit-learn solves it, for the tests of probes."""

import torch
from sklearn.linear_model import LogisticRegression

from isotherm.data.sets import load
from isotherm.encoders import ConvNet
from isotherm.views import recipe

TRAIN, TEST = load("digits"), load("digits", "test")
DIGITS = recipe("digits", views=1)
X, Y = TRAIN.pixels.flatten(1).float() / 255 + 0.01, TRAIN.labels
XT, YT = TEST.pixels.flatten(1).float() / 255 + 0.01, TEST.labels
GIVEN = (X, Y, XT, YT)
FEW = (X[:300], Y[:300], XT[:100], YT[:100])


def network(seed=0):
    torch.manual_seed(seed)
    return ConvNet(channels=1, widths=(16, 32, 64))


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def same_state(module, before):
    after = module.state_dict()
    return all(torch.equal(after[name], value) for name, value in before.items())


def regression(strength):
    return LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-12, max_iter=1000)
