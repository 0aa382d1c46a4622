"""Residual networks, with the stem for small images."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu_

from isotherm.checks import at_least
from isotherm.encoders.contract import Encoder

DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
"""Blocks in each of the four stages; 18 and 34 have basic blocks, 50 has bottlenecks."""


class ResNet(Encoder):
    """ResNet-18, 34 or 50 without its classifier: the mean over positions of the last stage.

    He et al. 2015 (arXiv:1512.03385), Table 1. `small` is the stem for 32×32 images, a 3×3 convolution of stride 1
    and no max-pool (Wang & Liu §5.1; DySTreSS A.1). `zero_init` starts the last BN of each block at 0, so that every
    block starts as its shortcut. Weights start as He's normals (fan out).

    11,176,512, 21,284,672 and 23,508,032 parameters; the small stem has 7,680 fewer. Layers are named as in
    torchvision, so its weights load once ``fc`` is taken out of them.
    Differs from the paper: a bottleneck's stride is at its 3×3 convolution, as in everybody's code.
    """

    def __init__(self, depth: int = 18, channels: int = 3, small: bool = False, zero_init: bool = False) -> None:
        super().__init__()
        if depth not in DEPTHS:
            raise ValueError(f"ResNet has depths {', '.join(map(str, DEPTHS))}; got {depth!r}.")
        at_least(1, channels=channels)
        block = Bottleneck if depth >= 50 else BasicBlock
        self.channels, self.width = channels, 512 * block.expansion
        if small:
            self.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        first, second, third, fourth = DEPTHS[depth]
        self.layer1 = _stage(block, 64, 64, first, stride=1)
        self.layer2 = _stage(block, 64 * block.expansion, 128, second, stride=2)
        self.layer3 = _stage(block, 128 * block.expansion, 256, third, stride=2)
        self.layer4 = _stage(block, 256 * block.expansion, 512, fourth, stride=2)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init and isinstance(m, BasicBlock | Bottleneck):
                nn.init.zeros_(m.last_bn.weight)

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        x = self.maxpool(relu_(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut: relu(bn(conv(relu(bn(conv(x))))) + shortcut(x))."""

    expansion = 1

    def __init__(self, before: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _shortcut(before, planes, stride)

    @property
    def last_bn(self) -> nn.BatchNorm2d:
        return self.bn2

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = relu_(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return relu_(y.add_(self.downsample(x)))


class Bottleneck(nn.Module):
    """A 1×1, a 3×3 and a 1×1 convolution beside a shortcut, four times as wide outside as inside."""

    expansion = 4

    def __init__(self, before: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        after = planes * self.expansion
        self.conv1 = nn.Conv2d(before, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, after, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(after)
        self.downsample = _shortcut(before, after, stride)

    @property
    def last_bn(self) -> nn.BatchNorm2d:
        return self.bn3

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = relu_(self.bn1(self.conv1(x)))
        y = relu_(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return relu_(y.add_(self.downsample(x)))


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    """The image itself where it fits, else a strided 1×1 convolution (option B of the paper)."""
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after))


def _stage(
    block: type[BasicBlock] | type[Bottleneck], before: int, planes: int, blocks: int, stride: int
) -> nn.Sequential:
    after = planes * block.expansion
    return nn.Sequential(block(before, planes, stride), *(block(after, planes) for _ in range(blocks - 1)))
