"""What the commands share: a console, progress, tables, and how a user's mistake is told."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm import screen
from isotherm.files import STDOUT

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from isotherm.bench.measure import Target
    from isotherm.data.fetch import Note

NARROW, NO_TERMINAL = 40, 150
"""Columns of a pipe: at least, and where no terminal is around, as in a log."""
Commands = Any
"""What argparse calls a sub-parsers action, whose type it does not name."""


class UsersMistake(Exception):
    """Something the user can mend; shown as one line."""


@contextmanager
def mistakes() -> Iterator[None]:
    """What a user got wrong, told in the words of the module that noticed."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, OSError) as mistake:
        raise UsersMistake(str(mistake)) from mistake
    except RecursionError as error:
        raise UsersMistake("something is nested too deeply to be read; no file of ours is.") from error
    except (MemoryError, RuntimeError) as error:
        wanted = re.search(r"can't allocate memory: you tried to allocate (\d+) bytes", str(error))
        if wanted is None and not isinstance(error, MemoryError):
            raise
        size = f" of {int(wanted[1]) / 2**30:,.1f} GiB at once" if wanted else ""
        raise UsersMistake(f"not enough memory{size}. Smaller settings (width, queue, batch) need less.") from error


class Listed(argparse.Action):
    """Names with commas between; given several times, those of all."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is None else f"{before},{values}")


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more; got '{text}'")
    return int(text)


def file(text: str) -> Path:
    """Where one file goes."""
    if text.endswith(("/", os.sep)):
        raise argparse.ArgumentTypeError(f"{text} is a folder; name a file, such as {text}page.html")
    return Path(text)


def add_json(parser: argparse.ArgumentParser, what: str = "every number") -> None:
    """`--json FILE`; alone, or with a dash, to standard output."""
    said = f"write {what} (alone, or -: to standard output)"
    parser.add_argument("--json", type=file, nargs="?", const=STDOUT, metavar="OUT", help=said)


def seconds(text: str) -> float:
    """A length of time: 90s, 45m, 2h, 1h30m."""
    found = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", text.strip().lower())
    parts = [float(part or 0) for part in found.groups()] if found else []
    if not sum(parts):
        raise argparse.ArgumentTypeError(f"must be a length of time such as 45m, 2h or 1h30m; got '{text}'")
    hours, minutes, rest = parts
    return 3600 * hours + 60 * minutes + rest


def seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 2^63 − 1; got '{text}'")
    return int(text)


def console(stderr: bool = False) -> Console:
    """Where a command prints; into a pipe as wide as the terminal that is somewhere around, or as COLUMNS says."""
    console = screen.console(stderr)
    return console if console.is_terminal else screen.console(stderr, width=_width_around())


def width() -> float:
    """How wide a table may be; without rich it is printed as wide as it is."""
    try:
        return console().width
    except ModuleNotFoundError:
        return math.inf


def _width_around() -> int:
    if os.environ.get("COLUMNS", "").isdecimal() and int(os.environ["COLUMNS"]) >= NARROW:
        return int(os.environ["COLUMNS"])
    for stream in (sys.__stderr__, sys.__stdin__, sys.__stdout__):
        try:
            return max(NARROW, os.get_terminal_size(stream.fileno()).columns)  # type: ignore[union-attr]
        except (OSError, ValueError, AttributeError):
            continue
    return NO_TERMINAL


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str, str], None]]:
    """Where a long command is: a live line on a terminal, a line per stage elsewhere."""
    if console.is_terminal:
        with console.status("starting") as status:
            yield lambda stage, detail: status.update(styled(f"{stage}: {detail}" if detail else stage))
        return
    said: set[str] = set()

    def note(stage: str, detail: str) -> None:
        if stage not in said:
            said.add(stage)
            print(stage, file=sys.stderr, flush=True)

    yield note


@contextmanager
def bar(console: Console) -> Iterator[Note]:
    """How far a long command is, in bytes: a bar on a terminal, a line per stage elsewhere."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    said: set[str] = set()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("starting", total=None)

        def note(stage: str, done: int = 0, total: int | None = None) -> None:
            progress.update(task, description=stage, completed=done, total=total)
            if stage not in said and not console.is_terminal:
                print(stage, file=sys.stderr, flush=True)
            said.add(stage)

        yield note


def styled(text: str, style: str = "") -> Text:
    """Text in a style; a console of ours takes no markup."""
    from rich.text import Text

    return Text(screen.visible(text), style)


def command(commands: Commands, name: str, about: str, description: str, *examples: str) -> argparse.ArgumentParser:
    """A parser of one command: a line about it in the list, a description, and examples below its own help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=description,
        epilog="\n  ".join(("examples:", *examples)) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter if examples else argparse.HelpFormatter,
    )
    return parser


def described(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """A parser of one command from its text: a line about it, a description, examples; a blank line between them."""
    about, description, *examples = text.strip().split("\n\n")
    return command(commands, name, about, " ".join(description.split()), *"\n".join(examples).splitlines())


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on the screen; a row whose first cell is empty belongs to the one above it.

    Without rich, which the base does not bring, as plain columns.
    """
    try:
        screen, display = console(), table(*columns)
    except ModuleNotFoundError:
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        for row in (columns, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    for row in rows:
        display.add_row(*row, style="" if row[0] else "dim")
    screen.print(display)


def table(*columns: str) -> Table:
    from rich import box
    from rich.table import Column, Table

    folding = [Column(header=name, overflow="fold") for name in columns]  # a long name is broken, never cut
    table: Any = Table(*folding, box=box.SIMPLE_HEAD, header_style="bold")
    return table  # type: ignore[no-any-return]


def targets(judged: Sequence[Target]) -> Table:
    display = table("bar", "wanted", "measured", "")
    for bar in judged:
        display.add_row(bar.what, bar.wanted, bar.measured, "met" if bar.met else styled("missed", "bold red"))
    return display


def written(console: Console, arguments: argparse.Namespace) -> None:
    for path in (arguments.html, arguments.json):
        if path and path != STDOUT:
            console.print(f"written to {path}", highlight=False)
