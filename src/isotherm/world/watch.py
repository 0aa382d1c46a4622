"""Who is lost: judged from the heartbeats, and from how long this process's own main thread has been in one place.

Time is counted by this thread's own beats, so that a process that was itself put to sleep, or is on a machine too busy
to run it, takes nobody for dead. A call that waits for another process cannot be interrupted: this thread says why, in
one sentence, and ends the process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from threading import Event, Thread
from typing import NoReturn

from isotherm.world.heartbeat import Heartbeat
from isotherm.world.presence import here

SLOW = 20
"""A step is stuck no sooner than after this many times the longest one."""
SOON = 5.0
"""Seconds without a sign after which one is lost, if the connection to somebody is."""
GRACE = 10.0
"""Seconds that a process has to end by itself when another one says that the run ends."""


class Watch:
    """Watches over the processes of a run while it is entered; `silence` in seconds."""

    def __init__(self, rank: int, size: int, silence: float) -> None:
        self.rank, self.size, self.silence = rank, size, silence
        self.every = min(1.0, silence / 10)
        self.heart = Heartbeat(rank, size, self.every)
        self._silent = dict.fromkeys(self.heart.others, 0.0)
        self._last = dict(self.heart.seen)
        self._answers, self._unanswered = 0, 0.0
        self._place, self._stuck, self._longest = here.place, 0.0, 0.0
        self._over = Event()
        self._main = threading.current_thread().ident
        self._thread = Thread(target=self._look, name="isotherm watch", daemon=True)

    def __enter__(self) -> Watch:
        self.heart.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.heart.stop()

    def tell(self, why: str) -> None:
        """Tell the others why this process ends."""
        self.heart.verdict = self.heart.verdict or why

    def find(self) -> str:
        """Who is lost, now that a connection is: at once if somebody told, else whoever gives no sign."""
        self.heart.warned = True
        deadline = time.monotonic() + min(SOON, self.silence) + 5 * self.every
        while not self.heart.verdict and time.monotonic() < deadline:
            time.sleep(self.every / 4)
        self.tell(self._still_at_work())
        if self.rank == 0:  # which may keep the store that the others read
            time.sleep(3 * self.every)
        return self.heart.verdict

    def sentence(self, why: str, advice: str = "With that mended,") -> str:
        return (
            f"process {self.rank} of {self.size}: {why}. {advice} the same command with --resume goes on from the last "
            "checkpoint."
        )

    def _look(self) -> None:
        before, since_verdict, own = time.monotonic(), 0.0, False
        while not self._over.wait(self.every):
            now = time.monotonic()
            passed, before = min(now - before, 2 * self.every), now
            if not self.heart.verdict:
                self._count(passed)
                self.heart.verdict = self.heart.verdict or self._judged()
                own = bool(self.heart.verdict)
                continue
            since_verdict += passed
            enough = 3 * self.every if own else min(GRACE, self.silence)
            if since_verdict >= enough and not self.heart.warned:  # else the main thread is about to say it
                self._end()

    def _count(self, passed: float) -> None:
        """Add the time that has passed to those that showed no sign of life, and to this process if it stands still."""
        self._unanswered += passed
        if self.heart.answers != self._answers:
            for other, sign in self.heart.seen.items():
                dead = sign == self._last[other] and other in self._watched() and sign.state != "left"
                self._silent[other] = self._silent[other] + self._unanswered if dead else 0.0
                self._last[other] = sign
            self._answers, self._unanswered = self.heart.answers, 0.0
        if here.place is not self._place:
            if self._place.steady:
                self._longest = max(self._longest, self._stuck)
            self._place, self._stuck = here.place, 0.0
        elif not (here.waits or self.heart.warned):
            self._stuck += passed

    def _watched(self) -> list[int]:
        return self.heart.others if self.heart.warned else self.heart.watched

    def _judged(self) -> str:
        """Why the run must end; empty if it need not."""
        patience = min(SOON, self.silence) if self.heart.warned else self.silence
        if self._unanswered > patience:
            return f"{self._keeper()} has given no answer for {self._unanswered:.0f} seconds"
        blameless = ("warned", "left")
        blamed = [other for other, sign in self.heart.seen.items() if sign.state not in blameless]
        other = max(blamed, key=lambda each: self._silent[each], default=self.rank)
        if self._silent.get(other, 0.0) > patience:
            since, last = self._silent[other], self.heart.seen[other].place
            return f"process {other} has given no sign of life for {since:.0f} seconds; its last sign: {last}"
        if self._place.steady and not here.waits and self._stuck > max(self.silence, SLOW * self._longest):
            return f"process {self.rank} has been stuck for {self._stuck:.0f} seconds {self._place}, in {self._where()}"
        return ""

    def _keeper(self) -> str:
        """Who keeps the store in which the processes meet, and the last sign of it."""
        if self.rank == 0 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            return "torchrun on the first machine, where the processes meet,"
        return f"process 0, where the processes meet (its last sign: {self.heart.seen[0].place}),"

    def _where(self) -> str:
        """The line of code at which the main thread is."""
        frame = sys._current_frames().get(self._main or 0)
        if frame is None:
            return "code of its own"
        last = traceback.extract_stack(frame)[-1]
        return f"{last.name}, line {last.lineno} of {os.path.basename(last.filename)}"

    def _still_at_work(self) -> str:
        """Who lives, and does not come."""
        late = [other for other, sign in self.heart.seen.items() if sign.state == "at work"]
        names = ", ".join(f"process {other} ({self.heart.seen[other].place})" for other in late)
        return f"the others wait for {names}, which lives but does not come" if late else ""

    def _end(self) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        print(f"isotherm: {self.sentence(self.heart.verdict)}", file=sys.stderr, flush=True)
        os._exit(1)
