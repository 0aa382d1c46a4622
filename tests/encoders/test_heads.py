"""Heads have the papers' layers."""

import pytest
import torch
from torch import nn

from isotherm.encoders import (
    HEADS,
    head,
)


def layers_of(module):
    def one(layer):
        if isinstance(layer, nn.Linear):
            return f"{layer.in_features}→{layer.out_features}" + ("+b" if layer.bias is not None else "")
        if isinstance(layer, nn.BatchNorm1d):
            return ("bn" if layer.bias.requires_grad else "bn*") if layer.affine else "bn-"
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
        ("simclr-code", 512, {"layers": 3}, "512→512 bn relu 512→512 bn relu 512→128 bn*"),
        ("mlp-bn", 512, {}, "512→512 bn relu 512→128 bn-"),
        ("linear-bn", 512, {}, "512→128 bn-"),
        ("swav", 2048, {}, "2048→2048 bn relu 2048→128+b"),
        ("dino", 384, {}, "384→2048+b gelu 2048→2048+b gelu 2048→256+b"),
        ("dino-resnet", 512, {"layers": 2}, "512→2048+b bn gelu 2048→256+b"),
        ("dystress", 512, {"affine_last": "scale"}, "512→512 bn relu 512→128 bn*"),
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


def test_a_last_bn_with_scale_alone_learns_a_scale_and_never_a_shift():
    made = head("simclr-code", 8, width=4)
    rule = torch.optim.SGD([p for p in made.parameters() if p.requires_grad], lr=0.1)
    x, target = torch.randn(32, 8), torch.randn(32, 4) + 3
    for _ in range(5):
        rule.zero_grad()
        (made(x) - target).square().mean().backward()
        rule.step()
    last = made[-1]
    assert not torch.equal(last.weight, torch.ones(4))
    assert torch.equal(last.bias, torch.zeros(4))
    torch.testing.assert_close(made(x).mean(0), torch.zeros(4), atol=1e-5, rtol=0)
