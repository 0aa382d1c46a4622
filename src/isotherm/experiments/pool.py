"""Local processes that carry out runs, each with its share of the cores; a dead one is replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

from isotherm import doors
from isotherm.experiments.progress import Progress
from isotherm.experiments.records import Measured
from isotherm.experiments.study import Point
from isotherm.experiments.worker import work

RETRIES = 3
"""How often a run may lose its worker."""


def _quiet() -> Any:
    """Ignore SIGINT, as children do that are started meanwhile; what was before."""
    try:
        return signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread
        return None


def _restore(handler: Any) -> None:
    if handler is not None:
        signal.signal(signal.SIGINT, handler)


class Worker:
    """A process and the run it has."""

    def __init__(self, threads: int) -> None:
        spawning = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawning.Pipe()
        given = (theirs, os.getpid(), threads, doors.allowed())
        self.process: Any = spawning.Process(target=work, args=given, daemon=True)
        heard = _quiet()  # Ctrl-C is the runner's affair; it ends its workers
        self.process.start()
        _restore(heard)
        theirs.close()
        self.point: Point | None = None

    def end(self) -> None:
        if self.point is not None:
            self.process.kill()
        else:
            with contextlib.suppress(OSError):  # it may be dead already
                self.pipe.send(None)
        self.pipe.close()
        self.process.join()


def carry_out_all(todo: Sequence[Point], count: int, progress: Progress) -> Iterator[None]:
    """Carry out these runs in so many processes; yields about once a second and whenever one ends."""
    threads = threads_each(count, len(progress.points))
    count = max(1, min(count, len(todo)))
    waiting = list(reversed(todo))

    def give(worker: Worker) -> None:
        worker.point = waiting.pop() if waiting and not progress.out_of_time else None
        if worker.point is not None:
            progress.running[worker.point.config.key] = time.monotonic()
            worker.pipe.send(progress.task(worker.point))

    workers = [Worker(threads) for _ in range(count)]
    lost: dict[str, int] = {}
    try:
        for worker in workers:
            give(worker)
        while busy := [w for w in workers if w.point is not None]:
            for pipe in wait([w.pipe for w in busy], timeout=1.0):
                i = next(i for i, w in enumerate(workers) if w.pipe is pipe)
                if not _heard(workers[i], progress, lost, waiting):
                    workers[i].point = None
                    workers[i].end()
                    workers[i] = Worker(threads)
                give(workers[i])
            yield
    finally:
        for worker in workers:
            worker.end()


def threads_each(count: int, runs: int) -> int:
    """How many threads a worker has, of so many for a study of so many runs.

    Those that are left do not matter: a run that is gone on with later, alone, must round as it would have.
    """
    return max(1, (os.cpu_count() or 1) // max(1, min(count, runs)))


def _heard(worker: Worker, progress: Progress, lost: dict[str, int], waiting: list[Point]) -> bool:
    """Take what a worker says of its run; False if it died, then the run waits for another."""
    assert worker.point is not None
    key = worker.point.config.key
    try:
        answer: Measured | str = worker.pipe.recv()
    except (EOFError, ConnectionResetError):
        lost[key] = lost.get(key, 0) + 1
        progress.retried += 1
        if lost[key] > RETRIES:
            progress.hear(key, f"its worker died {lost[key]} times")
        else:
            progress.running.pop(key, None)
            waiting.append(worker.point)
        return False
    progress.hear(key, answer)
    return True
