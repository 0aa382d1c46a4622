"""Projection and prediction heads: what stands between an encoder's features and the embeddings a loss compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor, nn

from isotherm.checks import at_least, deep, did_you_mean, known_settings, parameters


class Head(nn.Sequential):
    """Linear layers with ReLU between them, and BN where asked: features (N, features) in, embeddings (N, width) out.

    `layers` 0 is no head at all, 1 a linear one. `hidden` is the width between the layers, by default that of the
    features. `bn` follows every layer but the last with BN, `bn_last` the last one too: with scale and shift, with the
    scale alone if `affine_last` is "scale", with neither if it is off. A contrastive loss hardly sees a common offset
    of all embeddings, so a last shift is free to grow, and with a low temperature it does, into a cone. A layer that BN
    follows has no bias: BN would take it away again.
    """

    width: int
    """How many numbers per embedding has."""

    def __init__(
        self,
        features: int,
        width: int = 128,
        hidden: int | None = None,
        layers: int = 2,
        bn: bool = True,
        bn_last: bool = False,
        affine_last: bool | Literal["scale"] = True,
    ) -> None:
        at_least(1, features=features, width=width, hidden=features if hidden is None else hidden)
        deep(0, layers=layers)
        if affine_last not in (True, False, "scale"):
            raise ValueError(f'affine_last takes True, False or "scale", got {affine_last!r}.')
        if affine_last is not True and not bn_last:
            raise ValueError(f"affine_last={affine_last} is about the last layer's BN: it needs bn_last=True.")
        inside = features if hidden is None else hidden
        stack: list[nn.Module] = []
        for i in range(layers):
            last = i == layers - 1
            normalized = bn_last if last else bn
            after = width if last else inside
            stack.append(nn.Linear(features if i == 0 else inside, after, bias=not normalized))
            if normalized:
                stack.append(_batchnorm(after, affine_last if last else True))
            if not last:
                stack.append(nn.ReLU(inplace=True))
        super().__init__(*stack)
        self.features, self.width = features, width if layers else features

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.features:
            raise ValueError(f"this head takes features (N, {self.features}), got {tuple(x.shape)}.")
        for layer in self:
            x = layer(x)
        return x


def _batchnorm(width: int, affine: bool | Literal["scale"]) -> nn.BatchNorm1d:
    """BN with scale and shift, with the scale alone, or with neither."""
    norm = nn.BatchNorm1d(width, affine=bool(affine))
    if affine == "scale":
        norm.bias.requires_grad_(False)  # it starts at zero and stays there
    return norm


class Tanh(nn.Sequential):
    """One linear layer and tanh, of the features' width unless told: BERT's own pooler, and SimCSE's."""

    width: int

    def __init__(self, features: int, width: int | None = None) -> None:
        width = features if width is None else width
        at_least(1, features=features, width=width)
        super().__init__(nn.Linear(features, width), nn.Tanh())
        self.width = width


class GELUHead(nn.Sequential):
    """Linear layers with GELU between them, BN before it where asked: DINO's head, up to its last layer.

    Weights start as a normal distribution of deviation 0.02, biases at zero.
    """

    width: int

    def __init__(self, features: int, width: int = 256, hidden: int = 2048, layers: int = 3, bn: bool = False) -> None:
        at_least(1, features=features, width=width, hidden=hidden)
        deep(1, layers=layers)
        widths = [features, *[hidden] * (layers - 1), width]
        stack: list[nn.Module] = []
        for i in range(layers):
            stack.append(nn.Linear(widths[i], widths[i + 1]))
            if i < layers - 1:
                stack += [nn.BatchNorm1d(hidden), nn.GELU()] if bn else [nn.GELU()]
        super().__init__(*stack)
        for layer in self:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        self.width = width


@dataclass(frozen=True)
class Preset:
    """A paper's head: where it is from, its class, and the settings that make it."""

    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    kind: type[Head | Tanh | GELUHead] = Head


