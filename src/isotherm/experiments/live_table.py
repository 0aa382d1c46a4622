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

from isotherm.experiments.progress import Board

EVERY = 10.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def showing(console: Console) -> Iterator[Callable[[Board], None]]:
    """Something to call with the board whenever it may have changed."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2, transient=True) as live:
            yield lambda board: live.update(table_of(board))
        return
    last = [0.0]

    def line(board: Board) -> None:
        if time.monotonic() - last[0] >= EVERY or not board.running:
            last[0] = time.monotonic()
            print(summary(board), file=sys.stderr, flush=True)

    yield line


def summary(board: Board) -> str:
    left = board.left()
    parts = [f"{len(board.finished)} of {len(board.points)} runs done"]
    if board.before and len(board.finished) == board.before:
        parts.append(f"{board.before} from before")
    if board.failed:
        parts.append(f"{len(board.failed)} failed")
    if board.retried:
        parts.append(f"{board.retried} tried again")
    if left and len(board.finished) < len(board.points):
        parts.append(f"about {left / 60:.0f} min left" if left > 90 else f"about {left:.0f} s left")
    return ", ".join(parts)


def table_of(board: Board) -> Table:
    """Where every arm stands, and what runs now."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", title=summary(board), title_justify="left")
    for column in ("arm", "done", "last kNN", "last uniformity", "now"):
        table.add_column(column)
    for arm in dict.fromkeys(p.arm for p in board.points):
        mine = [p for p in board.points if p.arm == arm]
        done = [board.finished[p.config.key]["measures"] for p in mine if p.config.key in board.finished]
        running = [p for p in mine if p.config.key in board.running]
        now = "; ".join(f"{', '.join(map(str, p.varied.values()))} {board.where(p.config.key)}" for p in running)
        knn = f"{100 * done[-1]['knn']:.1f} %" if done and "knn" in done[-1] else ""
        uniform = f"{done[-1]['uniformity']:.2f}" if done and "uniformity" in done[-1] else ""
        table.add_row(arm, f"{len(done)}/{len(mine)}", knn, uniform, now)
    return table
