"""What a user would run instead of our NT-Xent: plain PyTorch, the compiler, and the peers' own losses."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

TwoViews = Callable[[Tensor, Tensor], Tensor]


def dense(z0: Tensor, z1: Tensor, temperature: float = 0.2) -> Tensor:
    """NT-Xent as everybody first writes it: the whole similarity matrix and a cross-entropy."""
    n = len(z0)
    z = F.normalize(torch.cat([z0, z1]), dim=1)
    logits = z @ z.T / temperature
    logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=z.device), -torch.inf)
    target = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(logits, target)


def three_products(z0: Tensor, z1: Tensor) -> None:
    """The matrix products a dense forward and backward cannot do without, and nothing else."""
    z = torch.cat([z0.detach(), z1.detach()])
    s = z @ z.T
    _ = s @ z
    _ = s.T @ z


def compiled() -> TwoViews:
    return torch.compile(dense)


def lightly(temperature: float = 0.2) -> TwoViews:
    torchvision_that_imports()
    return importlib.import_module("lightly.loss").NTXentLoss(temperature=temperature)  # type: ignore[no-any-return]


def metric_learning(temperature: float = 0.2) -> TwoViews:
    losses = importlib.import_module("pytorch_metric_learning.losses")
    return losses.SelfSupervisedLoss(losses.NTXentLoss(temperature=temperature))  # type: ignore[no-any-return]


def torchvision_that_imports() -> None:
    """lightly imports torchvision, whose registry build misses two operators next to a CPU build of torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            for name in [m for m in sys.modules if m.split(".")[0] == "torchvision"]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _KEEP.append(library)
            importlib.import_module("torchvision")


_KEEP: list[torch.library.Library] = []  # a library's definitions live as long as it does
