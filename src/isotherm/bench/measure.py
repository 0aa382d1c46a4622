"""Fair measurements on a noisy machine: interleaved rounds, best of several, peak memory from the kernel."""

from __future__ import annotations

import ctypes
import gc
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Target:
    """A promise, and whether this run kept it."""

    what: str
    wanted: str
    measured: str
    met: bool


def best_times(
    contenders: Mapping[str, Callable[[], object]], rounds: int, enough: float = 0.2
) -> Iterator[tuple[str, float]]:
    """Run everybody once a round and yield (name, seconds) of each run: the caller keeps the best.

    A contender much faster than `enough` seconds runs several times in its turn, so that every one gets a fair
    number of tries.
    """
    pace: dict[str, float] = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            tries = min(20, max(1, int(enough / pace.get(name, enough))))
            for _ in range(tries):
                started = time.perf_counter()
                run()
                pace[name] = time.perf_counter() - started
                yield name, pace[name]


def peak_extra_memory(run: Callable[[], object]) -> int | None:
    """How many bytes `run` needs on top of what the process holds already; None where the kernel cannot say.

    The kernel's high-water mark of resident memory, reset before the run (Linux).
    """
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what is free goes back, so that using it again counts
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        run()
        return max(0, _status("VmHWM") - before)
    except OSError:
        return None


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in /proc/self/status")


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = names[0] if names else name
    return {
        "processor": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
