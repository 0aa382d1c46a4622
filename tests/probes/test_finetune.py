"""Fine-tuning learns, weighs classes, and leaves the given encoder alone."""

from dataclasses import replace

import pytest
import torch

from isotherm.data.imbalance import fraction, long_tail
from isotherm.probes import (
    finetune,
)
from probed import DIGITS, TEST, TRAIN, network, same_state, state


@pytest.mark.slow
def test_finetuning_learns_and_does_not_change_the_given_encoder():
    body = network()
    body.requires_grad_(False)
    before = state(body)
    some = fraction(TRAIN, 500)
    random = torch.get_rng_state()
    found = finetune(body, some, TEST, DIGITS, epochs=6, batch=32)
    assert torch.equal(torch.get_rng_state(), random)
    assert found.accuracy > 0.8
    assert found.settings["lr"] == 0.1
    assert same_state(body, before)
    assert not any(p.requires_grad for p in body.parameters())
    assert finetune(body, some, TEST, DIGITS, epochs=6, batch=32) == found
    assert finetune(body, some, TEST, DIGITS, epochs=6, batch=32, seed=1) != found


def test_two_classes_have_one_logit_and_a_weight_of_the_positive_one():
    def binary(images):
        return replace(images, labels=(images.labels == 3).long(), classes=("other", "three"))

    train, test = binary(fraction(TRAIN, 257)), binary(TEST)  # the last batch would be a single image
    found = finetune(network(), train, test, DIGITS, epochs=3)
    negative, positive = train.counts()
    assert found.settings["lr"] == 1.0
    assert found.settings["class_weights"] == pytest.approx([1, negative / positive])
    assert found.top5 is None
    assert len(found.per_class) == 2


def test_balanced_class_weights_favour_the_tail():
    tail = long_tail(TRAIN, 0.05)
    found = finetune(network(), tail, TEST, DIGITS, epochs=1)
    counts = tail.counts()
    assert found.settings["class_weights"] == pytest.approx([max(counts) / c for c in counts])
    assert finetune(network(), tail, TEST, DIGITS, None, epochs=1).settings["class_weights"] == [1] * 10
