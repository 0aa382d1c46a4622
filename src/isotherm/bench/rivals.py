"""What a user would run instead: NT-Xent in plain PyTorch and compiled, and the peers' own losses."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

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


def flex(z0: Tensor, z1: Tensor, temperature: float = 0.2) -> Tensor:
    """NT-Xent by FlexAttention's log-sum-exp: a score_mod that hides the query itself, and no values to speak of."""
    return _flex(z0, z1, temperature, _attention())


def compiled_flex() -> TwoViews:
    attention = torch.compile(_attention())
    return lambda z0, z1: _flex(z0, z1, 0.2, attention)


def _attention() -> Callable[..., tuple[Tensor, Any]]:
    return importlib.import_module("torch.nn.attention.flex_attention").flex_attention  # type: ignore[no-any-return]


def _flex(z0: Tensor, z1: Tensor, temperature: float, attention: Callable[..., tuple[Tensor, Any]]) -> Tensor:
    def others(score: Tensor, batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.where(i == j, -torch.inf, score)

    z = F.normalize(torch.cat([z0, z1]), dim=1)
    rows = z[None, None]
    module = importlib.import_module("torch.nn.attention.flex_attention")
    wanted: dict[str, Any] = {"return_lse": True}
    if hasattr(module, "AuxRequest"):  # torch 2.9 and later
        wanted = {"return_aux": module.AuxRequest(lse=True)}
    _, sums = attention(rows, rows, rows, score_mod=others, scale=1 / temperature, **wanted)
    positives = (z * z.roll(len(z0), 0)).sum(1)
    log_sums: Tensor = getattr(sums, "lse", sums)[0, 0]
    return (log_sums - positives / temperature).mean()


def inf_cl(temperature: float = 0.2) -> TwoViews:
    """Inf-CL's InfoNCE from the first view to the second, if it is installed: half of what the others compute."""
    loss = importlib.import_module("inf_cl").cal_inf_loss
    return lambda z0, z1: loss(F.normalize(z0, dim=1), F.normalize(z1, dim=1), scale=z0.new_tensor(1 / temperature))


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


WHITENED = 256
"""Items that lightly's W-MSE whitens at a time, twice the width, as ours does unless told."""
ALIKE = {
    **{name: name for name in ("BarlowTwinsLoss", "VICRegLoss", "DCLLoss", "DCLWLoss", "MACLLoss", "WMSELoss")},
    "SwAV": "SwaVLoss",
    "DINO": "DINOLoss",
}
"""What lightly has besides NT-Xent, by our names."""


def lightly_alike(name: str, width: int, prototypes: Tensor) -> TwoViews:
    """lightly's loss of the same name; SwAV's and DINO's of similarities to these prototypes."""
    torchvision_that_imports()
    kind = getattr(importlib.import_module("lightly.loss"), ALIKE[name])
    if name == "WMSELoss":
        whitened = kind(embedding_dim=width, w_size=WHITENED)
        return lambda z0, z1: whitened(torch.cat([z0, z1]))
    if name == "SwAV":
        swapped = kind()
        return lambda z0, z1: swapped(scores((z0, z1), prototypes), [])
    if name == "DINO":
        distilled = kind(output_dim=len(prototypes), teacher_temp=0.07, warmup_teacher_temp_epochs=0)

        def taught(z0: Tensor, z1: Tensor) -> Tensor:
            said = scores((z0, z1), prototypes)
            return distilled([s.detach() for s in said], said, epoch=0)  # type: ignore[no-any-return]

        return taught
    return kind()  # type: ignore[no-any-return]


def scores(views: Sequence[Tensor], prototypes: Tensor) -> list[Tensor]:
    """Similarities of each view to the prototypes."""
    return [F.normalize(view, dim=1) @ prototypes.T for view in views]


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
