"""Losses with open_clip's call: ``loss(image_features, text_features, logit_scale, …, output_dict)``.

open_clip is not imported. Give one to its training loop in place of what `create_loss` makes: the values are those of
its losses in one process, in tiles and so without a matrix of images × texts; in several processes the gradient is
that of one, whatever the flags say (docs/guides/multi-gpu-gradients.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from isotherm.losses.loss import Loss
from isotherm.losses.sigmoid import SigLIPLoss
from isotherm.losses.softmax import InfoNCELoss

__all__ = ["ClipLoss", "SigLipLoss"]

Answer = Tensor | dict[str, Tensor]


class ClipLoss(nn.Module):
    """open_clip's `ClipLoss`: `InfoNCELoss` both ways at the temperature 1/logit_scale, which gets its gradient.

    `make` gives another loss of ours for a temperature, such as ``isotherm.nn.DCLLoss``. The further settings are
    open_clip's, and change nothing: who takes part is asked of `torch.distributed`. A logit bias drops out
    of a softmax.
    """

    def __init__(
        self,
        local_loss: bool = False,
        gather_with_grad: bool = False,
        cache_labels: bool = False,
        rank: int = 0,
        world_size: int = 1,
        use_horovod: bool = False,
        make: Callable[[Tensor], Loss] = InfoNCELoss,
    ) -> None:
        super().__init__()
        if use_horovod:
            raise ValueError("use_horovod is not taken; start the processes with torchrun.")
        self.make = make

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
    ) -> Answer:
        """The loss of images and their texts, one row each."""
        value = self.make(_temperature(logit_scale, image_features))(image_features, text_features)
        return _answer(value, output_dict)


class SigLipLoss(nn.Module):
    """open_clip's `SigLipLoss`: `SigLIPLoss` at the scale and bias that the model learns."""

    def __init__(self, cache_labels: bool = False, rank: int = 0, world_size: int = 1, dist_impl: Any = None) -> None:
        super().__init__()

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | float | None = None,
        output_dict: bool = False,
    ) -> Answer:
        """The loss of images and their texts, one row each."""
        loss = SigLIPLoss(_temperature(logit_scale, image_features), bias=0.0, learnable=False)
        if logit_bias is not None:
            bias = torch.as_tensor(logit_bias, device=image_features.device).reshape(())
            loss.bias = bias  # type: ignore[assignment]
        return _answer(loss(image_features, text_features), output_dict)


def _temperature(logit_scale: Tensor | float, like: Tensor) -> Tensor:
    scale = torch.as_tensor(logit_scale, device=like.device)
    return 1 / scale.reshape(()).to(torch.promote_types(like.dtype, torch.float32))


def _answer(value: Tensor, output_dict: bool) -> Answer:
    return {"contrastive_loss": value} if output_dict else value
