"""BN over the batch of all processes, exact also when their shares differ, on any device.

PyTorch's own runs on GPUs only; with this one, two processes equal one to rounding wherever they run.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from isotherm import world

Module = TypeVar("Module", bound=nn.Module)


class SyncedBatchNorm(_BatchNorm):
    """BN of any number of dimensions whose mean and variance are those of everyone's batch."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"BN takes (N, C, …), got {tuple(input.shape)}.")

    def forward(self, x: Tensor) -> Tensor:
        if world.size() == 1 or not self.training:
            return super().forward(x)
        over = [0, *range(2, x.ndim)]
        shape = [1, -1, *[1] * (x.ndim - 2)]
        full = x.to(torch.promote_types(x.dtype, torch.float32))
        here = torch.full((1,), x.numel() / x.shape[1], dtype=full.dtype, device=x.device)
        sums = world.total(torch.cat([full.sum(over), here]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = full - mean.view(shape)
        variance = world.total(centred.square().sum(over)) / count
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked += 1
                weight = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), weight)
                unbiased = variance * count / (count - 1).clamp_min(1)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), weight)
        y = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(x.dtype)


def sync_batchnorm(module: Module) -> Module:
    """The module with every BN in it replaced; parameters and statistics stay the same tensors."""
    for name, part in module.named_children():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            new = SyncedBatchNorm(part.num_features, part.eps, part.momentum, part.affine, part.track_running_stats)
            new.weight, new.bias = part.weight, part.bias
            new.running_mean, new.running_var = part.running_mean, part.running_var
            new.num_batches_tracked = part.num_batches_tracked
            new.training = part.training
            setattr(module, name, new)
        else:
            sync_batchnorm(part)
    return module
