"""`isotherm evaluate --on` and `--suite`, `compare --on` and `--suite`: encoders, anybody's, on other data."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from isotherm.cli import terminal
from isotherm.files import check_places, put_json

if TYPE_CHECKING:
    from rich.console import Console

    from isotherm.evaluate.assessment import Note, Table
    from isotherm.evaluate.measured import Suited
    from isotherm.evaluate.models import Wanted
    from isotherm.evaluate.suite import Suite
    from isotherm.report import Page


def about_encoders(parser: argparse.ArgumentParser) -> None:
    """What evaluate and compare take for encoders that are not ours, and for other data."""
    parser.add_argument(
        "--on",
        action=terminal.Listed,
        metavar="D,…",
        help="other data: named sets, folder:PATH, parquet:PATH, arrays:PATH",
    )
    parser.add_argument(
        "--suite", metavar="S", nargs="?", const="elevater", help="a suite of sets: elevater, or FILE.yaml (elevater)"
    )
    parser.add_argument("--arch", metavar="N", help="the network of a file of weights: resnet50, convnet, timm:NAME, …")
    parser.add_argument(
        "--size", type=terminal.positive, metavar="N", help="edge of the images (what the encoder wants)"
    )
    parser.add_argument("--normalize", metavar="N", help="cifar10, cifar100, stl10, imagenet (what the encoder says)")
    parser.add_argument(
        "--shots", type=terminal.positive, metavar="N", help="labels per class of few-shot probes (5, or the suite's)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep what is finished here, and go on from it")


def about_tuning(parser: argparse.ArgumentParser) -> None:
    """What fine-tuning on other data takes."""
    parser.add_argument("--epochs", type=terminal.positive, metavar="N", help="of fine-tuning (50, or the suite's)")
    parser.add_argument(
        "--lr",
        type=_rate,
        metavar="R",
        help="rate of fine-tuning, or search, on held-out training data (0.1; 1.0 binary)",
    )
    parser.add_argument(
        "--recipe", default="none", metavar="N", help="views that fine-tuning shows (none: plain images)"
    )
    parser.add_argument("--images", type=terminal.positive, metavar="N", help="training images of --on, at most")


ON_OTHER_DATA = ("arch", "size", "normalize", "shots", "out", "epochs", "lr", "images")


def refuse_without_data(arguments: argparse.Namespace) -> None:
    """Refuse what says something of other data where none is named: it would do nothing."""
    given = [name for name in ON_OTHER_DATA if getattr(arguments, name, None) is not None]
    given += ["recipe"] * (getattr(arguments, "recipe", "none") != "none")
    if given:
        raise terminal.UsersMistake(f"--{given[0]} belongs to --on and --suite; without one of them it does nothing.")


def _rate(text: str) -> float | Literal["search"]:
    if text == "search":
        return "search"
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number or 'search' is wanted, got '{text}'") from None


def _wanted(arguments: argparse.Namespace) -> Wanted:
    from isotherm.evaluate.models import Wanted

    return Wanted(arguments.arch, arguments.size, arguments.normalize, arguments.seed)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def evaluate(arguments: argparse.Namespace, console: Console) -> None:
    """An encoder on other sets, or on a suite of them."""
    if arguments.on is not None and arguments.suite is not None:
        raise terminal.UsersMistake("--on names sets and --suite a list of them; say one of the two.")
    if arguments.suite is not None:
        _on_suite(arguments, console)
        return
    from isotherm.evaluate.assessment import Options
    from isotherm.evaluate.images import SHOTS
    from isotherm.evaluate.transfer import Tuning, assess_on
    from isotherm.probes.finetune import EPOCHS

    probes = tuple(_names(arguments.probe)) if arguments.probe is not None else ("knn", "linear")
    with terminal.mistakes(), terminal.progress(console) as note:
        options = Options(arguments.seed, None, arguments.html, arguments.json, arguments.typed, note)
        tuning = Tuning(
            arguments.epochs or EPOCHS,
            arguments.lr,
            arguments.recipe,
            arguments.out,
            arguments.images,
            arguments.shots or SHOTS,
        )
        result = assess_on(arguments.source, _names(arguments.on), probes, options, _wanted(arguments), tuning)
    _warn(result.unfinished, arguments.source)
    show(console, result.tables(), result.lines())
    terminal.written(console, arguments)


def _on_suite(arguments: argparse.Namespace, console: Console) -> None:
    from isotherm.evaluate.suite import suite_of

    with terminal.mistakes(), terminal.progress(console) as note:
        check_places(arguments.html, arguments.json)
        if arguments.lr is not None or arguments.images is not None or arguments.recipe != "none":
            raise ValueError(
                "--lr, --images and --recipe belong to --on: a suite chooses rates by itself, for all alike."
            )
        suite = _changed(suite_of(arguments.suite), arguments)
        result = _run(arguments.source, suite, arguments, note)
        if arguments.html is not None:
            page(f"{result.model} on {suite.name}", result.tables(), result.lines()).write(arguments.html)
        if arguments.json is not None:
            put_json(arguments.json, result.as_dict())
    _warn(result.unfinished, arguments.source)
    show(console, result.tables(), result.lines())
    terminal.written(console, arguments)


def _changed(suite: Suite, arguments: argparse.Namespace) -> Suite:
    """The suite with the shots, epochs and probes that were typed."""
    changes: dict[str, Any] = {}
    if arguments.shots is not None:
        changes["entries"] = tuple(replace(entry, shots=arguments.shots) for entry in suite.entries)
    if getattr(arguments, "epochs", None) is not None:
        changes["epochs"] = arguments.epochs
    if getattr(arguments, "probe", None) is not None:
        changes["probes"] = tuple(_names(arguments.probe))
    return replace(suite, **changes)


def _run(source: str, suite: Suite, arguments: argparse.Namespace, note: Note) -> Suited:
    from isotherm.evaluate.models import open_model
    from isotherm.evaluate.suite_run import run_suite

    note("opening the encoder", source)
    return run_suite(suite, open_model(source, _wanted(arguments)), arguments.out, note)


def compare(arguments: argparse.Namespace, console: Console) -> None:
    """Encoders, or results of `evaluate --suite --json`, against the first of them."""
    from isotherm.evaluate.measured import read_suited
    from isotherm.evaluate.suite import Entry, Suite, suite_of
    from isotherm.evaluate.suite_compare import compare_suites
    from isotherm.inspect.comparing import told_apart

    sources = [str(file) for file in arguments.files]
    with terminal.mistakes(), terminal.progress(console) as note:
        check_places(arguments.html, arguments.json, [Path(s) for s in sources])
        if arguments.on is not None:
            entries = tuple(Entry(name, name, shots=arguments.shots) for name in dict.fromkeys(_names(arguments.on)))
            if gone := next((entry for entry in entries if entry.missing), None):
                raise ValueError(f"--on {gone.data}: {gone.missing}")
            suite = Suite("other data", entries, ("knn", "linear"))
        else:
            name = arguments.suite
            if not (name in SUITES or name.endswith((".yaml", ".yml"))):  # --suite A B: the first of the models
                sources, name = [name, *sources], "elevater"
            suite = _changed(suite_of(name), arguments)
        suited = [read_suited(Path(s)) if s.endswith(".json") else _run(s, suite, arguments, note) for s in sources]
        if len({s.model for s in suited}) < len(suited):  # runs in other folders may be called alike
            suited = [replace(s, model=n) for s, n in zip(suited, told_apart([Path(s) for s in sources]), strict=True)]
        result = compare_suites(suited)
        if arguments.html is not None:
            page("Encoders side by side", result.tables(), result.lines()).write(arguments.html)
        if arguments.json is not None:
            put_json(arguments.json, result.as_dict())
    for each in suited:
        _warn(each.unfinished, each.model)
    show(console, result.tables(), result.lines())
    terminal.written(console, arguments)


SUITES = ("elevater",)


def _warn(unfinished: str, source: str) -> None:
    if unfinished:
        print(f"isotherm: warning: {source}: {unfinished}", file=sys.stderr)


def show(console: Console, tables: list[Table], lines: list[str]) -> None:
    """Tables, then what is said after them."""
    for numbers in tables:
        table = terminal.table(*numbers.heads)
        for row in numbers.rows:
            table.add_row(*row)
        console.print(table)
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def page(title: str, tables: list[Table], lines: list[str]) -> Page:
    """The same as a page."""
    from isotherm import __version__
    from isotherm.report import Page

    paper = Page(
        title,
        "Scores in percent, the mean over the seeds; ± is their standard deviation.",
        footer=f"isotherm {__version__}",
    )
    paper.section("Sets")
    for table in tables:
        paper.table(table.heads, table.rows)
    paper.text("\n\n".join(lines))
    return paper
