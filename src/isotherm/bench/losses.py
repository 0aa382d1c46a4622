"""`isotherm bench losses`: every loss, forward and backward, against NT-Xent as others compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm import nn
from isotherm.bench import rivals
from isotherm.bench.measure import Target, best_times, peak_extra_memory
from isotherm.losses import catalogue
from isotherm.losses.laws import Maker
from isotherm.methods.prototypes import sinkhorn, swapped_prediction

PAIRS = (128, 1024, 4096, 8192)
WIDTH = 128
MANY_VIEWS = (nn.NTXentLoss, nn.CMCLoss, nn.CACRLoss)
"""Timed with four views, too."""
PROTOTYPES = 3000
"""Of SwAV and DINO."""
ALONE_ABOVE = 16_384  # pairs beyond which only our NT-Xent runs: nobody else fits


@dataclass(frozen=True)
class Row:
    """One contender at one size."""

    name: str
    pairs: int
    seconds: float
    extra_bytes: int | None


Note = Callable[[str, str], None]
"""Progress: the stage, and what is under way in it."""


def run(pairs: Sequence[int], rounds: int, peers: bool, note: Note, only: Sequence[str] = ()) -> list[Row]:
    """Time and measure everybody at each size; of the losses `only` these, ours or from outside, if any are named."""
    makers = [Maker.of(name) for name in only] or [Maker(entry.loss) for entry in catalogue.losses()]
    torch.manual_seed(0)
    rows = []
    for n in pairs:
        contenders = _contenders(n, makers, peers, note, bool(only))
        memory = {}
        for name, call in contenders.items():
            note(f"{n} pairs: warming up and measuring memory", name)
            if n <= ALONE_ABOVE:
                call()
            memory[name] = peak_extra_memory(call)
        best = dict.fromkeys(contenders, float("inf"))
        for name, seconds in best_times(contenders, rounds if n <= ALONE_ABOVE else 1):
            best[name] = min(best[name], seconds)
            note(f"{n} pairs: timing", f"{name} {best[name] * 1e3:.1f} ms")
        rows += [Row(name, n, best[name], memory[name]) for name in contenders]
    return rows


def by_prototypes(prototypes: Tensor) -> dict[str, rivals.TwoViews]:
    """SwAV and DINO, whose objectives are no losses of pairs: of two views, as their methods compute them."""

    def swav(z0: Tensor, z1: Tensor) -> Tensor:
        scores = rivals.scores((z0, z1), prototypes)
        return swapped_prediction([sinkhorn(s.detach()) for s in scores], scores, 0.1)

    def dino(z0: Tensor, z1: Tensor) -> Tensor:
        scores = rivals.scores((z0, z1), prototypes)
        said = [s.detach() for s in scores]
        center = torch.stack(said).mean((0, 1))
        return swapped_prediction([torch.softmax((s - center) / 0.07, 1) for s in said], scores, 0.1)

    return {"SwAV": swav, "DINO": dino}


def _contenders(
    n: int, makers: Sequence[Maker], peers: bool, note: Note, only: bool = False
) -> dict[str, Callable[[], object]]:
    """A forward and backward pass of everybody who runs at this size."""
    views = [torch.randn(n, WIDTH, requires_grad=True) for _ in range(2)]
    if n > ALONE_ABOVE:
        return {"NTXentLoss": _pass(nn.NTXentLoss(), views)}
    calls: dict[str, Callable[[], object]] = {}
    for maker in makers:
        call = _pass(maker.kind(), views)
        try:
            call()
        except ValueError as error:  # such as a whitening of fewer items than numbers
            note(f"{n} pairs: without {maker.kind.__name__}: {error}", "")
            continue
        calls[maker.kind.__name__] = call
    prototypes = F.normalize(torch.randn(PROTOTYPES, WIDTH), dim=1)
    if not only:
        calls |= {name: _two(loss, views) for name, loss in by_prototypes(prototypes).items()}
    four = [torch.randn(n // 2, WIDTH, requires_grad=True) for _ in range(4)]
    for maker in makers:
        if maker.kind in MANY_VIEWS:
            calls[f"{maker.kind.__name__}, 4 views"] = _pass(maker.kind(), four)
    calls["three dense products"] = lambda: rivals.three_products(views[0], views[1])
    calls["dense PyTorch"] = _two(rivals.dense, views)
    calls["dense, torch.compile"] = _two(rivals.compiled(), views)
    if peers:
        calls["lightly"] = _two(rivals.lightly(), views)
        for name in rivals.ALIKE:
            if name in calls and (name != "WMSELoss" or n % rivals.WHITENED == 0):
                alike = rivals.lightly_alike(name, WIDTH, prototypes)
                calls[f"lightly, {name.removesuffix('Loss')}"] = _two(alike, views)
        if n <= 128:
            calls["pytorch-metric-learning"] = _two(rivals.metric_learning(), views)
        else:
            note(f"{n} pairs: without pytorch-metric-learning, which would ask for {4 * (2 * n) ** 3 / 1e9:.0f} GB", "")
    return calls


def _pass(loss: nn.Loss, views: Sequence[Tensor]) -> Callable[[], object]:
    if loss.takes_labels:
        kinds = torch.arange(len(views[0])).repeat(len(views)) % 100
        return lambda: torch.autograd.grad(loss(torch.cat(list(views)), kinds), views)
    return lambda: torch.autograd.grad(loss(*views), views, allow_unused=True)


def _two(loss: rivals.TwoViews, views: Sequence[Tensor]) -> Callable[[], object]:
    return lambda: torch.autograd.grad(loss(views[0], views[1]), views)


def targets(rows: Sequence[Row]) -> list[Target]:
    """The promises of the project that this run can judge."""
    seconds = {(r.name, r.pairs): r.seconds for r in rows}
    judged: list[Target] = []

    def faster(name: str, n: int, rival: str, times: float) -> None:
        if (name, n) in seconds and (rival, n) in seconds:
            ratio = seconds[rival, n] / seconds[name, n]
            judged.append(
                Target(f"{name} at {n} pairs against {rival}", f"≥ {times:g}×", f"{ratio:.2f}×", ratio >= times)
            )

    faster("NTXentLoss", 128, "lightly", 1)
    faster("NTXentLoss", 1024, "lightly", 1)
    faster("NTXentLoss", 4096, "lightly", 5)
    faster("NTXentLoss", 4096, "dense, torch.compile", 1.5)
    faster("NTXentLoss", 4096, "three dense products", 1)
    faster("NTXentLoss", 8192, "lightly", 6)
    potentials = [entry.name for entry in catalogue.losses() if entry.loss.is_potential]
    ours = [r for r in rows if "Loss" in r.name]
    for row in ours:
        if row.pairs == 4096 and row.name != "NTXentLoss":
            faster(row.name, 4096, "lightly", 3 if row.name in potentials else 1)
    for row in ours:
        limit = {4096: 100e6, 65_536: 1e9}.get(row.pairs)
        if limit and row.extra_bytes is not None:
            what = f"{row.name} at {row.pairs} pairs, peak extra memory"
            judged.append(
                Target(what, f"< {limit / 1e6:.0f} MB", f"{row.extra_bytes / 1e6:.0f} MB", row.extra_bytes < limit)
            )
    return judged
