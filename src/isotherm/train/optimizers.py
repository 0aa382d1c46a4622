"""Optimizers by name, with weight decay where it belongs; LARS, which PyTorch does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn

Name = Literal["sgd", "lars", "adam", "adamw"]


def optimizer(
    name: Name,
    module: nn.Module,
    lr: float,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    decay_all: bool = True,
    nesterov: bool = False,
    trust: float = 0.001,
    fused: bool = False,
) -> torch.optim.Optimizer:
    """An optimizer of everything in the module that learns.

    `decay_all` off leaves biases, BN and temperatures without weight decay (and, under LARS, without its scaling), as
    SimCLR, BYOL and MoCo v3 do. `momentum` is that of SGD and LARS; for Adam it is β₁. `trust` is LARS's η.
    `fused` ones leave a step out by themselves if a gradient scaler says so; LARS, which is not torch's, must be told.
    """
    learning = [p for p in module.parameters() if p.requires_grad]
    temperatures = {id(p) for n, p in module.named_parameters() if n.startswith("loss.")}
    spared = [p for p in learning if id(p) in temperatures or (not decay_all and p.ndim < 2)]
    kept = {id(p) for p in spared}
    groups: list[dict[str, Any]] = [
        {"params": [p for p in learning if id(p) not in kept], "weight_decay": weight_decay},
        {"params": spared, "weight_decay": 0.0, "adapt": False},
    ]
    groups = [g for g in groups if g["params"]]
    if name == "lars":
        return LARS(groups, lr, momentum, trust=trust)
    for group in groups:
        group.pop("adapt", None)
    if name == "sgd":
        sgd = torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov, fused=fused or None)
        if fused and momentum:  # else a first step that is left out leaves whatever is in memory
            for p in learning:
                sgd.state[p]["momentum_buffer"] = torch.zeros_like(p)
        return sgd
    adam = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return adam(groups, lr=lr, betas=(momentum, 0.999), fused=fused or None)


class LARS(torch.optim.Optimizer):
    r"""SGD with momentum whose step in each layer is in proportion to the layer's own size.

    .. math::
        g \leftarrow g + \lambda w, \qquad
        v \leftarrow \mu v + \eta \frac{\|w\|}{\|g\|}\, g, \qquad w \leftarrow w - \gamma v

    You et al. 2017 (arXiv:1708.03888), with `trust` η = 0.001 and the learning rate γ outside the momentum; the paper
    has it inside, which is the same while γ does not change. Groups with ``adapt=False`` take plain steps. The ratio
    is 1 where either norm is 0.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "adapt": True}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            moving = [w for w in group["params"] if w.grad is not None]
            for kind in dict.fromkeys((w.dtype, w.device) for w in moving):
                self._move([w for w in moving if (w.dtype, w.device) == kind], group)
        return loss

    def _move(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """All of them at once: a kernel for each operation and not for each weight."""
        gradients = [w.grad for w in weights if w.grad is not None]
        steps = torch._foreach_add(gradients, weights, alpha=group["weight_decay"])
        if group["adapt"]:
            size, slope = (torch.stack(torch._foreach_norm(tensors)) for tensors in (weights, steps))
            ratio = torch.where((size > 0) & (slope > 0), group["trust"] * size / slope, 1.0)
            torch._foreach_mul_(steps, ratio.unbind())
        for w in weights:
            if "momentum" not in self.state[w]:
                self.state[w]["momentum"] = torch.zeros_like(w)
        velocities = [self.state[w]["momentum"] for w in weights]
        torch._foreach_mul_(velocities, group["momentum"])
        torch._foreach_add_(velocities, steps)
        torch._foreach_add_(weights, velocities, alpha=-group["lr"])
