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


def die_with(runner: int) -> None:
    """End this process when its runner has ended; on Linux also later, whenever it is killed."""
    with contextlib.suppress(OSError, AttributeError):
        set_parent_death_signal = 1
        ctypes.CDLL("libc.so.6").prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != runner:  # it was killed before the signal was set
        sys.exit()
