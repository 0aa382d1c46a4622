"""`isotherm losses`."""

from __future__ import annotations

import argparse
import inspect

from isotherm.checks import did_you_mean
from isotherm.cli import terminal


def run(arguments: argparse.Namespace) -> None:
    from isotherm.losses import catalogue

    console = terminal.console()
    entries = {e.name: e for e in catalogue.losses()}
    if arguments.name:
        entry = entries.get(arguments.name)
        if entry is None:
            raise terminal.UsersMistake(
                f"no loss '{arguments.name}'{did_you_mean(arguments.name, entries, ['isotherm losses'], lead='see')}"
            )
        console.print(f"isotherm.nn.{entry.call}\n", style="bold", highlight=False, markup=False)
        console.print(inspect.getdoc(entry.loss), highlight=False, markup=False, soft_wrap=True)
        return
    table = terminal.table("loss", "what it says", "paper", "where")
    for entry in entries.values():
        table.add_row(entry.name, entry.summary, entry.paper, entry.equation)
        settings = ", ".join(f"{k}={v!r}" for k, v in entry.settings.items() if k != "reduction")
        table.add_row("", f"[dim]{settings or 'no settings'}[/dim]", "", "")
    console.print(table)
    console.print(f"{len(entries)} losses in isotherm.nn; `isotherm losses NAME` shows one with its equation.")
