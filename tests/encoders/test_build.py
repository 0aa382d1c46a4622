"""Encoders by name, other people's networks, and one sentence for whatever cannot be built."""

import copy
import sys
import types

import pytest
import torch
from torch import nn

from isotherm.encoders import (
    VAE,
    ConvNet,
    ResNet,
    SmallAlexNet,
    ViT,
    encoder,
    head,
)
from networks import Odd, noise


def test_any_module_passes_through_with_its_width():
    module = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Flatten())
    module[1].eval()
    modes = [m.training for m in module.modules()]
    before = copy.deepcopy(module.state_dict())
    made = encoder(module, size=8)
    assert made is module
    assert made.width == 6 * 36
    assert [m.training for m in module.modules()] == modes
    assert all(torch.equal(a, b) for a, b in zip(before.values(), module.state_dict().values(), strict=True))
    assert encoder(nn.Flatten(), channels=2, size=4).width == 32
    assert encoder(nn.Sequential(nn.Flatten(), nn.LazyLinear(5))).width == 5
    assert encoder(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)).double(), size=2).width == 5
    ours = ConvNet(channels=1)
    assert encoder(ours, channels=1, size=8) is ours


def test_missing_and_broken_libraries_get_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "timm", None)  # what Python itself does for a module that is not there
    with pytest.raises(ValueError, match=r"timm:resnet18 needs timm, which is not installed: pip install"):
        encoder("timm:resnet18")
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    with pytest.raises(ValueError, match=r"does not import \(operator torchvision::nms does not exist\), usually") as e:
        encoder("torchvision:resnet18")
    assert "\n" not in str(e.value)


