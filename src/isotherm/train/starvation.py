"""Whether the machine is too busy for this run: how long its threads stood in line for a core.

Linux tells for every thread how long it was ready and had no core (``/proc/self/task/*/schedstat``); elsewhere nothing
is said.
"""

from __future__ import annotations

import time
from pathlib import Path

WINDOW = 20.0
"""Seconds over which it is judged."""
STARVED = 0.5
"""The part of the time that the main thread stood in line, above which a run says so."""


class Starvation:
    """Asked now and then; says once that the run is being starved."""

    def __init__(self, clock: Path = Path("/proc/thread-self/schedstat")) -> None:
        self.clock = clock
        self.said = False
        self.since, self.waited = time.monotonic(), self._waited()

    def complaint(self) -> str:
        """A sentence, the first time that there is something to complain about."""
        now = time.monotonic()
        if self.said or now - self.since < WINDOW:
            return ""
        waited = self._waited()
        share = (waited - self.waited) / (now - self.since)
        self.since, self.waited = now, waited
        if share < STARVED:
            return ""
        self.said = True
        return (
            f"this machine is busy: the run stands in line for a core {share:.0%} of the time. "
            "Fewer --workers, or OMP_NUM_THREADS=1, share it better."
        )

    def _waited(self) -> float:
        """Seconds that this thread was ready to run and did not, so far."""
        try:
            return int(self.clock.read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):  # not on this system
            return 0.0
