"""A ResNet's weights under the names that torchvision's or detectron2's ResNet has.

torchvision's names are ours. detectron2 calls the stages res2 to res5 and every batch normalization after its
convolution (``res2.0.conv1.norm.weight``); its checkpointer matches names by their ends, so that they fit C4 and FPN
alike, and reads a ``.pth`` file with ``{"model": …}``. Its bottlenecks then need ``MODEL.RESNETS.STRIDE_IN_1X1
False``, as torchvision's do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from isotherm.checks import one_of
from isotherm.encoders.resnet import ResNet
from isotherm.files import write_whole

Names = Literal["torchvision", "detectron2"]


def exported(encoder: nn.Module, names: Names) -> dict[str, Tensor]:
    """The weights by the other library's names; its classifier is not among them."""
    one_of("names", names, get_args(Names))
    if not isinstance(encoder, ResNet):
        raise ValueError(f"only a ResNet has a namesake there; this is a {type(encoder).__name__}.")
    if encoder.conv1.kernel_size != (7, 7):
        raise ValueError(
            "this ResNet has the stem for small images (3×3, no pooling), which theirs has not; "
            "train one with --encoder.small false."
        )
    weights = {name: tensor.detach().cpu().clone() for name, tensor in encoder.state_dict().items()}
    if names == "torchvision":
        return weights
    return {detectron2_name(name): t for name, t in weights.items() if not name.endswith("num_batches_tracked")}


def detectron2_name(name: str) -> str:
    """``layer1.0.bn1.weight`` is ``res2.0.conv1.norm.weight`` there, ``conv1.weight`` is ``stem.conv1.weight``."""
    name = re.sub(r"^layer(\d)", lambda m: f"res{int(m[1]) + 1}", name)
    name = re.sub(r"\bdownsample\.0\b", "shortcut", name)
    name = re.sub(r"\bdownsample\.1\b", "shortcut.norm", name)
    name = re.sub(r"\bbn(\d)\b", r"conv\1.norm", name)
    return name if name.startswith("res") else f"stem.{name}"


def write_export(encoder: nn.Module, names: Names, path: Path) -> int:
    """A file that the other library reads, with tensors alone in it; how many."""
    weights = exported(encoder, names)
    held = {"model": weights, "matching_heuristics": True} if names == "detectron2" else weights
    write_whole(path, lambda file: torch.save(held, file))
    return len(weights)
