"""SmallAlexNet has the paper's layers."""

import pytest

from isotherm.encoders import (
    SmallAlexNet,
)
from networks import noise


@pytest.mark.parametrize(("size", "edges"), [(32, (15, 7, 7, 7, 3)), (64, (31, 15, 15, 15, 7))])
def test_small_alexnet_has_the_papers_layers(size, edges):
    network = SmallAlexNet(size=size)
    seen = {}
    for name, layer in network.named_children():
        layer.register_forward_hook(lambda _, __, out, name=name: seen.update({name: tuple(out.shape)}))
    network(noise(2, size=size))
    planes = (96, 192, 384, 384, 192)
    convolutions = {f"conv{i + 1}": (2, planes[i], edges[i], edges[i]) for i in range(5)}
    assert seen == convolutions | {"fc6": (2, 4096), "fc7": (2, 4096), "fc8": (2, 128)}
    kinds = [type(part).__name__ for part in network.modules() if not list(part.children())]
    conv = ["Conv2d", "BatchNorm2d", "ReLU"]
    pooled = [*conv, "MaxPool2d"]
    connected = ["Linear", "BatchNorm1d", "ReLU"]
    assert kinds == pooled + pooled + conv + conv + pooled + connected + connected + ["Linear"]
    assert [n for n, _ in network.named_parameters() if n.endswith("bias") and ".1." not in n] == ["fc8.bias"]


def test_a_quarter_of_small_alexnet_has_a_quarter_of_the_channels():
    network = SmallAlexNet(factor=0.25, hidden=512)
    convolutions = [network.conv1, network.conv2, network.conv3, network.conv4, network.conv5]
    assert [layer[0].out_channels for layer in convolutions] == [24, 48, 96, 96, 48]
    assert [network.fc6[0].out_features, network.fc7[0].out_features, network.fc8.out_features] == [512, 512, 128]
    assert network(noise(2, size=32)).shape == (2, 128)
    with pytest.raises(ValueError, match="factor must be positive and below 1000, got 0"):
        SmallAlexNet(factor=0)
