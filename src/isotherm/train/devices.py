"""Where a run runs: the device, the processes and whether they agree, the precision, the allocator."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

from isotherm import __version__, world
from isotherm.train.config import Config, Runtime

Given = TypeVar("Given")


def fabric_for(config: Config, place: Runtime) -> Any:
    """Devices, processes and precision. Under torchrun every process joins the others."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    accelerator = place.device
    if accelerator == "auto":
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    if accelerator not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device must be auto, cpu, cuda or mps; got {place.device!r}.")
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise ValueError("this machine has no CUDA device; use --device cpu.")
    if accelerator == "cpu" and config.precision == "16-mixed":
        raise ValueError("16-mixed needs a GPU; on a processor use --precision bf16-mixed or 32.")
    many: dict[str, Any] = {"devices": 1}
    if processes > 1:
        here = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
        strategy = DDPStrategy(timeout=timedelta(seconds=place.timeout))
        many = {"devices": here, "num_nodes": processes // here, "strategy": strategy}
    for name in ("lightning.fabric", "lightning_fabric"):  # it announces itself otherwise
        logging.getLogger(name).setLevel(logging.WARNING)
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if processes > 1 and restarts:
        world.join_again(restarts, "nccl" if accelerator == "cuda" else "gloo", timedelta(seconds=place.timeout))
    fabric = Fabric(accelerator=accelerator, precision=config.precision, **many)
    fabric.launch()
    return fabric


def on_all(act: Callable[[], Given], device: torch.device) -> Given:
    """What this process gets from this; a refusal on one of them ends all, and the others say whose it was."""
    result: Given | None = None
    problem: Exception | None = None
    try:
        result = act()
    except (ValueError, TypeError, OSError) as error:
        problem = error
    refused = [rank for rank, (failed,) in enumerate(world.everyone([int(problem is not None)], device)) if failed]
    if problem is not None:
        raise problem
    if refused:
        raise ValueError(f"process {refused[0]} could not start; it says why.")
    return result  # type: ignore[return-value]


def refuse_unlike(config: Config, exchange: str, fingerprint: Callable[[], str], device: torch.device) -> None:
    """Refuse processes that would train different runs together, and name one that differs from the rest."""
    if world.size() == 1:
        return
    versions = f"{__version__} {torch.__version__}"
    facts = {"settings": config.key, "exchange": exchange, "data": fingerprint(), "versions": versions}
    digests = [int(hashlib.sha256(fact.encode()).hexdigest()[:15], 16) for fact in facts.values()]
    everyone = world.everyone(digests, device)
    for what, numbers in zip(facts, zip(*everyone, strict=True), strict=True):
        usual = Counter(numbers).most_common(1)[0][0]
        odd = next((rank for rank, number in enumerate(numbers) if number != usual), None)
        if odd is not None:
            raise ValueError(
                f"process {odd} has other {what} than most of the {len(numbers)} processes (here, on process "
                f"{world.rank()}: {facts[what]}). All of them must be given the same."
            )


def keep_freed_memory() -> None:
    """Tell glibc to keep what is freed: a step frees and asks again for the same hundreds of megabytes.

    Otherwise every buffer comes back as fresh pages, a third of the time of small networks on a CPU. All threads share
    what is kept: one that a thread had for itself would hold nothing of 64 MB or more, such as a batch of views.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        trim_threshold, mmap_threshold, top_pad, arenas = -1, -3, -2, -8
        libc.mallopt(arenas, 1)
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)
        libc.mallopt(top_pad, 1 << 26)
    except (OSError, AttributeError):  # another libc
        return
