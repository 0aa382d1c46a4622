"""What the main thread of this process is at: it writes a variable, which its heartbeat reads."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """Where in a run the main thread is. A new one is a sign of progress."""

    what: str
    number: int | None = None
    steady: bool = False
    """Whether the next sign must come soon. Reading data, measuring and compiling take as long as they take."""

    def __str__(self) -> str:
        return self.what if self.number is None else f"{self.what} {self.number}"


class Here:
    """The place of this process; and whether it waits for others there."""

    place = Place("starting")
    waits = False


here = Here()


class _Waiting:
    """Inside, this process is not at work but waits for others."""

    def __enter__(self) -> None:
        here.waits = True

    def __exit__(self, *_: object) -> None:
        here.waits = False


waiting = _Waiting()


def doing(what: str) -> None:
    """This process begins something that takes as long as it takes."""
    here.place = Place(what)


def taken(step: int, steady: bool) -> None:
    """This process has taken that step; the next is about as long if steps are `steady`."""
    here.place = Place("after step", step, steady)
