"""The linear probe where items show several classes: scikit-learn's regressions, one per class."""

import sys
from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from isotherm.probes.multi_label import ABSENT, multi_label_linear
from probed import TEST, TRAIN, XT, X


def several(images):
    shown = {"even": images.labels % 2 == 0, "large": images.labels > 4}
    columns = {name: column.long() for name, column in shown.items()}
    columns["large"][::5] = -1  # nobody knows
    return replace(images, labels=torch.full_like(images.labels, -1), classes=tuple(columns), more_labels=columns)


def test_each_class_is_a_regression_of_its_own_without_what_nobody_knows(monkeypatch):
    monkeypatch.setattr(sys.modules["isotherm.probes.linear"], "GRID", (1e-2,))
    train, test = several(TRAIN), several(TEST)
    found, logits = multi_label_linear(X.double(), train, XT.double(), test)
    for c, name in enumerate(train.classes):
        known = train.more_labels[name] >= 0
        scale = StandardScaler().fit(X[known].double())
        strength = 2 / (1e-2 * int(known.sum()))  # two rows of opposite weights bear half the penalty of one
        own = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000)
        own.fit(scale.transform(X[known].double()), train.more_labels[name][known])
        expected = torch.from_numpy(own.decision_function(scale.transform(XT.double())))
        assert torch.allclose(logits[:, c], expected, atol=1e-3)
    assert 0.9 < found.mean_ap <= 1
    assert 0.9 < found.auc <= 1


def test_a_class_without_examples_is_left_out_and_named():
    train, test = several(TRAIN), several(TEST)
    train = replace(train, more_labels={**train.more_labels, "large": torch.zeros_like(train.labels)})
    found, logits = multi_label_linear(X, train, XT, test)
    assert found.settings["without_examples"] == ["large"]
    assert bool((logits[:, 1] == ABSENT).all())
    nothing = replace(train, more_labels={name: torch.zeros_like(train.labels) for name in train.classes})
    with pytest.raises(ValueError, match="no class is both shown and not shown"):
        multi_label_linear(X, nothing, XT, test)
