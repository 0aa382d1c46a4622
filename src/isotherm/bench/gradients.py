"""`isotherm bench gradients`: how wrong the value and the gradient of a loss are on two processes, ours and others'.

Two gloo processes hold half of a batch each, embed it with the same network, call the loss as its library says, and
average their gradients as DDP does. What comes out is compared with one process that holds the whole batch and calls
the same loss; numbers are float64, so that an error of 1e-15 is rounding and one of 0.1 is a different training.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from isotherm import nn as losses
from isotherm import world
from isotherm.bench import rivals
from isotherm.bench.measure import Target
from isotherm.integrations import lightly, open_clip
from isotherm.integrations.metric_learning import MetricLearningLoss

ITEMS, WIDTH, PROCESSES = 24, 16, 2
TEMPERATURE = 0.1
EXACT = 1e-6
Call = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The loss of two views and the logarithm of a learnable scale."""


@dataclass(frozen=True)
class Way:
    """A library's loss, with a setting, as it is called on several processes."""

    library: str
    setting: str
    objective: str
    make: Callable[[int, int], Call]
    """Given rank and number of processes."""
    ours: bool = False


@dataclass(frozen=True)
class Error:
    """How far two processes are from one: relative to its value, and to the norm of its gradient."""

    way: Way
    value: float
    gradient: float

    @property
    def exact(self) -> bool:
        return max(self.value, self.gradient) <= EXACT


def ways() -> list[Way]:
    """Everything that is installed here, ours beside each."""
    return [*_plain(), *_lightly(), *_metric_learning(), *_open_clip(), *_sentence_transformers(), *_ours()]


def _two(loss: Callable[..., Any]) -> Callable[[int, int], Call]:
    return lambda rank, size: lambda a, b, scale: loss(a, b)


