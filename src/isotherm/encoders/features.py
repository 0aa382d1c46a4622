"""What a network says at one of its layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from isotherm.checks import did_you_mean


def features(module: nn.Module, x: Tensor, layer: str | None = None, pool: bool = False) -> Tensor:
    """The output of a named layer for each image, flattened: (N, D); without a name that of the whole network.

    The network runs in eval mode and without gradients, and is left as it was found. `pool` takes the mean over
    positions first: over H and W of (N, C, H, W), over the tokens of (N, T, D). Names are those of
    ``module.named_modules()``: "fc7", "layer4", "blocks.3".
    """
    kept: list[Any] = []

    def keep(_: nn.Module, __: Any, out: Any) -> None:
        # A copy, since the next layer may work in place.
        kept.append(out.clone() if isinstance(out, Tensor) else out)

    handle = None if layer is None else find_layer(module, layer).register_forward_hook(keep)
    try:
        with evaluating(module):
            out = module(x)
    finally:
        if handle is not None:
            handle.remove()
    if layer is not None:
        if len(kept) != 1:
            raise ValueError(f"layer '{layer}' ran {len(kept)} times in one pass; name one that runs once.")
        out = kept[0]
    where = type(module).__name__ if layer is None else f"layer '{layer}'"
    if not isinstance(out, Tensor):
        raise TypeError(f"{where} gives a {type(out).__name__}, not a tensor. Name another layer.")
    if out.ndim < 1 or len(out) != len(x):
        raise ValueError(f"{where} gives {tuple(out.shape)} for {len(x)} images: not one output per image.")
    return flat(out, pool)


def flat(out: Tensor, pool: bool) -> Tensor:
    if pool and out.ndim == 4:
        out = out.mean((2, 3))
    elif pool and out.ndim == 3:
        out = out.mean(1)
    return out[:, None] if out.ndim == 1 else out.flatten(1)


def find_layer(module: nn.Module, name: str) -> nn.Module:
    """The submodule of this name."""
    layers: dict[str, nn.Module] = {path: part for path, part in module.named_modules() if path}
    if name not in layers:
        top = [path for path, _ in module.named_children()]
        raise ValueError(f"{type(module).__name__} has no layer '{name}'{did_you_mean(name, layers, listed=top)}")
    return layers[name]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """In eval mode and without gradients; afterwards every part is back in its own mode.

    `no_grad` and not `inference_mode`: a probe is trained on the result.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training
