"""`isotherm bench train`: what a SimCLR step costs beyond its encoder, and what the compiler, bfloat16 with
channels_last save."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from isotherm.bench.measure import Target, best_times
from isotherm.encoders import encoder, head
from isotherm.nn import NTXentLoss
from isotherm.views import recipe

NETWORKS = {"resnet18": 128, "small_alexnet": 256}
"""Encoder and batch; a step sees two views of each image."""
ALONE = "encoder alone"
STEP = "SimCLR step"
FAST = "SimCLR step, channels_last + bfloat16"
COMPILED = "SimCLR step, encoder compiled"
"""By `torch.compile`, where there is a compiler."""


def run(rounds: int, note: Callable[[str, str], None]) -> dict[str, dict[str, float]]:
    """Seconds a step of each way, for each network."""
    results = {}
    note("torch.compile", "looking for a compiler")
    compiles = why_not_compiled() is None
    for name, batch in NETWORKS.items():
        calls = contenders(name, batch, compiles)
        best = dict.fromkeys(calls, float("inf"))
        for what, call in calls.items():
            note(f"{name}: warming up", what)
            call()
        for what, seconds in best_times(calls, rounds):
            best[what] = min(best[what], seconds)
            note(f"{name}: timing", f"{what} {2 * batch / best[what]:,.0f} views/s")
        results[name] = best
    return results


def targets(seconds: dict[str, dict[str, float]]) -> list[Target]:
    """The promises this run can judge."""
    judged = []
    for name, best in seconds.items():
        extra = best[STEP] / best[ALONE] - 1
        judged.append(
            Target(f"{name}: a SimCLR step over its encoder alone", "≤ 10 % more", f"{extra:+.1%}", extra <= 0.1)
        )
        if has_bfloat16():
            ratio = best[STEP] / best[FAST]
            judged.append(Target(f"{name}: channels_last + bfloat16", "≥ 1.6×", f"{ratio:.2f}×", ratio >= 1.6))
    return judged


@functools.cache
def why_not_compiled() -> str | None:
    """Why `torch.compile` does not work here, mostly for want of a C++ compiler; None: it does."""
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.zeros(2))
    except Exception as error:  # its backends raise whatever they like
        return str(error).strip().splitlines()[0]
    return None


def has_bfloat16() -> bool:
    """Whether this processor has bfloat16 instructions, without which bfloat16 saves nothing."""
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and any(flag in cpuinfo.read_text() for flag in ("avx512_bf16", "amx_bf16", " bf16"))


def contenders(name: str, batch: int, compiles: bool = False) -> dict[str, Callable[[], object]]:
    """A step of each way."""
    pixels = torch.randint(0, 256, (batch, 3, 32, 32), dtype=torch.uint8)
    ids = torch.arange(batch)
    make, loss = recipe("simclr-cifar"), NTXentLoss()
    ready = torch.cat(make(pixels, ids))
    calls: dict[str, Callable[[], object]] = {}

    def add(
        what: str,
        forward: Callable[[nn.Module], Tensor],
        last: bool = False,
        half: bool = False,
        compiled: bool = False,
    ) -> None:
        torch.manual_seed(0)
        backbone = encoder(name, channels=3, size=32)
        network: nn.Module = nn.Sequential(backbone, head("simclr", backbone.width))
        if compiled:
            backbone.compile()
        if last:
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
                value = forward(network)
            value.backward()
            optimizer.step()

        calls[what] = step

    def simclr(network: nn.Module, last: bool = False) -> Tensor:
        x = torch.cat(make(pixels, ids))
        z: Tensor = network(x.contiguous(memory_format=torch.channels_last) if last else x)
        value: Tensor = loss(z[:batch], z[batch:])
        return value

    add(ALONE, lambda network: network(ready).square().mean())
    add(STEP, simclr)
    if compiles:
        add(COMPILED, simclr, compiled=True)
    add(FAST, lambda network: simclr(network, last=True), last=True, half=True)
    return calls
