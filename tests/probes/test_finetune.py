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
    found = finetune(network(), train, test, DIGITS, "balanced", epochs=3)
    negative, positive = train.counts()
    assert found.settings["lr"] == 1.0
    assert found.settings["class_weights"] == pytest.approx([1, negative / positive])
    assert found.top5 is None
    assert len(found.per_class) == 2


def test_balanced_class_weights_favour_the_tail():
    tail = long_tail(TRAIN, 0.05)
    found = finetune(network(), tail, TEST, DIGITS, "balanced", epochs=1)
    counts = tail.counts()
    assert found.settings["class_weights"] == pytest.approx([max(counts) / c for c in counts])


def test_classes_weigh_the_same_unless_told_and_the_paper_s_medical_sets_have_names():
    tail = long_tail(TRAIN, 0.05)
    assert finetune(network(), tail, TEST, DIGITS, epochs=1).settings["class_weights"] == [1] * 10
    four = replace(TRAIN, labels=TRAIN.labels % 4, classes=("a", "b", "c", "d"))
    asked = replace(TEST, labels=TEST.labels % 4, classes=four.classes)
    chaoyang = finetune(network(), four, asked, DIGITS, "chaoyang", epochs=1)
    assert chaoyang.settings["class_weights"] == pytest.approx([1.264, 1.667, 1.0, 2.114])
    with pytest.raises(ValueError, match="for each of the 10 classes, got 2"):
        finetune(network(), TRAIN, TEST, DIGITS, "mhist", epochs=1)
