"""`isotherm grid`. Whatever it does not know itself is a setting of `isotherm train`."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from isotherm.cli import study, terminal

GRID = """usage: isotherm grid --vary NAME=V,… [--vary …] [--seeds N] [--workers N] [settings of train] --out DIR

Train every combination of these values, with several seeds, and show them side by side: a table in the terminal and a
page. It writes a study's file into DIR and runs it, so it goes on after an interruption like any study, and the file
is yours to add claims to.

examples:
  isotherm grid --vary loss.temperature=0.05,0.1,0.2,0.5 --epochs 10 --out studies/tau
  isotherm grid --vary loss=NTXentLoss,DySTreSSLoss,CACRLoss --vary lr=0.03,0.1 --data cifar10 --steps 2000 --out studies/losses
  isotherm grid --vary loss=NTXentLoss,./mine.py:MyLoss --seeds 5 --out studies/mine
"""  # noqa: E501
ARMS = (
    "A grid gives every value to all of them; kinds of runs with settings of their own are arms of a study's file, "
    "as in docs/guides/first-study.md."
)
SHOWN = 6
"""Columns in the terminal: arm, what is varied, seeds and the first measures."""


def run(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="isotherm grid",
        usage=GRID.partition("\n")[0].removeprefix("usage: "),
        description=GRID.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--vary", action="append", default=[], metavar="NAME=V,…", help="a setting and its values")
    parser.add_argument("--seeds", type=terminal.positive, default=3, metavar="N", help="seeds of every run (3)")
    parser.add_argument("--workers", type=terminal.positive, metavar="N", help="local processes (one per core)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the study's folder")
    arguments, settings = parser.parse_known_args(list(argv))
    with terminal.mistakes():
        from isotherm.experiments import grid
        from isotherm.files import write_text

        written = grid.source(arguments.vary, settings, arguments.seeds, ["isotherm", "grid", *argv])
        file = arguments.out / grid.NAME
        if file.exists() and _body(file.read_text()) != _body(written):
            raise ValueError(f"{arguments.out} has another grid ({file.name}); take another --out, or run that file.")
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_text(file, written)
    try:
        code = study.run_file(file, arguments.out, arguments.workers)
        _show(file, arguments.out)
        return code
    except terminal.UsersMistake as mistake:
        if {each.name for each in arguments.out.iterdir()} <= {file.name, "__pycache__"}:  # nothing has begun
            shutil.rmtree(arguments.out)
        if "has no setting" in str(mistake) and _of_each_other([text.partition("=")[0] for text in arguments.vary]):
            raise terminal.UsersMistake(f"{mistake} {ARMS}") from None
        raise


def _of_each_other(names: Sequence[str]) -> bool:
    """Whether a part is varied together with a setting that belongs to it: loss and loss.temperature."""
    return any(name.startswith(f"{part}.") for name in names for part in names)


def _show(file: Path, out: Path) -> None:
    """Every point with its first measures; all of them are on the page."""
    from isotherm.experiments import find, records
    from isotherm.experiments.result_tables import results
    from isotherm.report.markdown import cell_text

    heads, rows = results(find.load(str(file)), records.read(out))
    table = terminal.table(*heads[:SHOWN])
    for row in rows:
        table.add_row(*map(cell_text, row[:SHOWN]))
    terminal.console().print(table)


def _body(source: str) -> str:
    """All but the docstring, which has the line that was typed."""
    return source.partition('"""\n\n')[2]
