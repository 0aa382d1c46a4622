"""`isotherm check`: the laws on one loss, ours or the user's own."""

from __future__ import annotations

import argparse

from isotherm.cli import terminal

CHECK = """
the laws on a loss: the proof that a new one needs

Run every law on a loss: gradient against finite differences, order, views, two processes, extremes, memory; and, where
a function `oracle` stands beside it, its equation written as loops. Naming a file runs its code. Exit code 1 if a law
is broken.

isotherm check ./mine.py:MyLoss
isotherm check mypackage.losses:MyLoss
isotherm check NTXentLoss --law gradient --law memory
"""
COLOURS = {"holds": "green", "broken": "bold red", "exempt": "yellow", "not applicable": "dim"}


def add(commands: terminal.Commands) -> None:
    check = terminal.described(commands, "check", CHECK)
    check.add_argument("loss", metavar="LOSS", help="./FILE.py:CLASS, package.module:CLASS, or a name of ours")
    check.add_argument("--law", action="append", metavar="LAW", help="only this law; may be said several times")
    check.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from isotherm.checks import one_of
    from isotherm.losses import laws

    console = terminal.console()
    with terminal.mistakes():
        wanted = [one_of("law", law, list(laws.LAWS)) for law in arguments.law or laws.LAWS]
        make = laws.Maker.of(arguments.loss)
        make()  # settings without a default are told in one line
    table = terminal.table("law", "", "what it says")
    broken, told = 0, {""}
    with terminal.progress(console) as note:
        for law in wanted:
            note("checking", law)
            outcome = laws.judge(law, make)
            broken += outcome.verdict == "broken"
            detail = "as above" if outcome.detail in told - {""} else outcome.detail
            told.add(detail)
            says = terminal.styled(outcome.says).append(f"\n{detail}" if detail else "", "dim")
            table.add_row(law, terminal.styled(outcome.verdict, COLOURS[outcome.verdict]), says)
    console.print(table)
    console.print(f"{arguments.loss}: {broken or 'no'} law{'s' * (broken > 1)} broken", highlight=False)
    return 1 if broken else 0
