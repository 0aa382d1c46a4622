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
) -> torch.optim.Optimizer:
    """An optimizer of everything in the module that learns.

    `decay_all` off leaves biases, BN and temperatures without weight decay (and, under LARS, without its scaling), as
    SimCLR, BYOL and MoCo v3 do. `momentum` is that of SGD and LARS; for Adam it is β₁. `trust` is LARS's η.
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
        return torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov)
    adam = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return adam(groups, lr=lr, betas=(momentum, 0.999))


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
            for w in group["params"]:
                if w.grad is not None:
                    self._move(w, w.grad, group)
        return loss

    def _move(self, w: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        step = gradient.add(w, alpha=group["weight_decay"])
        if group["adapt"]:
            size, slope = w.norm(), step.norm()
            ratio = torch.where((size > 0) & (slope > 0), group["trust"] * size / slope, torch.ones_like(size))
            step = step * ratio
        state = self.state[w]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(w)
        velocity = state["momentum"]
        velocity.mul_(group["momentum"]).add_(step)
        w.add_(velocity, alpha=-group["lr"])
