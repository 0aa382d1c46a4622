"""Accuracies and their intervals."""

import json
import math

import pytest
import torch
from sklearn.metrics import balanced_accuracy_score

from isotherm.probes.scores import ranks, score, wilson
from probed import YT


def test_scores_carry_what_is_needed_to_judge_them():
    scores = torch.tensor([[1.0, 2, 0], [0, 1, 2], [1, 1, 1], [3, 1, 2]])
    labels = torch.tensor([1, 2, 1, 2])
    rank = ranks(scores, labels)
    assert rank.tolist() == [0, 0, 1, 1]
    found = score("test", rank, labels, 3, seed=4, settings={"k": (1, 2)})
    assert (found.accuracy, found.n, found.seed) == (0.5, 4, 4)
    assert found.per_class == (None, 0.5, 0.5)
    assert found.balanced == 0.5
    assert json.loads(json.dumps(found.as_dict()))["settings"] == {"k": [1, 2]}
    assert "50.00 %" in str(found)


def test_balanced_accuracy_is_that_of_scikit_learn():
    labels = YT.clone()
    labels[labels > 6] = 6
    guess = torch.where(torch.arange(360) % 3 == 0, 0, labels)
    found = score("test", (guess != labels).long(), labels, 7, None)
    assert found.balanced == pytest.approx(balanced_accuracy_score(labels, guess))
    assert found.accuracy != found.balanced


def test_wilson_is_the_interval_whose_ends_just_admit_the_share():
    for hits, n in ((0, 10), (3, 10), (10, 10), (9321, 10_000)):
        low, high = wilson(hits, n)
        assert 0 <= low <= hits / n <= high <= 1
        for end in {low, high} - {0.0, 1.0}:  # by definition |p̂ − p| = z √(p(1 − p)/n)
            assert abs(hits / n - end) == pytest.approx(1.959963984540054 * math.sqrt(end * (1 - end) / n))
