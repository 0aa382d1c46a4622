"""A network for weights that are there: it takes no memory before it is known that they fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

Made = TypeVar("Made", bound=nn.Module)


def fitted(make: Callable[[], Made], weights: Mapping[str, Tensor]) -> Made:
    """What `make` makes, with these weights.

    Settings that do not belong to them (a damaged file's, ten thousand times as wide) are refused before a network of
    that size is made.
    """
    for name, shape in _shapes(make).items():
        if name not in weights and shape:
            raise ValueError(f"the settings ask for {name}, which the weights do not have.")
        there = tuple(weights[name].shape) if name in weights else shape
        if there != shape:
            raise ValueError(f"{name} is {shape} by the settings and {there} in the weights.")
    network = make()
    network.load_state_dict(weights)
    return network


def _shapes(make: Callable[[], nn.Module]) -> dict[str, tuple[int, ...]]:
    """Of every weight, without memory for it; of none where somebody's code cannot be run so."""
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.device("meta"):
            warnings.simplefilter("ignore")  # pretrained weights that find no values to replace
            return {name: tuple(value.shape) for name, value in make().state_dict().items()}
    except Exception:  # whatever somebody's constructor does with a tensor that has no values
        return {}