def _gathered(back: bool) -> Callable[[int, int], Call]:
    """NT-Xent of everything that `all_gather` brings, which carries no gradient; with one's own rows put back."""

    def make(rank: int, size: int) -> Call:
        if size == 1:
            return lambda a, b, scale: rivals.dense(a, b, TEMPERATURE)

        def call(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
            everyone = []
            for z in (a, b):
                rows = world.gather(z.detach())
                if back:
                    parts = list(rows.chunk(size))
                    parts[rank] = z
                    rows = torch.cat(parts)
                everyone.append(rows)
            if back:
                return rivals.dense(everyone[0], everyone[1], TEMPERATURE)
            queries = F.normalize(torch.cat([a, b]), dim=1)
            keys = F.normalize(torch.cat(everyone), dim=1)
            n, total = len(a), len(everyone[0])
            mine = torch.arange(n) + rank * n
            logits = queries @ keys.T / TEMPERATURE
            logits[torch.arange(2 * n), torch.cat([mine, mine + total])] = -torch.inf
            return F.cross_entropy(logits, torch.cat([mine + total, mine]))

        return call

    return make


def _plain() -> list[Way]:
    local = _two(lambda a, b: rivals.dense(a, b, TEMPERATURE))
    return [
        Way("plain PyTorch", "local negatives, DDP", "NT-Xent", local),
        Way("plain PyTorch", "all_gather as constants, local queries", "NT-Xent", _gathered(back=False)),
        Way("plain PyTorch", "all_gather, own rows put back, all queries", "NT-Xent", _gathered(back=True)),
    ]


def _lightly() -> list[Way]:
    theirs = _installed("lightly.loss")
    if theirs is None:
        return []
    settings = {"NTXentLoss": ("NT-Xent", {"temperature": TEMPERATURE}), "DCLLoss": ("DCL", {})}
    settings |= {"BarlowTwinsLoss": ("Barlow Twins", {}), "VICRegLoss": ("VICReg", {})}
    return [
        Way(
            "lightly",
            f"gather_distributed={gather}",
            objective,
            _two(getattr(theirs, name)(**given, gather_distributed=gather)),
        )
        for name, (objective, given) in settings.items()
        for gather in (False, True)
    ]


def _labelled(loss: Callable[..., Tensor]) -> Callable[[int, int], Call]:
    """Called with embeddings and labels: those of an item are views of it."""

    def make(rank: int, size: int) -> Call:
        def call(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
            labels = torch.arange(len(a)) + rank * len(a)
            return loss(torch.cat([a, b]), labels.repeat(2))

        return call

    return make


def _metric_learning() -> list[Way]:
    theirs = _installed("pytorch_metric_learning.losses")
    if theirs is None:
        return []
    wrapper = importlib.import_module("pytorch_metric_learning.utils.distributed").DistributedLossWrapper
    result = []
    for objective, kind in (("NT-Xent", theirs.NTXentLoss), ("SupCon", theirs.SupConLoss)):
        result += [
            Way("pytorch-metric-learning", "no wrapper", objective, _labelled(kind(temperature=TEMPERATURE))),
            *(
                Way(
                    "pytorch-metric-learning",
                    f"DistributedLossWrapper, efficient={efficient}",
                    objective,
                    _labelled(wrapper(kind(temperature=TEMPERATURE), efficient)),
                )
                for efficient in (False, True)
            ),
        ]
    return result


def _clip(kind: Callable[..., Any], bias: bool, **settings: Any) -> Callable[[int, int], Call]:
    """Called with unit features and a learnable scale."""

    def make(rank: int, size: int) -> Call:
        loss = kind(rank=rank, world_size=size, **settings)

        def call(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
            shift = scale * 0 - 5 if bias else None
            value: Tensor = loss(F.normalize(a, dim=1), F.normalize(b, dim=1), scale.exp(), shift)
            return value

        return call

    return make


def _open_clip() -> list[Way]:
    theirs = _installed("open_clip.loss")
    if theirs is None:
        return []
    flags = [(local, grad) for local in (False, True) for grad in (False, True)]
    return [
        *(
            Way(
                "open_clip",
                f"local_loss={local}, gather_with_grad={grad}",
                "CLIP",
                _clip(theirs.ClipLoss, False, local_loss=local, gather_with_grad=grad),
            )
            for local, grad in flags
        ),
        *(
            Way("open_clip", f"dist_impl={how}", "SigLIP", _clip(theirs.SigLipLoss, True, dist_impl=how))
            for how in ("bidir", "gather")
        ),
    ]


def _sentence_transformers() -> list[Way]:
    theirs = _installed("sentence_transformers.sentence_transformer.losses")
    if theirs is None:
        return []
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)  # it says when it is alone

    class Taken(nn.Module):
        """A model whose embeddings are at hand already."""

        def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
            return {"sentence_embedding": features["z"]}

    def make(gather: bool) -> Callable[[int, int], Call]:
        loss = theirs.MultipleNegativesRankingLoss(Taken(), scale=1 / TEMPERATURE, gather_across_devices=gather)
        return lambda rank, size: lambda a, b, scale: loss([{"z": a}, {"z": b}], None)

    return [
        Way("sentence-transformers", f"gather_across_devices={gather}", "InfoNCE", make(gather))
        for gather in (False, True)
    ]


def _ours() -> list[Way]:
    calls: dict[str, Callable[[int, int], Call]] = {
        "NT-Xent": _two(losses.NTXentLoss(TEMPERATURE)),
        "DCL": _two(lightly.DCLLoss()),
        "Barlow Twins": _two(lightly.BarlowTwinsLoss()),
        "VICReg": _two(lightly.VICRegLoss()),
        "SupCon": _labelled(MetricLearningLoss(losses.SupConLoss(TEMPERATURE))),
        "CLIP": _clip(open_clip.ClipLoss, False),
        "SigLIP": _clip(open_clip.SigLipLoss, True),
        "InfoNCE": _two(losses.InfoNCELoss(TEMPERATURE, symmetric=False)),
        "DySTreSS": _two(losses.DySTreSSLoss()),
        "CACR": _two(losses.CACRLoss()),
    }
    return [Way("isotherm", "nothing to set", name, make, ours=True) for name, make in calls.items()]


def _installed(name: str) -> Any:
    """The module, or None where it is not installed or does not import."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.suppress(ModuleNotFoundError):
            rivals.torchvision_that_imports()
        try:
            return importlib.import_module(name)
        except Exception:  # a build for another torch fails with whatever it meets first
            return None


def run(note: Callable[[str, str], None]) -> list[Error]:
    """The error of every way that is installed."""
    known = ways()
    note("measuring", f"{len(known)} ways on {PROCESSES} processes")
    alone = [measured(way, 0, 1) for way in known]
    with tempfile.TemporaryDirectory() as folder:
        spawn(_process, args=(folder,), nprocs=PROCESSES, join=True)
        parts = [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(PROCESSES)]
    errors = []
    for way, (value, gradient), *each in zip(known, alone, *parts, strict=True):
        shared = torch.stack([v for v, _ in each]).mean()
        averaged = torch.stack([g for _, g in each]).mean(0)
        far = (averaged - gradient).norm() / gradient.norm()
        errors.append(Error(way, float((shared - value).abs() / value.abs()), float(far)))
    return errors


def _process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    world.join(rank, PROCESSES, Path(folder) / "meet")
    torch.save([measured(way, rank, PROCESSES) for way in ways()], Path(folder) / f"{rank}.pt")
    world.wait()
    world.leave()
    os._exit(0)  # what was measured is on disk; once, nobody knows why, one was aborted at its end (LOG, 2026-11-18)


def measured(way: Way, rank: int, size: int) -> tuple[Tensor, Tensor]:
    """The value on this process, and its gradient in one vector: of the network's weights and the scale."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ITEMS, WIDTH, generator=generator, dtype=torch.float64)
    views = [x + 0.5 * torch.randn(x.shape, generator=generator, dtype=torch.float64) for _ in range(2)]
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(WIDTH, 32), nn.Tanh(), nn.Linear(32, 8)).double()
    scale = torch.tensor(2.3, dtype=torch.float64, requires_grad=True)
    learning: Sequence[Tensor] = [*network.parameters(), scale]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries warn of their own old calls
        a, b = (network(view.chunk(size)[rank]) for view in views)
        value = way.make(rank, size)(a, b, scale)
        slopes = torch.autograd.grad(value, learning, allow_unused=True)
    return value.detach(), torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(learning, slopes, strict=True)]
    )


