"""ResNets against slow references: convolutions as loops, blocks by their weights."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from isotherm.encoders import (
    ResNet,
)
from isotherm.encoders.resnet import BasicBlock, Bottleneck
from networks import noise, shaken


def slow_conv(x, weight, stride):
    n, _, height, width = x.shape
    out_channels, _, kernel, _ = weight.shape
    pad = kernel // 2
    out = torch.zeros(n, out_channels, (height - 1) // stride + 1, (width - 1) // stride + 1, dtype=x.dtype)
    for b, o, i, j in torch.cartesian_prod(*(torch.arange(s) for s in out.shape)).tolist():
        for dy in range(kernel):
            for dx in range(kernel):
                y, z = i * stride + dy - pad, j * stride + dx - pad
                if 0 <= y < height and 0 <= z < width:
                    out[b, o, i, j] += (x[b, :, y, z] * weight[o, :, dy, dx]).sum()
    return out


def slow_bn(x, bn):
    out = torch.empty_like(x)
    for c in range(x.shape[1]):
        out[:, c] = (x[:, c] - bn.running_mean[c]) / math.sqrt(bn.running_var[c] + bn.eps) * bn.weight[c] + bn.bias[c]
    return out


def slow_shortcut(block, x, stride):
    if isinstance(block.downsample, nn.Identity):
        return x
    return slow_bn(slow_conv(x, block.downsample[0].weight, stride), block.downsample[1])


@pytest.mark.parametrize(("before", "stride"), [(4, 1), (3, 1), (4, 2)])
def test_a_basic_block_is_two_convolutions_beside_a_shortcut(before, stride):
    block = shaken(BasicBlock(before, 4, stride).double()).eval()
    x = torch.randn(2, before, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        inside = slow_bn(slow_conv(x, block.conv1.weight, stride), block.bn1).clamp_min(0)
        inside = slow_bn(slow_conv(inside, block.conv2.weight, 1), block.bn2)
        torch.testing.assert_close(block(x), (inside + slow_shortcut(block, x, stride)).clamp_min(0))
    assert isinstance(block.downsample, nn.Identity) == (before == 4 and stride == 1)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_bottleneck_strides_at_its_middle(stride):
    block = shaken(Bottleneck(4, 2, stride).double()).eval()
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        inside = slow_bn(slow_conv(x, block.conv1.weight, 1), block.bn1).clamp_min(0)
        inside = slow_bn(slow_conv(inside, block.conv2.weight, stride), block.bn2).clamp_min(0)
        inside = slow_bn(slow_conv(inside, block.conv3.weight, 1), block.bn3)
        torch.testing.assert_close(block(x), (inside + slow_shortcut(block, x, stride)).clamp_min(0))


@pytest.mark.parametrize("small", [True, False])
def test_resnet18_is_its_weights_in_the_papers_order(small):
    network = shaken(ResNet(18, small=small).double()).eval()
    w = network.state_dict()

    def conv_bn(x, conv, bn, stride, padding):
        x = F.conv2d(x, w[f"{conv}.weight"], stride=stride, padding=padding)
        mean, var, scale, shift = (w[f"{bn}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return (x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt() * scale[:, None, None] + shift[
            :, None, None
        ]

    x = noise(2, size=16, dtype=torch.float64)
    y = conv_bn(x, "conv1", "bn1", *((1, 1) if small else (2, 3))).relu()
    if not small:
        y = F.max_pool2d(y, 3, 2, 1)
    for stage in range(1, 5):
        for number in range(2):
            stride, name = 2 if stage > 1 and number == 0 else 1, f"layer{stage}.{number}"
            inside = conv_bn(y, f"{name}.conv1", f"{name}.bn1", stride, 1).relu()
            inside = conv_bn(inside, f"{name}.conv2", f"{name}.bn2", 1, 1)
            if stride == 2:
                y = conv_bn(y, f"{name}.downsample.0", f"{name}.downsample.1", 2, 0)
            y = (inside + y).relu()
    with torch.no_grad():
        torch.testing.assert_close(network(x), y.flatten(2).mean(2))


def test_zero_init_starts_every_block_as_its_shortcut():
    network = ResNet(18, small=True, zero_init=True).eval()
    x = torch.rand(2, 64, 6, 6)
    assert torch.equal(network.layer1(x), x)
    assert all((b.bn2.weight == 0).all() for b in network.modules() if isinstance(b, BasicBlock))
    assert not any((b.bn2.weight == 0).any() for b in ResNet(18).modules() if isinstance(b, BasicBlock))
    assert (ResNet(50, zero_init=True).layer2[1].bn3.weight == 0).all()


def test_resnet_starts_as_he_says():
    weight = ResNet(18).layer3[0].conv1.weight
    assert weight.std().item() == pytest.approx(math.sqrt(2 / (256 * 9)), rel=0.01)  # 294,912 draws: 0.13 % error
