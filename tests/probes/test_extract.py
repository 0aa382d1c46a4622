"""Features of a frozen encoder, what no probe may do to it, and what cannot be probed."""

import copy
from dataclasses import replace

import pytest
import torch

from isotherm.data.probing import randbit
from isotherm.probes import (
    features_of,
    few_shot,
    finetune,
    fit,
    follow,
    knn,
    linear,
    protocol,
)
from isotherm.probes.scores import wilson
from probed import DIGITS, FEW, TEST, TRAIN, XT, YT, X, Y, network, same_state, state


def test_features_are_of_plain_images_in_eval_mode():
    body = network()
    body.conv1.eval()
    modes = [part.training for part in body.modules()]
    before = state(body)
    found = features_of(body, TEST, DIGITS, batch=100)
    assert found.shape == (360, 64)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    assert [part.training for part in body.modules()] == modes
    assert same_state(body, before)
    expected = copy.deepcopy(body).eval()(TEST.pixels.float() / 255).detach()
    assert torch.allclose(found, expected, atol=1e-6)
    assert features_of(body, TEST, DIGITS, size=16).shape == (360, 64)


def test_random_bits_are_features_too():
    bits = randbit(TEST, 3)
    plain = features_of(torch.nn.Flatten(), TEST, DIGITS)
    with_bits = features_of(torch.nn.Flatten(), bits, DIGITS)
    assert torch.equal(with_bits[:, :64], plain)
    code = sum(with_bits[:, 64 * (i + 1)].long() << i for i in range(3))
    assert torch.equal(code, bits.more_labels["randbit"])


def test_no_probe_can_send_a_gradient_into_its_features():
    body = network()
    live = body(TRAIN.pixels[:300].float() / 255)
    before = state(body)
    assert live.requires_grad
    asked = body.eval()(TEST.pixels[:100].float() / 255)
    knn(live, Y[:300], asked, YT[:100], ks=[1])
    linear(live, Y[:300], asked, YT[:100], 1e-2)
    follow(protocol("cacr-small").shortened(1), live, Y[:300], asked, YT[:100])
    assert same_state(body, before)
    assert all(p.grad is None for p in body.parameters())
    assert not fit(live, Y[:300], 1e-2).weight.requires_grad


@pytest.mark.parametrize("probe", [lambda *g: knn(*g, ks=[1]), linear, lambda *g: follow("wang-liu", *g)])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({1: Y[:299]}, r"train_labels must hold one label per item, shape \(300,\); got \(299,\)"),
        ({3: YT[:5]}, r"test_labels must hold one label per item, shape \(100,\); got \(5,\)"),
        ({1: Y[:300].clamp_max(8)}, r"1 of the 10 classes are tested but not in the training part: 9"),
        ({1: Y[:300] * 0, 3: YT[:100] * 0}, "at least 2 classes"),
        ({1: Y[:300] - 1}, "train_labels holds -1: below 0 means unknown"),
        ({1: Y[:300].float()}, "train_labels must hold whole numbers, got torch.float32"),
        ({0: torch.full((300, 64), float("nan"))}, "train holds NaN or infinite features in 300 rows, first in row 0"),
        ({2: XT[:100] / 0}, "test holds NaN or infinite"),
        ({0: X[:300].long()}, "train must hold floating-point features, got torch.int64"),
        ({0: X[:300].numpy()}, r"train must be a tensor of features \(N, D\), got ndarray"),
        ({0: X[:0], 1: Y[:0]}, r"train holds no features: shape \(0, 64\)"),
        ({2: XT[:100, :5]}, "train has 64 features per item, test has 5"),
        ({2: XT[0]}, r"test must have shape \(N, D\)"),
    ],
)
def test_what_cannot_be_probed_is_said(probe, change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        probe(*(change.get(i, part) for i, part in enumerate(FEW)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: knn(*FEW, ks=[301]), "k = 301 neighbours are more than the 300 training items"),
        (lambda: knn(*FEW, ks=[]), "ks is empty"),
        (lambda: knn(*FEW, ks=[0]), "1 or more, got 0"),
        (lambda: knn(*FEW, ks=[2.0]), "whole number"),
        (lambda: knn(*FEW, ks=[1], weights="cosin"), "did you mean 'cosine'"),
        (lambda: knn(*FEW, ks=[1], temperature=0), "temperature must be a positive number"),
        (lambda: knn(X[:300] * 0, *FEW[1:], ks=[1]), "zero vectors"),
        (lambda: knn(*FEW, ks=[1], classes=9), "labels reach up to 9, but classes is 9"),
        (lambda: linear(*FEW, held_out=1.0), "between 0 and 1, got 1.0"),
        (lambda: linear(*FEW, regularisation=0), "regularisation must be a positive number"),
        (lambda: linear(X[:3], torch.arange(3), X[:3], torch.arange(3)), "every class has a single training item"),
        (lambda: protocol("wang-lui"), "did you mean 'wang-liu'"),
        (lambda: replace(protocol("wang-liu"), optimizer="sdg").make(torch.nn.Linear(1, 1)), "did you mean 'sgd'"),
        (lambda: follow(protocol("wang-liu").shortened(3), FEW[0] * 1e30, *FEW[1:]), "wang-liu, 3 epochs diverged"),
        (lambda: few_shot(*FEW, per_class=100), "cannot draw 100"),
        (lambda: few_shot(*FEW, per_class=0), "per_class must be 1 or more"),
        (lambda: few_shot(*FEW, per_class=1, seeds=[1]), "2 different seeds or more"),
        (lambda: finetune(network(), TRAIN, TEST, DIGITS, [1.0]), "for each of the 10 classes, got 1"),
        (lambda: finetune(network(), TRAIN, TEST, DIGITS, [0.0] * 10), "positive numbers"),
        (lambda: finetune(network(), TRAIN, TEST, DIGITS, "equal"), "'balanced', None or one number per class"),
        (lambda: features_of(network(), TEST, DIGITS, layer="fc7"), "has no layer 'fc7'"),
        (lambda: wilson(3, 2), "got 3 of 2"),
    ],
)
def test_bad_settings_are_said(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
