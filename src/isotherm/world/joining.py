"""How a process becomes one of several, and takes part no longer."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import torch.distributed as dist


def join(rank: int, size: int, meeting: Path, backend: str = "gloo") -> None:
    """This process becomes one of several on this machine, which meet in a file."""
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=size)


def join_again(restarts: int, backend: str, timeout: timedelta) -> None:
    """This process becomes one of those that torchrun has started anew.

    They meet where those before them did, and must not read the addresses that these left: torch gives them no other
    place (`torch.distributed.rendezvous`), so that whoever is first would call the dead.
    """
    store, rank, size = next(dist.rendezvous("env://", timeout=timeout))  # type: ignore[attr-defined]
    place = dist.PrefixStore(f"restart {restarts}", store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=place, rank=rank, world_size=size, timeout=timeout)


def leave() -> None:
    """This process takes part no longer."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
