"""Every network has the published shape and size, and obeys the laws that all of them obey."""

import copy

import pytest
import torch

from isotherm.encoders import (
    NETWORKS,
    ConvNet,
    Encoder,
    ResNet,
    SmallAlexNet,
    ViT,
    encoder,
)
from networks import noise, shaken

WIDTHS = {
    "convnet": 128,
    "small_alexnet": 128,
    "resnet18": 512,
    "resnet34": 512,
    "resnet50": 2048,
    "vit_small": 384,
    "vit_base": 768,
    "vae": 64,
}


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def short(name):
    """A network of the name for 16×16 images, no deeper than needed to try it."""
    return encoder(name, size=16, **({"depth": 2} if name.startswith("vit") else {}))


@pytest.mark.parametrize(
    ("name", "channels", "size"),
    [
        ("convnet", 1, 8),
        ("convnet", 3, 32),
        ("convnet", 7, 28),
        ("small_alexnet", 3, 32),
        ("small_alexnet", 2, 64),
        ("resnet18", 3, 32),
        ("resnet18", 11, 64),
        ("resnet34", 1, 28),
        ("resnet50", 3, 32),
        ("vit_small", 3, 32),
        ("vit_small", 5, 128),
        ("vit_base", 1, 16),
        ("vae", 1, 28),
        ("vae", 9, 32),
    ],
)
def test_images_become_features(name, channels, size):
    network = encoder(name, channels=channels, size=size)
    assert isinstance(network, Encoder)
    assert network.width == WIDTHS[name]
    with torch.no_grad():
        out = network(noise(2, channels, size))
    assert out.shape == (2, WIDTHS[name])
    assert out.isfinite().all()


def test_every_network_is_tried():
    assert set(WIDTHS) == set(NETWORKS)


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (lambda: ResNet(18), 11_176_512),  # torchvision's 11,689,512 less fc, 512·1000 + 1000
        (lambda: ResNet(34), 21_284_672),
        (lambda: ResNet(50), 23_508_032),
        (lambda: ResNet(18, small=True), 11_176_512 - 64 * 3 * (49 - 9)),
        (lambda: ResNet(18, channels=1), 11_176_512 - 64 * 2 * 49),
        (ViT, 22_050_664 - 385_000 - 197 * 384),  # DeiT-S less its classifier and learned positions
        (lambda: ViT(width=768), 86_567_656 - 769_000 - 197 * 768),  # ViT-B/16, the same
        (ConvNet, 241_184),
        (
            SmallAlexNet,
            9 * (3 * 96 + 96 * 192 + 192 * 384 + 384 * 384 + 384 * 192)
            + 2 * (96 + 192 + 384 + 384 + 192)
            + 4096 * (192 * 3 * 3 + 4096 + 2 * 2)
            + 4097 * 128,
        ),
        (lambda: SmallAlexNet(size=64), 58_678_368),  # fc6 sees 7×7 positions instead of 3×3
    ],
)
def test_parameter_counts(network, count):
    with torch.device("meta"):
        made = network()
    assert parameters(made) == count


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (ConvNet, ["241,184"]),
        (SmallAlexNet, ["27,221,088", "58,678,368"]),
        (ResNet, ["11,176,512", "21,284,672", "23,508,032", "7,680 fewer"]),
        (ViT, ["21,590,016", "85,647,360"]),
    ],
)
def test_the_docstring_says_the_parameter_counts(network, said):
    assert [number for number in said if number not in network.__doc__] == []


def test_the_size_chooses_the_stem_and_the_patch_unless_they_are_given():
    assert encoder("resnet18", size=32).conv1.kernel_size == (3, 3)
    assert encoder("resnet18", size=64).conv1.kernel_size == (7, 7)
    assert encoder("resnet18", size=64, small=True).conv1.kernel_size == (3, 3)
    assert encoder("vit_small", size=32, depth=1).patch.kernel_size == (4, 4)
    assert encoder("vit_small", size=128, depth=1).patch.kernel_size == (16, 16)
    assert encoder("vit_small", size=32, depth=1, patch=8).patch.kernel_size == (8, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convnet", "small_alexnet", "resnet18", "vit_small", "vae"])
def test_channels_last_changes_nothing(name):
    network = shaken(short(name).double()).eval()
    x = noise(size=16, dtype=torch.float64)
    with torch.no_grad():
        plain = network(x)
        network.to(memory_format=torch.channels_last)
        last = network(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(last, plain, rtol=1e-8, atol=1e-8)  # sums in another order, through many layers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convnet", "small_alexnet", "resnet18", "vit_small", "vae"])
def test_bfloat16_autocast_trains_in_channels_last(name):
    network = short(name).to(memory_format=torch.channels_last)
    x = noise(4, size=16).to(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        out = network(x)
        cost = network.elbo(x).loss if name == "vae" else out.float().square().mean()
    cost.backward()
    assert out.shape == (4, network.width)
    assert cost.dtype == torch.float32
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("name", ["convnet", "small_alexnet", "resnet18", "vit_small", "vae"])
def test_a_seed_makes_the_same_network_and_its_weights_travel(name):
    torch.manual_seed(3)
    one = short(name)
    torch.manual_seed(3)
    two = short(name)
    other = short(name)
    pairs = list(zip(one.state_dict().values(), two.state_dict().values(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    x = noise(size=16)
    with torch.no_grad():
        assert not torch.equal(other.eval()(x), one.eval()(x))
        other.load_state_dict(one.state_dict())
        assert torch.equal(other(x), one(x))
        assert torch.equal(copy.deepcopy(one)(x), one(x))


@pytest.mark.parametrize("name", ["convnet", "small_alexnet", "resnet18", "vit_small"])
def test_the_gradient_reaches_every_parameter(name):
    network = short(name)
    (network(noise(4, size=16)) * torch.randn(4, network.width)).sum().backward()
    still = [n for n, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []
