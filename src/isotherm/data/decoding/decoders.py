"""Processes that decode, from the side of who asks them: as many as there are cores, started again when one is killed.

What a process of them gives depends on the task alone, so neither how many there are nor which one died matters.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

import isotherm
from isotherm.data.declared import free_memory
from isotherm.data.decoding.decoder import Failures, Task

SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 26),  # the memory of an image is that of the one before, not new pages
    "MALLOC_TRIM_THRESHOLD_": str(1 << 28),
}
TRIES = 3
"""Processes that may die over the same images before these are refused."""


def processes() -> int:
    """How many processes decode for this one: ISOTHERM_WORKERS, else its share of the cores."""
    asked = os.environ.get("ISOTHERM_WORKERS")
    if asked is not None:
        if not asked.isdecimal() or not 1 <= int(asked) <= 1024:
            raise ValueError(f"ISOTHERM_WORKERS is how many processes decode, from 1 to 1024; got '{asked}'.")
        return int(asked)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


class Decoders:
    """Processes, and the memory that they share with this one: ``with Decoders(2, 1 << 20) as decoders: …``."""

    def __init__(self, count: int, room: int) -> None:
        self._file = _shared(max(1, room))
        self.memory: NDArray[np.uint8] = np.frombuffer(mmap.mmap(self._file.fileno(), 0), np.uint8)
        self._threads = ThreadPoolExecutor(count, "isotherm-decoder")  # each talks to a process of its own
        self._own = threading.local()
        self._running: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            process.kill()  # it holds nothing that could be lost
        self._threads.shutdown(cancel_futures=True)
        for process in running:
            _end(process)
        self._file.close()

    @property
    def pids(self) -> list[int]:
        """Of the processes that are there now."""
        with self._lock:
            return [process.pid for process in self._running]

    def submit(self, task: Task) -> Future[Failures]:
        """Have a task done: its failures, once its other images' crops are in the memory."""
        return self._threads.submit(self._done, task)

    def _done(self, task: Task) -> Failures:
        why = ""
        for _ in range(TRIES):
            process = self._process()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                pickle.dump(task, process.stdin)
                process.stdin.flush()
                failures: Failures = pickle.load(process.stdout)
                return failures
            except (EOFError, OSError, pickle.UnpicklingError):
                why = self._buried(process)
        first, last = task.places[0], task.places[-1]
        raise RuntimeError(
            f"{TRIES} processes one after another {why} over the images from {shown(first.file)} to "
            f"{shown(last.file)}. Remove the images that it cannot decode, or give it more memory."
        )

    def _process(self) -> subprocess.Popen[bytes]:
        """This thread's process, started if there is none."""
        process: subprocess.Popen[bytes] | None = getattr(self._own, "process", None)
        if process is None:
            home = str(Path(isotherm.__file__).parent.parent)
            path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
            process = subprocess.Popen(
                [sys.executable, "-m", "isotherm.data.decoding.decoder", str(self._file.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[self._file.fileno()],
                env={**os.environ, **SETTINGS, "PYTHONPATH": path},
            )
            self._own.process = process
            with self._lock:
                self._running.append(process)
                if self._closed:
                    process.kill()
        return process

    def _buried(self, process: subprocess.Popen[bytes]) -> str:
        """How a process ended; another will take its place."""
        _end(process)
        self._own.process = None
        with self._lock:
            self._running.remove(process)
            if self._closed:
                raise RuntimeError("nobody waits for these images any more")
        code = process.returncode
        if code < 0:
            why = f"were killed by signal {-code} ({signal.Signals(-code).name})"
            if -code == signal.SIGKILL:
                why += ", as the kernel does when memory runs out"
        else:
            why = f"ended with exit code {code}"
        told = why.replace("were", "was")
        warnings.warn(f"a process that decodes images {told}; another takes its place", RuntimeWarning, stacklevel=2)
        return why


def shown(file: object) -> str:
    """A file, or the shard that it is in, for a message."""
    return str(getattr(file, "path", file))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # what was not yet sent has nowhere to go
            pipe.close()


def _shared(size: int) -> IO[bytes]:
    """A file without a name, in memory where the system has that.

    The room is asked for before any is taken: nobody bounds such a file, and the kernel would kill for the rest of it.
    """
    free = free_memory()
    if size > free:
        raise MemoryError(
            f"the batches that are decoded ahead take {size / 2**20:,.0f} MB of memory, {free / 2**20:,.0f} are free. "
            "Use a smaller batch, smaller views, or prepare fewer batches ahead (prefetch)."
        )
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("isotherm"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the decoders
    os.truncate(file.fileno(), size)
    return file
