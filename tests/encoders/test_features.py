"""The output of any layer, and a network that is left as it was found."""

import copy

import pytest
import torch
from torch import nn

from isotherm.encoders import (
    ConvNet,
    SmallAlexNet,
    ViT,
    features,
)
from networks import Odd, noise, shaken


def test_features_are_those_of_the_layer():
    network = shaken(SmallAlexNet()).eval()
    x = noise(3)
    with torch.no_grad():
        conv5 = network.conv5(network.conv4(network.conv3(network.conv2(network.conv1(x)))))
        fc7 = network.fc7(network.fc6(conv5.flatten(1)))
    assert torch.equal(features(network, x), network(x))
    assert torch.equal(features(network, x, "fc7"), fc7)
    assert torch.equal(features(network, x, "conv5"), conv5.flatten(1))
    assert torch.equal(features(network, x, "conv5", pool=True), conv5.mean((2, 3)))
    assert torch.equal(features(network, x, "fc7.2"), fc7)
    transformer = ViT(size=8, patch=4, depth=2).eval()
    assert features(transformer, noise(3, size=8), "blocks.0").shape == (3, 5 * 384)
    assert features(transformer, noise(3, size=8), "blocks.0", pool=True).shape == (3, 384)


def test_features_are_taken_before_the_next_layer_works_in_place():
    network = shaken(ConvNet()).eval()
    assert (features(network, noise(), "conv1.1") < 0).any()


def test_features_leave_the_network_as_it_was():
    network = ConvNet()
    network.conv2.eval()  # a frozen part
    modes = [m.training for m in network.modules()]
    before = copy.deepcopy(network.state_dict())
    out = features(network, noise(), "conv3")
    assert not out.requires_grad
    assert [m.training for m in network.modules()] == modes
    assert all(torch.equal(a, b) for a, b in zip(before.values(), network.state_dict().values(), strict=True))
    probe = nn.Linear(out.shape[1], 2)
    probe(out).sum().backward()  # would fail on inference tensors


def test_the_hook_goes_even_when_the_network_fails():
    network = ConvNet()
    with pytest.raises(ValueError, match="built for images"):
        features(network, noise(channels=4), "conv3")
    assert not network.conv3._forward_hooks
    assert network.training
    features(network, noise(), "conv3")
    assert not network.conv3._forward_hooks


@pytest.mark.parametrize(
    ("gives", "layer", "error", "words"),
    [
        (lambda x: x, "twise", ValueError, "Odd has no layer 'twise'; did you mean 'twice'?"),
        (lambda x: x, "zzz", ValueError, "Odd has no layer 'zzz'; there is: twice, never."),
        (lambda x: x, "twice", ValueError, "layer 'twice' ran 2 times"),
        (lambda x: x, "never", ValueError, "layer 'never' ran 0 times"),
        (lambda x: (x,), None, TypeError, "Odd gives a tuple, not a tensor"),
        (lambda x: x.sum(0), None, ValueError, r"Odd gives \(192,\) for 2 images"),
    ],
)
def test_layers_without_one_output_a_image(gives, layer, error, words):
    with pytest.raises(error, match=words):
        features(Odd(gives), noise(size=8), layer)
