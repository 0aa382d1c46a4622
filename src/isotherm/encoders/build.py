"""Encoders by name."""

from __future__ import annotations

import importlib
from typing import Any, cast

import torch
from torch import Tensor, nn

from isotherm import extras
from isotherm.checks import at_least, did_you_mean, known_settings, parameters
from isotherm.encoders.alexnet import SmallAlexNet
from isotherm.encoders.contract import Encoder
from isotherm.encoders.convnet import ConvNet
from isotherm.encoders.efficientnet import EFFICIENTNET, EfficientNetLite0
from isotherm.encoders.features import evaluating
from isotherm.encoders.resnet import ResNet
from isotherm.encoders.vae import VAE
from isotherm.encoders.vit import ViT

NETWORKS: dict[str, tuple[type[Encoder], dict[str, Any]]] = {
    "convnet": (ConvNet, {}),
    "small_alexnet": (SmallAlexNet, {}),
    "resnet18": (ResNet, {"depth": 18}),
    "resnet34": (ResNet, {"depth": 34}),
    "resnet50": (ResNet, {"depth": 50}),
    "vit_small": (ViT, {"width": 384}),
    "vit_base": (ViT, {"width": 768}),
    "vae": (VAE, {}),
}
"""Our own networks by name: the class, and the settings that the name stands for."""

LIBRARIES = ("timm", "torchvision")


def encoder(name: str | nn.Module, channels: int = 3, size: int = 32, **settings: Any) -> Encoder:
    """An encoder for images (N, channels, size, size): one of `NETWORKS`, ``timm:NAME``, ``torchvision:NAME``.

    `settings` are the constructor's. Two follow the size unless given: up to 32 pixels a ResNet has the small stem,
    and below 128 a ViT has patches of 4 instead of 16. A library's network comes without its classifier and without
    weights; ask for ``pretrained=True`` (timm) or ``weights=...`` (torchvision) to have them downloaded.
    ``efficientnet_lite0`` is trained already and comes from installed packages (`encoders.efficientnet`).

    Any `nn.Module` comes back as it is, with its `width` found by showing it two blank images in eval mode.
    """
    at_least(1, channels=channels, size=size)
    if isinstance(name, nn.Module):
        if settings:
            raise TypeError(f"{type(name).__name__} is built already: it takes no setting '{next(iter(settings))}'.")
        return adopt(name, channels, size)
    if not isinstance(name, str):
        raise TypeError(f"an encoder is a name or an nn.Module, got {type(name).__name__}.")
    library, colon, model = name.partition(":")
    if colon:
        if library not in LIBRARIES:
            raise ValueError(f"no library '{library}' of encoders{did_you_mean(library, LIBRARIES)}")
        make = from_timm if library == "timm" else from_torchvision
        return adopt(make(model, channels, settings), channels, size)
    if name == EFFICIENTNET:
        if channels != 3:
            raise ValueError(f"{name} takes 3 channels, got {channels}.")
        known_settings(name, settings, parameters(EfficientNetLite0))
        return adopt(EfficientNetLite0(**settings), channels, size)
    if name not in NETWORKS:
        raise ValueError(
            f"no encoder '{name}'{did_you_mean(name, [*NETWORKS, EFFICIENTNET, *(f'{lib}:NAME' for lib in LIBRARIES)])}"
        )
    return ours(name, channels, size, settings)


def ours(name: str, channels: int, size: int, settings: dict[str, Any]) -> Encoder:
    network, fixed = NETWORKS[name]
    wanted = parameters(network)
    known_settings(name, settings, [p for p in wanted if p not in ("channels", "size", *fixed)])
    by_size: dict[str, Any] = {}
    if "size" in wanted:
        by_size["size"] = size
    if network is ResNet:
        by_size["small"] = size <= 32
    if network is ViT:
        by_size["patch"] = 16 if size >= 128 else 4
    return network(channels=channels, **{**by_size, **fixed, **settings})


def from_timm(model: str, channels: int, settings: dict[str, Any]) -> nn.Module:
    timm = installed("timm", model)
    known = timm.list_models()
    # A name may carry a tag of its weights: resnet50.a1_in1k.
    if model.partition(".")[0] not in known:
        raise ValueError(f"timm has no model '{model}'{did_you_mean(model, known, listed=())}")
    network: nn.Module = timm.create_model(model, **{"num_classes": 0, "in_chans": channels, **settings})
    return network


def from_torchvision(model: str, channels: int, settings: dict[str, Any]) -> nn.Module:
    torchvision = installed("torchvision", model)
    known = torchvision.models.list_models(module=torchvision.models)
    if model not in known:
        raise ValueError(f"torchvision has no model '{model}'{did_you_mean(model, known, listed=())}")
    if channels != 3:
        raise ValueError(
            f"torchvision's networks take 3 channels, got {channels}. Use timm:{model} or one of ours: "
            f"{', '.join(NETWORKS)}."
        )
    network: nn.Module = torchvision.models.get_model(model, **{"weights": None, **settings})
    linear = [path for path, part in network.named_modules() if isinstance(part, nn.Linear)]
    if not linear:
        raise ValueError(f"torchvision:{model} does not end in a linear layer that could be taken off.")
    parent, _, last = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), last, nn.Identity())
    return network


def installed(library: str, model: str) -> Any:
    """The library, or one sentence on why not."""
    return needed(library, f"{library}:{model}", f", or use one of ours: {', '.join(NETWORKS)}")


def needed(library: str, purpose: str, otherwise: str = "") -> Any:
    """A library of the extra `vision`, or one sentence on why not."""
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise ValueError(f"{purpose} needs {error.name}, which is not installed.") from error
        raise ValueError(f"{purpose} needs {library}, which is not installed: {extras.command('vision')}.") from error
    except Exception as error:  # a build for another torch fails while importing, with whatever it meets first
        first_line = str(error).partition("\n")[0]
        raise ValueError(
            f"{purpose} needs {library}, which is installed but does not import ({first_line}), usually "
            f"because it was built for another torch. Install the one made for torch {torch.__version__}{otherwise}."
        ) from error


def adopt(module: nn.Module, channels: int, size: int) -> Encoder:
    """The module itself, with its `width`."""
    width = width_of(module, channels, size)
    if not hasattr(module, "width"):
        module.width = width  # type: ignore[assignment]
    elif module.width != width:
        raise ValueError(
            f"{type(module).__name__} gives {width} features but has a `width` of {module.width!r}, which in an "
            "encoder is their number. Wrap it: nn.Sequential(module)."
        )
    return cast(Encoder, module)


def width_of(module: nn.Module, channels: int, size: int) -> int:
    """How many features the module gives an image."""
    name = type(module).__name__
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(()))
    if isinstance(like, nn.UninitializedParameter):
        like = torch.empty(())
    blank = torch.zeros(2, channels, size, size, dtype=like.dtype, device=like.device)
    try:
        with evaluating(module):
            out = module(blank)
    except Exception as error:
        raise ValueError(f"{name} does not take images {tuple(blank.shape)}: {error}") from error
    if not isinstance(out, Tensor):
        raise TypeError(f"{name} gives a {type(out).__name__}; an encoder gives one tensor of features (N, D).")
    if out.ndim != 2 or len(out) != 2:
        raise ValueError(
            f"{name} gives {tuple(out.shape)} for 2 images; an encoder gives (N, D). Add a pool or nn.Flatten."
        )
    return out.shape[1]
