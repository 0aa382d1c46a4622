"""Ranks: the area under the ROC curve as scikit-learn has it, VOC's average precision as loops."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from isotherm.probes.ranking import eleven_point, mean_auc, roc_auc
from isotherm.probes.scores import multi_label_score


def drawn(seed, n=200, ties=True):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    return (scores.round(1) if ties else scores), rng.integers(0, 2, n)


@pytest.mark.parametrize("seed", range(3))
def test_the_area_under_the_curve_is_scikit_learn_s_also_with_ties(seed):
    scores, truth = drawn(seed)
    expected = roc_auc_score(truth, scores)
    assert roc_auc(torch.tensor(scores), torch.tensor(truth) == 1) == pytest.approx(expected, abs=1e-12)


def test_several_classes_are_each_held_against_the_rest():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(300, 4)), rng.integers(0, 4, 300)
    p = torch.tensor(logits).softmax(1)
    expected = roc_auc_score(labels, p.numpy(), multi_class="ovr")
    assert mean_auc(torch.tensor(logits), torch.tensor(labels)) == pytest.approx(expected, abs=1e-12)
    two = mean_auc(torch.tensor(logits[:, :2]), torch.tensor(labels % 2))
    assert two == pytest.approx(roc_auc_score(labels % 2, logits[:, 1] - logits[:, 0]), abs=1e-12)


def test_there_is_no_area_without_both_kinds():
    assert roc_auc(torch.randn(4), torch.ones(4, dtype=torch.bool)) is None
    assert eleven_point(torch.randn(4), torch.zeros(4, dtype=torch.bool)) is None
    assert roc_auc(torch.zeros(4), torch.tensor([True, False, True, False])) == 0.5


def eleven_by_loops(scores, truth):
    """VOC 2007: at each recall, the best precision at any threshold that reaches it."""
    total = 0.0
    for step in range(11):
        best = 0.0
        for threshold in set(scores.tolist()):
            taken = scores >= threshold
            hits = int((taken & (truth == 1)).sum())
            if hits / int((truth == 1).sum()) >= step / 10 - 1e-12:
                best = max(best, hits / int(taken.sum()))
        total += best
    return total / 11


@pytest.mark.parametrize("seed", range(3))
def test_eleven_point_precision_is_the_loops(seed):
    scores, truth = drawn(seed, n=60)
    found = eleven_point(torch.tensor(scores), torch.tensor(truth) == 1)
    assert found == pytest.approx(eleven_by_loops(scores, truth), abs=1e-12)
    first = torch.arange(10, 0, -1.0)
    assert eleven_point(first, first > 7) == 1.0


def test_what_nobody_knows_of_an_item_does_not_count():
    logits = torch.tensor([[2.0, -1.0], [1.0, 3.0], [-1.0, -2.0], [9.0, 0.5]])
    truth = torch.tensor([[1, 0], [1, 1], [0, 0], [-1, 1]])
    found = multi_label_score("linear", logits, truth, None)
    assert found.mean_ap == 1.0
    assert found.auc == 1.0
    assert found.accuracy == 1.0
    assert found.balanced == 1.0
    wrong = multi_label_score("linear", -logits, truth, None)
    assert wrong.accuracy == 0.0
    assert wrong.auc == 0.0
