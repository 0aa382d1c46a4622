"""Threads that use one core each, for work that comes in pieces.

torch would rather share out every single operation among the cores. Its threads then wait for each other by spinning,
and where processes that decode images want the same cores they wait for long: 27 ms of a processor for views that take
3 (docs/decisions/0025).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def one_core_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """`count` of them; those that torch gives anybody else stay as many as they were."""
    usual, ready = torch.get_num_threads(), threading.Barrier(count + 1)

    def begin() -> None:
        torch.set_num_threads(1)  # of this thread, and of all that ask for the first time from now on
        torch.get_num_threads()  # this one has asked
        ready.wait()

    with ThreadPoolExecutor(count, "isotherm-views", initializer=begin) as threads:
        for _ in range(count):
            threads.submit(int)  # it starts a thread, as all before are at the barrier
        ready.wait()
        others = threading.Thread(target=torch.set_num_threads, args=(usual,))
        others.start()
        others.join()
        yield threads
