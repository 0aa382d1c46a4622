"""`isotherm losses`. What comes with Isotherm is listed without importing it, so at once and without torch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from isotherm.checks import did_you_mean
from isotherm.cli import terminal
from isotherm.files import check_places, put_json

if TYPE_CHECKING:
    from isotherm.losses.catalogue import Description


def add(commands: terminal.Commands) -> None:
    losses = terminal.command(
        commands,
        "losses",
        "every loss: what it says, its paper, its settings",
        "Every loss: what it says, its paper and equation, its settings. With a NAME: its whole docstring.\n"
        "Naming a file or a module of yours runs its code.",
        "isotherm losses",
        "isotherm losses CACRLoss",
        "isotherm losses ./mine.py",
        "isotherm losses ./mine.py:MyLoss",
        "isotherm losses --json losses.json",
    )
    losses.add_argument(
        "name", nargs="?", metavar="NAME", help="show this loss in full; or FILE.py, FILE.py:CLASS, MODULE:CLASS"
    )
    terminal.add_json(losses, "what is shown")
    losses.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from isotherm import doors
    from isotherm.losses import catalogue

    ours = {each.name: each for each in catalogue.descriptions()}
    installed = doors.entry_points("losses")
    name = arguments.name
    with terminal.mistakes():
        check_places(json=arguments.json, listing=True)
    if name is None:
        if arguments.json:
            with terminal.mistakes():
                put_json(
                    arguments.json,
                    [*map(_as_dict, ours.values()), *({"name": n, "place": p} for n, p in installed.items())],
                )
            return
        _list(list(ours.values()), installed)
        print(f"{len(ours)} losses in isotherm.nn; `isotherm losses NAME` shows one with its equation.")
        return
    if name in ours:
        entries = [ours[name]]
    elif name in installed or doors.is_outside(name):
        with terminal.mistakes():
            entries = list(catalogue.outside(installed.get(name, name)))
    else:
        known = [*ours, *installed]
        raise terminal.UsersMistake(f"no loss '{name}'{did_you_mean(name, known, ['isotherm losses'], lead='see')}")
    if arguments.json:
        with terminal.mistakes():
            put_json(arguments.json, [_as_dict(each) for each in entries])
    elif name.endswith(".py"):
        _list(entries)
    else:
        print(f"{'isotherm.nn.' if name in ours else f'{name}: '}{entries[0].call}\n\n{entries[0].doc}")


def _as_dict(loss: Description) -> dict[str, Any]:
    facts = ("name", "summary", "paper", "equation", "doc")
    return {**{fact: getattr(loss, fact) for fact in facts}, "settings": dict(loss.settings)}


def _list(losses: Sequence[Description], installed: Mapping[str, str] | None = None) -> None:
    rows = []
    for loss in losses:
        rows.append((loss.name, loss.summary, loss.paper, loss.equation))
        rows.append(("", loss.arguments or "no settings", "", ""))
    rows += [(name, f"installed: {place}", "", "") for name, place in (installed or {}).items()]
    terminal.show_table(("loss", "what it says", "paper", "where"), rows)
