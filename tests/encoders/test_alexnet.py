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
