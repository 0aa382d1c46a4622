"""The heartbeat of a process: every second a sign of life in the store that the processes share.

A thread of its own, with a connection of its own: what blocks the main thread does not block it. It reads the others'
signs and the verdict, if somebody was lost, and judges nothing (`isotherm.world.watch` does). The store may stop to
answer; then this thread stands still, and nobody waits for it.
"""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from threading import Event, Thread
from typing import Any, NamedTuple

import torch.distributed as dist

from isotherm.world.presence import here

LOST = "lost"
"""Under this name whoever is first leaves why the run ends."""
PATIENCE = 5.0
"""Seconds for a store to answer when this process leaves."""
_runs = itertools.count()


class Sign(NamedTuple):
    """A sign of life."""

    beat: int = 0
    state: str = "starting"
    """starting, at work, waits, warned (has noticed that somebody is lost), or left."""
    place: str = "starting"


class Heartbeat:
    """Shows the others that this process lives, and sees which of them do."""

    def __init__(self, rank: int, size: int, every: float) -> None:
        self.rank, self.every = rank, every
        self.others = [other for other in range(size) if other != rank]
        self.seen = {other: Sign() for other in self.others}
        self.watched = self.others if rank == 0 else [0]  # the first sees all: messages grow as processes do
        self.answers = 0
        """How often the store has answered."""
        self.verdict = ""
        """Why the run ends: to be told to the others, or told by one of them."""
        self.warned = False
        self._posted = False
        self._over = Event()
        shared = dist.distributed_c10d._get_default_store()
        own = shared.clone() if hasattr(shared, "clone") else shared
        self._store: Any = dist.PrefixStore(f"isotherm run {next(_runs)}", own)  # type: ignore[attr-defined]
        self._thread = Thread(target=self._beat, name="isotherm heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Say goodbye, if the store still listens."""
        self._over.set()
        self._thread.join(PATIENCE)

    def _beat(self) -> None:
        over = False
        with suppress(Exception):  # whoever kept the store has gone: it answers no more, which is judged elsewhere
            for count in itertools.count(1):
                self._talk(count, over)
                self.answers += 1
                if over:
                    return
                over = self._over.wait(self.every)

    def _talk(self, count: int, over: bool) -> None:
        state = "left" if over else "warned" if self.warned else "waits" if here.waits else "at work"
        self._store.set(str(self.rank), json.dumps([count, state, str(here.place)]))
        if self.verdict and not self._posted:
            self.verdict = self._store.compare_set(LOST, "", self.verdict).decode(errors="replace")
            self._posted = True
        elif not self.verdict and self._store.check([LOST]):
            self.verdict, self._posted = self._store.get(LOST).decode(errors="replace"), True
        for other in self.others if self.warned else self.watched:
            if self.seen[other].beat or self._store.check([str(other)]):
                self.seen[other] = Sign(*json.loads(self._store.get(str(other))))
