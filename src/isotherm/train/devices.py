"""Where a run runs: the device, the processes, the precision, the allocator."""

from __future__ import annotations

import ctypes
import logging
import os
from typing import Any

import torch
from lightning_fabric import Fabric

from isotherm.train.config import Config, Runtime


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
        many = {"devices": here, "num_nodes": processes // here, "strategy": "ddp"}
    for name in ("lightning.fabric", "lightning_fabric"):  # it announces itself otherwise
        logging.getLogger(name).setLevel(logging.WARNING)
    fabric = Fabric(accelerator=accelerator, precision=config.precision, **many)
    fabric.launch()
    return fabric


def keep_freed_memory() -> None:
    """Tell glibc to keep what is freed: a step frees and asks again for the same hundreds of megabytes.

    Otherwise every buffer comes back as fresh pages, a third of the time of small networks on a CPU.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        trim_threshold, mmap_threshold, top_pad = -1, -3, -2
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)
        libc.mallopt(top_pad, 1 << 26)
    except (OSError, AttributeError):  # another libc
        return