def targets(errors: Sequence[Error]) -> list[Target]:
    """The promise: ours is exact."""
    worst = max(max(e.value, e.gradient) for e in errors if e.way.ours)
    return [Target("isotherm: largest error of value or gradient", f"≤ {EXACT:.0e}", f"{worst:.1e}", worst <= EXACT)]


def markdown(errors: Sequence[Error]) -> str:
    """The table of docs/guides/multi-gpu-gradients.md: ours beside each."""
    ours = {e.way.objective: e for e in errors if e.way.ours}
    lines = [
        "| loss | library | setting | value | gradient | ours: value | gradient |",
        "|---|---|---|---|---|---|---|",
    ]
    for e in sorted((e for e in errors if not e.way.ours), key=lambda e: list(ours).index(e.way.objective)):
        beside = ours[e.way.objective]
        numbers = map(shown, (e.value, e.gradient, beside.value, beside.gradient))
        lines.append(f"| {e.way.objective} | {e.way.library} | {e.way.setting} | {' | '.join(numbers)} |")
    rivalled = {e.way.objective for e in errors if not e.way.ours}
    for name, e in ours.items():
        if name not in rivalled:
            lines.append(f"| {name} | – | – | – | – | {shown(e.value)} | {shown(e.gradient)} |")
    return "\n".join(lines)


def shown(error: float) -> str:
    """An error as the tables have it."""
    return "0" if not error else f"{error:.0e}" if error < 1e-3 else f"{error:.1%}"
