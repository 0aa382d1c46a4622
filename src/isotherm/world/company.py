"""Processes that train together: one that is lost ends the others, in one sentence that names it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from isotherm.world.collectives import rank, size
from isotherm.world.presence import doing
from isotherm.world.watch import Watch

LOST = ("gloo", "Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL")
"""Words of the errors of a lost connection."""


class Lost(RuntimeError):
    """Another process has gone, or does not answer."""


@contextmanager
def company(timeout: float, silence: float) -> Iterator[None]:
    """Whatever torch says when another process is lost, said in one sentence, with what that one said last.

    One that gives no sign of life for `silence` seconds, or is stuck in a step, ends the others also where they wait
    for it; whatever else takes longer than `timeout` does so by torch.
    """
    if size() == 1:
        yield
        return
    doing("starting")
    with Watch(rank(), size(), silence) as watch:
        try:
            yield
        except BaseException as error:
            if not _is_loss(error):
                watch.tell(f"process {rank()} has ended, and said: {_first_line(error)}")
                raise
            with _to_the_last_word():
                who = watch.find()
            why = who or f"another process has ended or has not answered for {timeout:g} seconds"
            advice = "With that mended," if who else "Look at what the others said last;"
            raise Lost(watch.sentence(why, advice)) from error


def _is_loss(error: BaseException) -> bool:
    """Whether torch says so, and not this process."""
    words = any(word in str(error) for word in LOST)
    return isinstance(error, RuntimeError) and (isinstance(error, dist.DistError) or words)


@contextmanager
def _to_the_last_word() -> Iterator[None]:
    """SIGTERM, with which torchrun ends those that are left, does nothing for the seconds that this takes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN) or signal.SIG_DFL
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _first_line(error: BaseException) -> str:
    line = (str(error).splitlines() or [""])[0].rstrip(".")
    return line if isinstance(error, ValueError) else f"{type(error).__name__}: {line}"
