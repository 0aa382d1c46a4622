"""`isotherm bench step`: where the time of a training step goes: by stage, and by kernel, with launches and waits.

A SimCLR step in five stages, one after another: the loss is differentiated down to the embeddings before the encoder
is, so that each has its own time. Stages are timed without the profiler, which slows down what it looks at.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from isotherm.encoders import encoder, head
from isotherm.nn import NTXentLoss
from isotherm.views import recipe
from isotherm.waiting import without_waiting

STAGES = ("views", "encoder forward", "loss", "encoder backward", "optimizer")
PROFILED = 3
"""Steps that the profiler sees."""
TOP = 10
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "hipStreamSynchronize")
"""Calls after which the processor knows that a device has done what it was given."""
ASKS = ("aten::_local_scalar_dense", "aten::nonzero")
"""Operations whose result Python must know: on a device each would be a wait."""


class Kernel(NamedTuple):
    """All calls of one kernel (of one operation, on a processor) in a step."""

    name: str
    seconds: float
    calls: float


@dataclass(frozen=True)
class Profile:
    """Of one step: the median seconds of its stages, and what the profiler saw, per step."""

    device: str
    network: str
    batch: int
    size: int
    stages: dict[str, float]
    kernels: list[Kernel]
    """every one, the longest first"""
    launches: float
    waits: float
    """times that Python asked for a result, or the processor waited for the device"""

    @property
    def busy(self) -> float:
        """Seconds in kernels."""
        return sum(kernel.seconds for kernel in self.kernels)

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())


def run(device: str, network: str, batch: int, size: int, rounds: int, note: Callable[[str, str], None]) -> Profile:
    """A SimCLR step of this encoder with so many images of size×size, two views each."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("this machine has no CUDA device; `isotherm bench step --device cpu` profiles its processor.")
    here = torch.device(device)
    step = _Step(here, network, batch, size)
    note("warming up", network)
    for _ in range(2):
        step()
    times = []
    for number in range(rounds):
        note("timing", f"step {number + 1} of {rounds}")
        times.append(step())
    note("profiling", f"{PROFILED} steps")
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if here.type == "cuda" else [])]
    with profile(activities=kinds) as seen:
        for _ in range(PROFILED):
            step.stages()
        _finish(here)
    stages = {name: statistics.median(each[name] for each in times) for name in STAGES}
    kernels, launches, waits = _counted(seen.events() or (), here.type == "cuda")
    return Profile(device, network, batch, size, stages, kernels, launches, waits)


class _Step:
    """A SimCLR step, whole or with the seconds of its stages."""

    def __init__(self, device: torch.device, network: str, batch: int, size: int) -> None:
        torch.manual_seed(0)
        backbone = encoder(network, channels=3, size=size)
        self.device, self.batch = device, batch
        self.network = nn.Sequential(backbone, head("simclr", backbone.width)).to(device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=0.9)
        self.pixels = torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8).to(device)
        self.ids = torch.arange(batch, device=device)
        self.recipe, self.loss = recipe("simclr" if size > 64 else "simclr-cifar", 2, size), NTXentLoss()

    def __call__(self) -> dict[str, float]:
        """One step: the seconds of each stage, on the device's own clock where it has one."""
        marks: list[Any] = []
        self.stages(lambda: marks.append(_mark(self.device)))
        _finish(self.device)
        lengths = [_between(a, b) for a, b in pairwise(marks)]
        return dict(zip(STAGES, lengths, strict=True))

    def stages(self, mark: Callable[[], None] = lambda: None) -> None:
        with without_waiting() if self.device.type == "cuda" else nullcontext():  # as training has it
            self._stages(mark)

    def _stages(self, mark: Callable[[], None]) -> None:
        mark()
        views = torch.cat(self.recipe(self.pixels, self.ids))
        mark()
        embeddings = self.network(views)
        mark()
        z = embeddings.detach().requires_grad_()
        self.loss(z[: self.batch], z[self.batch :]).backward()
        mark()
        self.optimizer.zero_grad()
        embeddings.backward(z.grad)
        mark()
        self.optimizer.step()
        mark()


def _mark(device: torch.device) -> Any:
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(begin: Any, end: Any) -> float:
    return end - begin if isinstance(begin, float) else float(begin.elapsed_time(end)) / 1e3


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _counted(events: Iterable[Any], on_gpu: bool) -> tuple[list[Kernel], float, float]:
    """Kernels, launches and waits of a step; on a processor every operation is a kernel."""
    seconds: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    waits = 0
    for event in events:
        waits += event.name in (*WAITS, *(() if on_gpu else ASKS))
        if on_gpu == (event.device_type.name == "CUDA"):
            seconds[event.name] += (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1e6
            calls[event.name] += 1
    kernels = [Kernel(name, took / PROFILED, calls[name] / PROFILED) for name, took in seconds.most_common()]
    last = 1 if on_gpu else 0  # the profile ends with a wait of ours
    return kernels, calls.total() / PROFILED, max(0, waits - last) / PROFILED


def numbers(result: Profile) -> dict[str, Any]:
    """Everything measured, for a file."""
    return {**asdict(result), "kernels": [kernel._asdict() for kernel in result.kernels], "busy": result.busy}
