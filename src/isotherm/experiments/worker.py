"""A local process of a study's pool. Light: it sees to it that it ends with its runner before it imports torch.

A worker needs seconds to import what it works with. A runner killed meanwhile would leave it behind with a run in its
pipe, alone in a folder where the next runner meets it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection


def work(pipe: Connection, runner: int, threads: int, allowed: Sequence[str]) -> None:
    """What a worker does: takes runs until there are none. Names from outside are allowed that its runner allowed."""
    die_with(runner)
    take_threads(threads)
    import torch

    from isotherm import doors
    from isotherm.experiments.measuring import attempt

    torch.set_num_threads(threads)
    doors.allow(*allowed)
    while True:
        try:
            task = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        if task is None:
            return
        pipe.send(attempt(*task))


def take_threads(threads: int) -> None:
    """Let numpy's and scipy's BLAS have as many threads as torch, unless the user said otherwise; before they load.

    Each of them counts the machine's cores for itself. Two workers on two cores then have four threads of BLAS that
    wait for each other by spinning: a solve of 650 numbers took ten times as long, two fifths of a small run.
    """
    for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM"):
        os.environ.setdefault(f"{library}_NUM_THREADS", str(threads))


def die_with(runner: int) -> None:
    """End this process when its runner has ended; on Linux also later, whenever it is killed."""
    with contextlib.suppress(OSError, AttributeError):
        set_parent_death_signal = 1
        ctypes.CDLL("libc.so.6").prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != runner:  # it was killed before the signal was set
        sys.exit()
