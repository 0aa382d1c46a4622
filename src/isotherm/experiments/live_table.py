"""The live table of a study's grid on a terminal; elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from isotherm.experiments.progress import Progress
from isotherm.measures.catalogue import measures
from isotherm.measures.measure import usable

EVERY = 10.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def live_table(console: Console) -> Iterator[Callable[[Progress], None]]:
    """Something to call with the progress whenever it may have changed."""
    said: set[str] = set()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2, transient=True) as live:

            def table(progress: Progress) -> None:
                for note in _new(progress, said):
                    console.print(note, highlight=False, markup=False, soft_wrap=True)
                live.update(table_of(progress))

            yield table
        return
    last = [0.0]

    def line(progress: Progress) -> None:
        for note in _new(progress, said):
            print(note, file=sys.stderr, flush=True)
        if time.monotonic() - last[0] >= EVERY or not progress.running:
            last[0] = time.monotonic()
            print(summary(progress), file=sys.stderr, flush=True)

    yield line


def _new(progress: Progress, said: set[str]) -> list[str]:
    """Notes that have not been told yet."""
    notes = [note for note in progress.notes if note not in said]
    said.update(notes)
    return notes


def summary(progress: Progress) -> str:
    left = progress.seconds_left()
    parts = [f"{len(progress.finished)} of {len(progress.points)} runs done"]
    if progress.before and len(progress.finished) == progress.before:
        parts.append(f"{progress.before} from before")
    if progress.failed:
        parts.append(f"{len(progress.failed)} failed")
    if progress.retried:
        parts.append(f"{progress.retried} tried again")
    if left and len(progress.finished) < len(progress.points):
        parts.append(f"about {left / 60:.0f} min left" if left > 90 else f"about {left:.0f} s left")
    return ", ".join(parts)


def table_of(progress: Progress) -> Table:
    """Where every arm stands, and what runs now."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", title=summary(progress), title_justify="left")
    shown = [
        m
        for m in measures().values()
        if m.monitor and any(usable(r.measures.get(m.name)) for r in progress.finished.values())
    ]
    for column in ("arm", "done", *(f"last {m.heading}" for m in shown), "now"):
        table.add_column(column)
    for arm in dict.fromkeys(p.arm for p in progress.points):
        mine = [p for p in progress.points if p.arm == arm]
        done = [progress.finished[p.config.key].measures for p in mine if p.config.key in progress.finished]
        running = [p for p in mine if p.config.key in progress.running]
        now = "; ".join(f"{', '.join(map(str, p.varied.values()))} {progress.latest(p.config.key)}" for p in running)
        last = [m.text(done[-1][m.name]) if done and usable(done[-1].get(m.name)) else "" for m in shown]
        failed = sum(p.config.key in progress.failed for p in mine)
        table.add_row(arm, f"{len(done)}/{len(mine)}{f', {failed} failed' * bool(failed)}", *last, now)
    return table
