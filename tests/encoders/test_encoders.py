"""Encoders have the published shapes and sizes, heads the papers' layers, and a network is left as it was found."""

import copy
import math
import sys
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from isotherm.encoders import (
    HEADS,
    NETWORKS,
    VAE,
    ConvNet,
    Encoder,
    ResNet,
    SmallAlexNet,
    ViT,
    encoder,
    features,
    head,
)
from isotherm.encoders.resnet import BasicBlock, Bottleneck
from isotherm.encoders.vit import positions

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


def noise(n=2, channels=3, size=32, dtype=torch.float32, seed=0):
    return torch.rand(n, channels, size, size, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def shaken(module, seed=0):
    """The module with weights and running statistics that are all different: no zero or one hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                noise = torch.randn(value.shape, generator=generator, dtype=value.dtype)
                value.copy_(0.5 + noise.abs() if "running_var" in name else value + 0.1 * noise)
    return module


def short(name):
    """A network of the name for 16×16 images, no deeper than needed to try it."""
    return encoder(name, size=16, **({"depth": 2} if name.startswith("vit") else {}))


# Shapes and sizes


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


def test_the_size_chooses_the_stem_and_the_patch_unless_they_are_given():
    assert encoder("resnet18", size=32).conv1.kernel_size == (3, 3)
    assert encoder("resnet18", size=64).conv1.kernel_size == (7, 7)
    assert encoder("resnet18", size=64, small=True).conv1.kernel_size == (3, 3)
    assert encoder("vit_small", size=32, depth=1).patch.kernel_size == (4, 4)
    assert encoder("vit_small", size=128, depth=1).patch.kernel_size == (16, 16)
    assert encoder("vit_small", size=32, depth=1, patch=8).patch.kernel_size == (8, 8)


# Arithmetic against slow references


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


def test_positions_are_sines_and_cosines_of_column_and_row():
    rows, columns, width = 3, 5, 8
    made = positions(rows, columns, width)
    assert made.shape == (1, rows * columns, width)
    for y in range(rows):
        for x in range(columns):
            wanted = []
            for wave, place in ((math.sin, x), (math.cos, x), (math.sin, y), (math.cos, y)):
                for k in range(width // 4):
                    wanted.append(wave(place / 10000 ** (k / (width // 4))))
            assert made[0, y * columns + x].tolist() == pytest.approx(wanted, abs=1e-7)


def test_vit_attention_is_a_softmax_over_tokens():
    network = shaken(ViT(size=8, patch=4, width=12, heads=3, depth=1).double()).eval()
    block, x = network.blocks[0], torch.randn(2, 5, 12, dtype=torch.float64)
    with torch.no_grad():
        q, k, v = block.qkv(x).chunk(3, 2)
        mixed = torch.zeros_like(x)
        for h in range(3):
            part = slice(4 * h, 4 * h + 4)
            for n in range(2):
                weights = (q[n, :, part] @ k[n, :, part].T / math.sqrt(4)).exp()
                mixed[n, :, part] = weights / weights.sum(1, keepdim=True) @ v[n, :, part]
        torch.testing.assert_close(block.attention(x), block.proj(mixed))


def test_vit_patches_meet_their_own_positions():
    network = shaken(ViT(channels=1, size=8, patch=4, width=8, heads=2, depth=1).double()).eval()
    x = noise(1, 1, 8, torch.float64)
    seen = []
    network.blocks.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    network(x)
    corner = (network.patch.weight[:, 0] * x[0, 0, 0:4, 4:8]).sum((1, 2)) + network.patch.bias
    torch.testing.assert_close(seen[0][0, 2], corner + network.positions[0, 1])
    torch.testing.assert_close(seen[0][0, 0], network.token[0, 0])


def test_mocov3_keeps_the_random_patch_projection():
    network = ViT(size=8, patch=4, depth=1, stop_grad_patch=True)
    network(noise(2, size=8)).square().sum().backward()
    assert network.patch.weight.grad is None
    assert all(p.grad is not None for p in network.blocks.parameters())


def test_vit_starts_as_mocov3_says():
    torch.manual_seed(0)
    network = ViT(size=8, patch=4, depth=1)
    block = network.blocks[0]
    for weight, fans in [
        (block.qkv.weight, 384 + 384),  # each of the three for itself
        (block.fc1.weight, 384 + 4 * 384),
        (network.patch.weight, 3 * 16 + 384),
    ]:
        assert weight.abs().max().item() == pytest.approx(math.sqrt(6 / fans), rel=1e-3)
    assert network.token.abs().max() < 1e-5
    assert not block.qkv.bias.any()


def test_vit_weights_move_between_sizes():
    large, small = ViT(size=16, patch=4, depth=1), ViT(size=8, patch=4, depth=1)
    small.load_state_dict(large.state_dict())
    assert small(noise(2, size=8)).shape == (2, 384)


# Laws of every network


@pytest.mark.parametrize("name", ["convnet", "small_alexnet", "resnet18", "vit_small", "vae"])
def test_channels_last_changes_nothing(name):
    network = shaken(short(name).double()).eval()
    x = noise(size=16, dtype=torch.float64)
    with torch.no_grad():
        plain = network(x)
        network.to(memory_format=torch.channels_last)
        last = network(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(last, plain, rtol=1e-10, atol=1e-12)


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


# Heads


def layers_of(module):
    def one(layer):
        if isinstance(layer, nn.Linear):
            return f"{layer.in_features}→{layer.out_features}" + ("+b" if layer.bias is not None else "")
        if isinstance(layer, nn.BatchNorm1d):
            return "bn" if layer.affine else "bn-"
        return type(layer).__name__.lower()

    return " ".join(one(layer) for layer in module)


@pytest.mark.parametrize(
    ("name", "features", "settings", "wanted"),
    [
        ("none", 128, {}, ""),
        ("linear", 512, {}, "512→128+b"),
        ("simclr", 2048, {}, "2048→2048 bn relu 2048→128+b"),
        ("simclr", 512, {"width": 64, "layers": 3}, "512→512 bn relu 512→512 bn relu 512→64+b"),
        ("mocov2", 2048, {}, "2048→2048+b relu 2048→128+b"),
        ("mocov3", 384, {}, "384→4096 bn relu 4096→4096 bn relu 4096→256 bn-"),
        ("mocov3-resnet", 2048, {}, "2048→4096 bn relu 4096→256 bn-"),
        ("mocov3-predictor", 256, {}, "256→4096 bn relu 4096→256 bn-"),
        ("dystress", 512, {}, "512→512 bn relu 512→128 bn"),
        ("dystress", 512, {"bn": False, "hidden": 32, "width": 16}, "512→32+b relu 32→16 bn"),
    ],
)
def test_heads_have_the_papers_layers(name, features, settings, wanted):
    made = head(name, features, **settings)
    assert layers_of(made) == wanted
    x = torch.randn(4, features)
    assert made(x).shape == (4, made.width)
    if name == "none":
        assert torch.equal(made(x), x)


def test_every_head_says_where_it_is_from():
    for preset in HEADS.values():
        assert any(word in preset.about for word in ("arXiv", "CACR", "MoCo"))


def test_a_head_that_ends_in_bn_gives_every_coordinate_mean_0_and_variance_1():
    z = head("mocov3-predictor", 256, hidden=64)(torch.randn(16, 256))
    torch.testing.assert_close(z.mean(0), torch.zeros(256), atol=1e-5, rtol=0)
    # BN adds 1e-5 to a variance that is small at the start.
    torch.testing.assert_close(z.var(0, correction=0), torch.ones(256), atol=1e-3, rtol=0)


# VAE


def test_the_kl_is_that_of_the_distributions():
    network = shaken(VAE(channels=2, size=8).double())
    x = noise(3, 2, 8, torch.float64)
    mean, log_variance = network.posterior(x)
    q = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    wanted = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(network.elbo(x).kl, wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(network(x), mean)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_the_reconstruction_is_a_log_likelihood(likelihood):
    network = shaken(VAE(channels=2, size=8, width=5, likelihood=likelihood).double())
    x = noise(3, 2, 8, torch.float64).round()
    drawn = torch.randn(3, 5, dtype=torch.float64)
    mean, log_variance = network.posterior(x)
    expected = network.decode(mean + log_variance.exp().sqrt() * drawn)
    if likelihood == "bernoulli":
        p = torch.distributions.Bernoulli(expected)
    else:
        p = torch.distributions.Normal(expected, 1.0)
    terms = network.elbo(x, drawn)
    torch.testing.assert_close(terms.reconstruction, -p.log_prob(x).sum((1, 2, 3)), rtol=1e-10, atol=1e-10)
    assert terms.reconstruction.shape == terms.kl.shape == (3,)
    torch.testing.assert_close(terms.loss, (terms.reconstruction + terms.kl).mean())


def test_the_vae_learns_and_every_parameter_takes_part():
    torch.manual_seed(0)
    network = VAE(channels=3, size=8, width=4, planes=8, hidden=32)  # an image and two planes of random bits
    x = noise(16, 3, 8)
    x[:, 1:] = torch.randint(0, 2, (16, 2, 1, 1)).expand(-1, -1, 8, 8).float()
    weights = list(network.parameters())
    costs = []
    for _ in range(60):
        cost = network.elbo(x).loss
        slopes = torch.autograd.grad(cost, weights)
        costs.append(cost.item())
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.sub_(slope.sign(), alpha=3e-3)  # as Adam would; importing it takes seconds
    assert all(slope.any() for slope in slopes)
    assert costs[0] == pytest.approx(3 * 64 * math.log(2), rel=0.02)  # it starts by guessing every pixel
    assert costs[-1] < 0.85 * costs[0]


# Features of a layer


def test_features_are_those_of_the_layer():
    network = shaken(SmallAlexNet()).eval()
    x = noise(3)
    with torch.no_grad():
        conv5 = network.conv5(network.conv4(network.conv3(network.conv2(network.conv1(x)))))
        fc7 = network.fc7(network.fc6(conv5.flatten(1)))
    assert torch.equal(features(network, x), network(x))
    assert torch.equal(features(network, x, "fc7"), fc7)
    assert torch.equal(features(network, x, "conv5"), conv5.flatten(1))
    assert torch.equal(features(network, x, "conv5", pool=True), conv5.mean((2, 3)))
    assert torch.equal(features(network, x, "fc7.2"), fc7)
    transformer = ViT(size=8, patch=4, depth=2).eval()
    assert features(transformer, noise(3, size=8), "blocks.0").shape == (3, 5 * 384)
    assert features(transformer, noise(3, size=8), "blocks.0", pool=True).shape == (3, 384)


def test_features_are_taken_before_the_next_layer_works_in_place():
    network = shaken(ConvNet()).eval()
    assert (features(network, noise(), "conv1.1") < 0).any()


def test_features_leave_the_network_as_it_was():
    network = ConvNet()
    network.conv2.eval()  # a frozen part
    modes = [m.training for m in network.modules()]
    before = copy.deepcopy(network.state_dict())
    out = features(network, noise(), "conv3")
    assert not out.requires_grad
    assert [m.training for m in network.modules()] == modes
    assert all(torch.equal(a, b) for a, b in zip(before.values(), network.state_dict().values(), strict=True))
    probe = nn.Linear(out.shape[1], 2)
    probe(out).sum().backward()  # would fail on inference tensors


def test_the_hook_goes_even_when_the_network_fails():
    network = ConvNet()
    with pytest.raises(ValueError, match="built for images"):
        features(network, noise(channels=4), "conv3")
    assert not network.conv3._forward_hooks
    assert network.training
    features(network, noise(), "conv3")
    assert not network.conv3._forward_hooks


class Odd(nn.Module):
    """Uses one layer twice and one never; gives what it is told."""

    def __init__(self, gives):
        super().__init__()
        self.twice, self.never, self.gives = nn.Flatten(), nn.Flatten(), gives

    def forward(self, x):
        self.twice(x)
        return self.gives(self.twice(x))


@pytest.mark.parametrize(
    ("gives", "layer", "error", "words"),
    [
        (lambda x: x, "twise", ValueError, "Odd has no layer 'twise'; did you mean 'twice'?"),
        (lambda x: x, "zzz", ValueError, "Odd has no layer 'zzz'; there is: twice, never."),
        (lambda x: x, "twice", ValueError, "layer 'twice' ran 2 times"),
        (lambda x: x, "never", ValueError, "layer 'never' ran 0 times"),
        (lambda x: (x,), None, TypeError, "Odd gives a tuple, not a tensor"),
        (lambda x: x.sum(0), None, ValueError, r"Odd gives \(192,\) for 2 images"),
    ],
)
def test_layers_without_one_output_a_image(gives, layer, error, words):
    with pytest.raises(error, match=words):
        features(Odd(gives), noise(size=8), layer)


# Networks of other people


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


# Bad input


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
        (lambda: VAE(size=30), ValueError, "divisible by 4, got 30"),
        (lambda: VAE(likelihood="gausian"), ValueError, "did you mean 'gaussian'"),
        (lambda: head("simcrl", 8), ValueError, "no head 'simcrl'; did you mean 'simclr'"),
        (lambda: head("simclr", 8, witdh=3), TypeError, "head 'simclr' has no setting 'witdh'; did you mean 'width'"),
        (lambda: head("simclr", 0), ValueError, "features must be 1 or more"),
        (lambda: head("simclr", 8, layers=-1), ValueError, "layers must be 0 or more"),
        (lambda: head("simclr", 8, affine_last=False), ValueError, "needs bn_last=True"),
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
