"""`isotherm bench monitor`: what a look at every step costs, beside a SimCLR step of ResNet-18 on small images."""

from __future__ import annotations

from collections.abc import Callable

import torch

from isotherm.bench.measure import Target, best_times
from isotherm.bench.train import NETWORKS, STEP, contenders
from isotherm.monitor import Monitor

NETWORK = "resnet18"
ITEMS, WIDTH = 512, 128
LOOK = f"monitor of two views, {ITEMS}×{WIDTH}"


def run(rounds: int, note: Callable[[str, str], None]) -> dict[str, float]:
    """Seconds of a step, and of a look at embeddings."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(ITEMS, WIDTH, generator=generator)
    other = z + 0.3 * torch.randn(ITEMS, WIDTH, generator=generator)
    monitor = Monitor(grace=None)
    step = contenders(NETWORK, NETWORKS[NETWORK])[STEP]
    calls: dict[str, Callable[[], object]] = {STEP: step, LOOK: lambda: monitor(z, other)}
    best = dict.fromkeys(calls, float("inf"))
    for what, call in calls.items():
        note("warming up", what)
        call()
    for what, seconds in best_times(calls, rounds):
        best[what] = min(best[what], seconds)
        note("timing", f"{what}: {best[what] * 1e3:,.1f} ms")
    return best


def targets(best: dict[str, float]) -> list[Target]:
    """The promise: under 2 % of a step."""
    part = best[LOOK] / best[STEP]
    what = f"a look at every step, of a {NETWORK} step ({NETWORKS[NETWORK]} images, two views of 32×32)"
    return [Target(what, "< 2 %", f"{part:.2%}", part < 0.02)]