HEADS = {
    "none": Preset("the features themselves: CACR app. C.1, whose SmallAlexNet ends in its own fc8", {"layers": 0}),
    "linear": Preset("one linear layer: Wu et al. 2018 (arXiv:1805.01978) and, after it, Wang & Liu", {"layers": 1}),
    "simclr": Preset(
        # The paper's equation has no BN; its code has one after both layers: simclr-code.
        "SimCLR (arXiv:2002.05709) §2.1, BN inside; Chen & Li §2.1 (width 64 on CIFAR-10, 2 or 3 layers)",
    ),
    "simclr-code": Preset(
        "SimCLR's code (google-research/simclr, arXiv:2002.05709): BN after every layer, the last without shift",
        {"bn_last": True, "affine_last": "scale"},
    ),
    "mocov2": Preset("MoCo v2 (arXiv:2003.04297): two layers, no BN", {"bn": False}),
    "mocov3": Preset(
        "MoCo v3 (arXiv:2104.02057) §4, projector of a ViT: three layers, BN after each, the last without affine",
        {"layers": 3, "hidden": 4096, "width": 256, "bn_last": True, "affine_last": False},
    ),
    "mocov3-resnet": Preset(
        "MoCo v3's code, projector of a ResNet: two layers instead of three",
        {"hidden": 4096, "width": 256, "bn_last": True, "affine_last": False},
    ),
    "mocov3-predictor": Preset(
        "MoCo v3 (arXiv:2104.02057) §4, predictor: two layers, BN after each, the last without affine",
        {"hidden": 4096, "width": 256, "bn_last": True, "affine_last": False},
    ),
    "mocov3-resnet-predictor": Preset(
        "MoCo v3's code, predictor of a ResNet: no BN after its last layer (which has no bias there)",
        {"hidden": 4096, "width": 256},
    ),
    "byol": Preset(
        "BYOL (arXiv:2006.07733) §3.3, projector and predictor: two layers, BN inside", {"hidden": 4096, "width": 256}
    ),
    "barlow": Preset(
        "Barlow Twins (arXiv:2103.03230) §3 and VICReg (arXiv:2105.04906): three layers of 8192, BN inside",
        {"layers": 3, "hidden": 8192, "width": 8192},
    ),
    "simsiam": Preset(
        "SimSiam (arXiv:2011.10566) §3, projector: three layers of 2048, BN after each, the last without affine",
        {"layers": 3, "hidden": 2048, "width": 2048, "bn_last": True, "affine_last": False},
    ),
    "simsiam-predictor": Preset(
        "SimSiam (arXiv:2011.10566) §3, predictor: two layers, narrow inside", {"hidden": 512, "width": 2048}
    ),
    # A.1 follows SimCLR, "where the Linear layers are followed by" BN: whether the last one shifts it does not say.
    "dystress": Preset("DySTreSS (arXiv:2308.01140) A.1: SimCLR's, each layer followed by BN", {"bn_last": True}),
    "wmse": Preset(
        "W-MSE (arXiv:2007.06346) §4: two layers, BN inside, width 64 on CIFAR (128 on STL-10 and Tiny ImageNet)",
        {"hidden": 1024, "width": 64},
    ),
    "mlp-bn": Preset(
        "two layers, BN after each, the last without scale and shift, as in MoCo v3 (arXiv:2104.02057): for short runs",
        {"bn_last": True, "affine_last": False},
    ),
    "linear-bn": Preset(
        "one linear layer, as Wu et al. 2018 (arXiv:1805.01978), and BN without scale and shift: for short runs",
        {"layers": 1, "bn_last": True, "affine_last": False},
    ),
    "swav": Preset("SwAV (arXiv:2006.09882) and its code: two layers, 2048 between them, BN inside", {"hidden": 2048}),
    "dino": Preset("DINO (arXiv:2104.14294) §3.2: three layers, 2048 wide, to 256; GELU, no BN", kind=GELUHead),
    "dino-resnet": Preset(
        "DINO (arXiv:2104.14294), the head its authors give a ResNet: with BN inside", {"bn": True}, GELUHead
    ),
    "simcse": Preset("SimCSE (arXiv:2104.08821) §6.3: a linear layer and tanh, in training only", kind=Tanh),
}
"""The papers' heads by name."""


def head(name: str, features: int, **settings: Any) -> Head | Tanh | GELUHead:
    """A paper's head by name, for this many features; any setting of its class can be changed."""
    if name not in HEADS:
        raise ValueError(f"no head '{name}'{did_you_mean(name, HEADS)}")
    kind = HEADS[name].kind
    known_settings(f"head '{name}'", settings, parameters(kind, ("features",)))
    return kind(features, **{**HEADS[name].settings, **settings})
