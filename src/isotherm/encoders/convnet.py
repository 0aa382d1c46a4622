"""The small default: quick on a CPU, large enough to show the papers' trends."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from isotherm.checks import at_least
from isotherm.encoders.contract import Encoder, scaled_widths


class ConvNet(Encoder):
    """Four 3×3 convolutions with BN and ReLU, each after the first halving the image, then the mean over positions.

    Images of any size from 8×8 (the embedded digits) to 32×32 and beyond. 241,184 parameters for three channels.
    `stride` is that of the first layer: 2 makes 32×32 images about three times as fast. `factor` multiplies all widths.
    From no paper: the default where there is no GPU.
    """

    def __init__(
        self,
        channels: int = 3,
        widths: Sequence[int] = (32, 64, 128, 128),
        stride: int = 1,
        factor: float = 1.0,
    ) -> None:
        super().__init__()
        if not widths:
            raise ValueError("ConvNet needs at least one layer: widths is empty.")
        widths = scaled_widths(widths, factor)
        at_least(1, channels=channels, stride=stride, **{f"widths[{i}]": w for i, w in enumerate(widths)})
        self.channels, self.width = channels, widths[-1]
        for i, (before, after) in enumerate(zip((channels, *widths), widths, strict=False)):
            self.add_module(
                f"conv{i + 1}",
                nn.Sequential(
                    nn.Conv2d(before, after, 3, stride=stride if i == 0 else 2, padding=1, bias=False),
                    nn.BatchNorm2d(after),
                    nn.ReLU(inplace=True),
                ),
            )
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        for layer in self.children():
            x = layer(x)
        return x.mean((2, 3))
