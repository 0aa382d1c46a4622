"""The AlexNet for small images of the CACR experiments."""

from __future__ import annotations

from torch import Tensor, nn

from isotherm.checks import at_least
from isotherm.encoders.contract import Encoder, scaled_widths

SMALLEST = 15
"""Below this edge the three pools leave nothing."""


class SmallAlexNet(Encoder):
    """Five 3×3 convolutions and three fully connected layers; the last, fc8, is the embedding.

    Zheng et al. (CACR, arXiv:2105.03746), appendix C.1, after Tian et al. 2019 (CMC) and Wang & Isola 2020; 32×32
    images for CIFAR, 64×64 for STL-10. Channels 96, 192, 384, 384, 192, pool(3, 2) after conv1, conv2 and conv5;
    fc6 and fc7 4096 wide. Everything but fc8 is without bias and followed by BN and ReLU; fc8 is not normalized here,
    the pairing does that. Weights start as N(0, 0.02²), as public copies of that network do (the papers do not say).

    The papers probe fc7 (`probed`): ``features(network, x, "fc7")``. 27,221,088 parameters for 32×32,
    58,678,368 for 64×64. `factor` multiplies the channels and `hidden` is the width of fc6 and fc7, for a processor.
    """

    probed = "fc7"

    def __init__(
        self, channels: int = 3, size: int = 32, width: int = 128, factor: float = 1.0, hidden: int = 4096
    ) -> None:
        super().__init__()
        at_least(1, channels=channels, width=width, hidden=hidden)
        at_least(SMALLEST, size=size)
        self.channels, self.size, self.width = channels, size, width
        edge = size
        for _ in range(3):
            edge = (edge - 3) // 2 + 1
        c1, c2, c3 = scaled_widths((96, 192, 384), factor)
        self.conv1 = _convolution(channels, c1, pool=True)
        self.conv2 = _convolution(c1, c2, pool=True)
        self.conv3 = _convolution(c2, c3)
        self.conv4 = _convolution(c3, c3)
        self.conv5 = _convolution(c3, c2, pool=True)
        self.fc6 = _connected(c2 * edge**2, hidden)
        self.fc7 = _connected(hidden, hidden)
        self.fc8 = nn.Linear(hidden, width)
        for m in self.modules():
            if isinstance(m, nn.Conv2d | nn.Linear):
                nn.init.normal_(m.weight, std=0.02)
        nn.init.zeros_(self.fc8.bias)

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        x = self.conv5(self.conv4(self.conv3(self.conv2(self.conv1(x)))))
        out: Tensor = self.fc8(self.fc7(self.fc6(x.flatten(1))))
        return out


def _convolution(before: int, after: int, pool: bool = False) -> nn.Sequential:
    layers = [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.MaxPool2d(3, 2)) if pool else nn.Sequential(*layers)


def _connected(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.ReLU(inplace=True))
