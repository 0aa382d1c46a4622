"""The `isotherm` command. Thin: it reads arguments, calls the module that does the work, prints.

Exit code 0 on success, 2 with one clear line for a user's mistake, 1 for our failure, 3 where `inspect --fail-on` found
what it was to look for, 128 and the signal's number for what was asked to stop (130, 143).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from isotherm import __version__, extras, screen
from isotherm.checks import did_you_mean
from isotherm.cli import (
    bench,
    check,
    data,
    detect,
    doctor,
    encode,
    evaluate,
    export,
    grid,
    losses,
    presets,
    robustness,
    runs,
    share,
    study,
    terminal,
    train,
)


class _Parser(argparse.ArgumentParser):
    """Refuses in one line what it does not know: an option is written out, and a wrong one is told the nearest."""

    def __init__(self, *words: Any, **settings: Any) -> None:
        super().__init__(*words, **{"allow_abbrev": False, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Here, in the parser of the command itself, which alone knows its options."""
        arguments, rest = super().parse_known_args(args, namespace)
        wrong = next((word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"), None)
        if wrong is not None:
            known = [word for word in self._option_string_actions if word.startswith("--")]
            self.error(f"no option '{wrong}'{did_you_mean(wrong, known)}")
        return arguments, rest

    def error(self, message: str) -> NoReturn:
        wrong = re.match(r"argument .*: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            choices = [c.strip(" '") for c in wrong[2].split(",")]
            message = f"no '{wrong[1]}' here{did_you_mean(wrong[1], choices)}"
        message = message.replace("\n", "\\n")  # as in `_told`: a word with an end of line in it could forge another
        self.exit(2, f"{self.prog}: {message}\n")


PATIENCE = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
"""Threads that wait for each other give their core away soon: on a busy machine one that spins stands in the way of
the very thread that it waits for. Read when torch is imported; docs/decisions/0014 has the measurement."""


def main(argv: Sequence[str] | None = None) -> int:
    program = argv is None
    if argv is None:  # the program, not a call from Python: the library never touches the environment
        argv = sys.argv[1:]
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
    with screen.guarded():
        try:
            return _told(list(argv))
        except Exception:
            if not program:
                raise
            traceback.print_exc()  # here, where it is guarded: the interpreter would print it as it is
            return 1


def _told(argv: list[str]) -> int:
    """Run, and tell what goes wrong in a line."""
    try:
        code = _run(argv)
        sys.stdout.flush()  # here, where somebody catches what comes of it
        return code
    except terminal.UsersMistake as mistake:
        line = str(mistake).replace("\n", "\\n")  # a name with an end of line in it could forge another
        print(f"isotherm: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("isotherm: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read has seen enough; what is left would be written at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ModuleNotFoundError as missing:
        said = extras.advice(missing)
        if said is None:
            raise
        print(f"isotherm: {said}", file=sys.stderr)
        return 2


def _run(argv: list[str]) -> int:
    if argv[:1] == ["train"]:  # its settings depend on what it trains: `isotherm.train.commandline` reads them
        return train.run(argv[1:])
    if argv[:1] == ["robustness"]:  # what it does not know is a setting of train
        return robustness.run(argv[1:])
    if argv[:1] == ["grid"]:
        return grid.run(argv[1:])
    parser = _parser()
    arguments = parser.parse_args(argv)
    arguments.typed = f"isotherm {shlex.join(argv)}"
    if "run" not in arguments:
        parser.print_help()
        return 0
    return int(arguments.run(arguments) or 0)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="isotherm",
        description="The workbench for contrastive representation learning.",
        epilog="examples:\n  isotherm losses CACRLoss\n  isotherm train --out runs/first\n"
        "  isotherm evaluate runs/first\n  isotherm inspect embeddings.npy --labels labels.npy --html health.html\n"
        "  isotherm data get cifar10\n  isotherm bench losses --pairs 1024",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"isotherm {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    losses.add(commands)
    check.add(commands)
    data.add(commands)
    presets.add(commands)
    commands.add_parser("train", help="train an encoder with any method and loss", add_help=False)
    evaluate.add(commands)
    encode.add(commands)
    export.add(commands)
    share.add(commands)
    detect.add(commands)
    commands.add_parser("robustness", help="what pretraining on unequal classes costs a loss", add_help=False)
    commands.add_parser("grid", help="every combination of some settings, side by side", add_help=False)
    study.add(commands)
    bench.add(commands)
    runs.add(commands)
    doctor.add(commands)
    return parser
