"""`isotherm runs`: which runs there are, how far they came, what they know."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from isotherm.checks import did_you_mean
from isotherm.cli import terminal
from isotherm.files import check_places, put_json

COLUMNS = ("run", "data", "method", "loss", "seed", "step", "knn", "state", "age")
LEAVE_OUT = ("age", "method", "data", "seed")
"""Columns that a narrow terminal does without, the first first."""
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def add(commands: terminal.Commands) -> None:
    runs = terminal.command(
        commands,
        "runs",
        "the runs in a folder: data, method, loss, kNN, state, age",
        "The runs in a folder and below it: what each was, how far it came, its kNN accuracy, whether it is finished, "
        "running, failed (it ended in an error) or killed (then --resume goes on), and when something of it was last "
        "written.",
        "isotherm runs",
        "isotherm runs studies/temperature --sort knn",
        "isotherm runs --json | jq '.[] | select(.state == \"killed\").run'",
    )
    runs.add_argument("folder", type=Path, nargs="?", default=Path("runs"), metavar="DIR", help="where to look (runs)")
    runs.add_argument("--sort", default="run", metavar="COLUMN", help=f"one of {', '.join(COLUMNS)} (run)")
    terminal.add_json(runs, "the list")
    runs.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from isotherm.train.listing import runs_below

    column: str = arguments.sort
    if column not in COLUMNS:
        raise terminal.UsersMistake(f"no column '{column}'{did_you_mean(column, COLUMNS)}")
    with terminal.mistakes():
        check_places(json=arguments.json, listing=True)
        entries = [dataclasses.asdict(each) for each in runs_below(arguments.folder)]
    entries.sort(key=lambda each: (each[column] is None, each[column]), reverse=column == "knn")
    if column == "knn":  # the best first, those without one last
        entries.sort(key=lambda each: each["knn"] is None)
    if arguments.json:
        with terminal.mistakes():
            put_json(arguments.json, entries)
        return
    if not entries:
        raise terminal.UsersMistake(
            f"no run in {arguments.folder}; `isotherm train --out {arguments.folder}/first` makes one"
        )
    rows = [{name: _cell(name, each[name]) for name in COLUMNS} for each in entries]
    columns = _that_fit(rows, column)
    folders = _shortened(rows, columns)
    terminal.show_table(columns, [tuple(row[name] for name in columns) for row in rows])
    if len(columns) < len(COLUMNS):
        left = ", ".join(name for name in COLUMNS if name not in columns)
        print(f"not shown at this width: {left}; --json has all.")
    if folders:
        more = " or another" if len(folders) > 3 else ""
        print(f"… is {' or '.join(folders[:3])}{more} in {arguments.folder}; --json has whole paths.")


def _that_fit(rows: Sequence[Mapping[str, str]], sorted_by: str) -> list[str]:
    """The columns that fit side by side: a name that is broken in two is harder to miss than an age."""
    columns = list(COLUMNS)
    width = terminal.width()
    for name in (each for each in LEAVE_OUT if each != sorted_by):
        if _needed(rows, columns) <= width:
            break
        columns.remove(name)
    return columns


def _needed(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> int:
    """How wide a table of these columns is: three signs between two, and two at its edges."""
    return sum(max(len(column), *(len(row[column]) for row in rows)) + 3 for column in columns) + 1


def _shortened(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> list[str]:
    """Where names would still be broken in two: those of the folders are left out, and given once."""
    ends = [row["run"].rpartition("/")[2] for row in rows]
    if _needed(rows, columns) <= terminal.width() or len(set(ends)) < len(ends):
        return []
    folders = {row["run"].rpartition("/")[0]: None for row in rows if "/" in row["run"]}
    for row, end in zip(rows, ends, strict=True):
        row["run"] = f"…/{end}" if "/" in row["run"] else end
    return list(folders)


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if name == "loss":
        return str(value).rpartition("/")[2]  # of one's own: the file and the class
    if name == "knn":
        return f"{100 * float(str(value)):.1f}"
    if name == "age":
        seconds = float(str(value))
        size, unit = next(((s, u) for s, u in UNITS if seconds >= s), UNITS[-1])
        return f"{seconds / size:.0f} {unit}"
    return f"{value:,}" if name == "step" else str(value)