def test_library_networks_come_without_classifier_and_without_download(monkeypatch):
    asked = {}

    def create_model(name, **settings):
        asked.update(settings)
        return nn.Sequential(nn.Flatten(), nn.Linear(settings["in_chans"] * 64, 7))

    timm = types.SimpleNamespace(list_models=lambda: ["resnet18", "vit_tiny"], create_model=create_model)
    monkeypatch.setitem(sys.modules, "timm", timm)
    assert encoder("timm:resnet18.a1_in1k", channels=2, size=8, drop_rate=0.1).width == 7
    assert asked == {"num_classes": 0, "in_chans": 2, "drop_rate": 0.1}
    with pytest.raises(ValueError, match="timm has no model 'resnet19'; did you mean 'resnet18'"):
        encoder("timm:resnet19")

    def get_model(name, weights):
        assert weights is None
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.Sequential(nn.ReLU(), nn.Linear(9, 1000)))

    models = types.SimpleNamespace(list_models=lambda module: ["vgg11"], get_model=get_model)
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(models=models))
    assert encoder("torchvision:vgg11", size=8).width == 9
    with pytest.raises(
        ValueError, match=r"torchvision's networks take 3 channels, got 1. Use timm:vgg11 or one of ours"
    ):
        encoder("torchvision:vgg11", channels=1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: encoder("resnet19"), ValueError, "no encoder 'resnet19'; did you mean 'resnet18'"),
        (lambda: encoder("zzz"), ValueError, "there is: convnet, small_alexnet, .*timm:NAME, torchvision:NAME"),
        (lambda: encoder("tim:resnet18"), ValueError, "no library 'tim' of encoders; did you mean 'timm'"),
        (lambda: encoder(18), TypeError, "a name or an nn.Module, got int"),
        (lambda: encoder("convnet", channels=0), ValueError, "channels must be 1 or more, got 0"),
        (lambda: encoder("convnet", size=8.0), TypeError, "size must be a whole number, got 8.0"),
        (lambda: encoder("convnet", withs=(8,)), TypeError, "convnet has no setting 'withs'; did you mean 'widths'"),
        (lambda: encoder("resnet18", depth=50), TypeError, "no setting 'depth'; it has: small, zero_init"),
        (lambda: encoder(nn.Flatten(), small=True), TypeError, "built already: it takes no setting 'small'"),
        (lambda: encoder(nn.Conv2d(3, 4, 3)), ValueError, r"gives \(2, 4, 30, 30\) for 2 images.*Add a pool"),
        (lambda: encoder(nn.Linear(5, 4)), ValueError, r"Linear does not take images \(2, 3, 32, 32\)"),
        (lambda: encoder(Odd(lambda x: (x,))), TypeError, "Odd gives a tuple"),
        (lambda: encoder(ConvNet(channels=1)), ValueError, "built for images"),
        (lambda: ConvNet(chanels=1), TypeError, "ConvNet has no setting 'chanels'; did you mean 'channels'"),
        (lambda: ConvNet(widths=()), ValueError, "widths is empty"),
        (lambda: ConvNet(widths=(8, 0)), ValueError, r"widths\[1\] must be 1 or more"),
        (lambda: SmallAlexNet(size=8), ValueError, "size must be 15 or more, got 8"),
        (lambda: ResNet(101), ValueError, "depths 18, 34, 50; got 101"),
        (lambda: ViT(size=30, patch=4), ValueError, "30 pixels do not divide into patches of 4"),
        (lambda: ViT(width=100, heads=12), ValueError, "100 does not divide among 12 heads"),
        (lambda: ViT(width=6, heads=2), ValueError, "divisible by 4, got 6"),
        (lambda: VAE(size=12, widths=(4, 4, 4), padding=0), ValueError, "12×12 are too small.*padding 1"),
        (lambda: VAE(widths=()), ValueError, "widths is empty"),
        (lambda: VAE(likelihood="gausian"), ValueError, "did you mean 'gaussian'"),
        (lambda: head("simcrl", 8), ValueError, "no head 'simcrl'; did you mean 'simclr'"),
        (lambda: head("simclr", 8, witdh=3), TypeError, "head 'simclr' has no setting 'witdh'; did you mean 'width'"),
        (lambda: head("simclr", 0), ValueError, "features must be 1 or more"),
        (lambda: head("simclr", 8, layers=-1), ValueError, "layers must be 0 or more"),
        (lambda: head("simclr", 8, affine_last=False), ValueError, "needs bn_last=True"),
        (lambda: head("dystress", 8, affine_last="shift"), ValueError, "True, False or \"scale\", got 'shift'"),
        (lambda: head("simclr", 8)(torch.randn(2, 9)), ValueError, r"takes features \(N, 8\), got \(2, 9\)"),
        (lambda: ConvNet()(noise()[0]), ValueError, r"\(N, 3, H, W\), got \(3, 32, 32\). Give a batch"),
        (lambda: ConvNet()(noise(channels=1)), ValueError, r"got \(2, 1, 32, 32\). Build it with their channels"),
        (lambda: SmallAlexNet()(noise(size=64)), ValueError, r"\(N, 3, 32, 32\), got .*Build it with their size"),
        (lambda: ConvNet()(noise().byte()), TypeError, "takes floating-point images, got torch.uint8"),
        (lambda: ConvNet()([1.0]), TypeError, "takes a tensor of images, got list"),
        (lambda: VAE()(noise(channels=1)), ValueError, r"\(N, 1, 28, 28\)"),
        (lambda: VAE(size=8).elbo(2 * noise(channels=1, size=8)), ValueError, r"in \[0, 1\].*Do not normalize"),
        (lambda: VAE(size=8).elbo(noise(3, 1, 8), torch.zeros(2, 64)), ValueError, r"noise must be \(3, 64\)"),
    ],
)
def test_bad_input_gets_one_sentence(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_width_that_means_something_else_is_not_overwritten():
    module = nn.Flatten()
    module.width = 2
    with pytest.raises(ValueError, match="gives 192 features but has a `width` of 2"):
        encoder(module, size=8)
    assert module.width == 2
