"""`isotherm evaluate`, `inspect`, `compare`: what an encoder knows, what an embedding is like."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isotherm.cli import terminal, transfer
from isotherm.cli.findings import FAILING, fails, show_health, show_pairs
from isotherm.files import STDOUT

if TYPE_CHECKING:
    from rich.console import Console

EVALUATE = """
what a run's encoder knows: kNN, linear and other probes; its embedding's health

Probe a run's frozen encoder on its test images, and examine its embedding of them. An encoder of sentences (a run's, a
model folder's, minilm, hf:NAME) is judged on STS and SentEval's transfer tasks. With --on or --suite an encoder of
images is judged on other data: a run's, timm:NAME, torchvision:NAME, hf:NAME, a .safetensors or .pt file of weights
with --arch, or random:RUN, the same network before it learnt anything. Two towers (--method clip) are
judged on retrieval and, with --zeroshot, on naming the classes of images.

isotherm evaluate runs/first
isotherm evaluate runs/sentences --probe sts,senteval
isotherm evaluate minilm
isotherm evaluate runs/clip --probe retrieval,zeroshot,linear --zeroshot imagenette
isotherm evaluate runs/first --probe knn,linear,fewshot --html first.html --json first.json
isotherm evaluate runs/first --on cifar100,folder:photos --probe knn,linear,fewshot,finetune --html transfer.html
isotherm evaluate weights.pt --arch resnet50 --on mhist --probe finetune --lr search --out tuning
isotherm evaluate timm:resnet50 --suite elevater --json resnet50.json
"""
INSPECT = """
is an embedding file healthy, and which temperature suits it?

Examine embeddings from a .npy, .npz, .pt, .parquet, .feather, .safetensors, .csv or .jsonl file. In a pipeline
--fail-on bad ends with exit code 3 where a finding is bad; --fail-on warning also where one is worth a look. Advice
about the next training, and that a sample was taken, are no fault and do not count.

isotherm inspect embeddings.npy --labels labels.npy --html health.html
isotherm inspect features.npz --labels y --views z2
isotherm inspect huge.npy --sample 50000
isotherm inspect images.npy --pairs texts.npy
isotherm inspect embeddings.npz --fail-on bad
"""
COMPARE = """
several runs or embedding files side by side

The measures of several embedding files or run folders side by side, the best marked where its lead is beyond chance.
Of runs also the settings that differ, their curves and, where seeds match, paired differences with their intervals.
With --on or --suite encoders (as evaluate takes them, or what evaluate --suite wrote as .json) are held against the
first one: paired differences, wins.

isotherm compare runs/a runs/b
isotherm compare runs/a-0 runs/a-1 runs/a-2 runs/b-0 runs/b-1 runs/b-2 --html seeds.html
isotherm compare runs/mine timm:resnet50 --on folder:photos
isotherm compare --suite elevater mine.json theirs.json
isotherm compare a.npy b.npy --labels y.npy --html ab.html
"""


def add(commands: terminal.Commands) -> None:
    _add_evaluate(commands)
    _add_inspect(commands)
    _add_compare(commands)


def _add_evaluate(commands: terminal.Commands) -> None:
    evaluate = terminal.described(commands, "evaluate", EVALUATE)
    evaluate.add_argument(
        "source",
        metavar="RUN",
        help="a folder that `isotherm train` made; of sentences also a model: minilm, hf:NAME; "
        "with --on or --suite any encoder of images",
    )
    evaluate.add_argument(
        "--probe",
        action=terminal.Listed,
        metavar="P,…",
        help="knn, linear (exact), wang-liu, cacr-small, cacr-large, simclr, lightly (protocols; with "
        "-augmented on fresh views), finetune, fewshot, fewshot-finetune (knn,linear); sentences: sts, senteval (sts)",
    )
    evaluate.add_argument(
        "--senteval", type=Path, metavar="DIR", help="SentEval's data (senteval in the data root, ISOTHERM_DATA)"
    )
    evaluate.add_argument("--seed", type=terminal.seed, default=0, help="seed of the probes (0)")
    evaluate.add_argument(
        "--trust-code", action="store_true", help="run code that a model brings, or of an encoder or data the run names"
    )
    evaluate.add_argument(
        "--html",
        type=terminal.file,
        metavar="OUT",
        help="write a page: what the probes say, what the embedding is like",
    )
    terminal.add_json(evaluate)
    transfer.about_encoders(evaluate)
    transfer.about_tuning(evaluate)
    evaluate.add_argument(
        "--zeroshot",
        action=terminal.Listed,
        metavar="DATA",
        help="of two towers: sets of images whose classes are to be named, with commas",
    )
    evaluate.add_argument(
        "--prompt", action="append", metavar="TEXT", help='a sentence with {} for the class ("a photo of a {}.")'
    )
    evaluate.add_argument("--class-names", type=Path, metavar="FILE", help="the classes in words, one per line")
    evaluate.set_defaults(run=_evaluate)


def _add_inspect(commands: terminal.Commands) -> None:
    inspecting = terminal.described(commands, "inspect", INSPECT)
    inspecting.add_argument("files", type=Path, nargs="+", metavar="EMBEDDINGS", help="rows of numbers, one per item")
    _about_files(inspecting)
    inspecting.add_argument("--views", metavar="V", help="another view of each item: a file, or a key in the same one")
    inspecting.add_argument(
        "--pairs", metavar="T", help="the texts of these images, K in a row for each: a file, or a key in the same one"
    )
    inspecting.add_argument("--key", metavar="K", help="which array of the file holds the embeddings")
    inspecting.add_argument("--map", default="tsne", choices=("tsne", "pca", "none"), help="the page's map (tsne)")
    inspecting.add_argument(
        "--fail-on", choices=tuple(FAILING), help="exit code 3 if a finding is bad, or (warning) bad or worth a look"
    )
    inspecting.set_defaults(run=_inspect)


def _add_compare(commands: terminal.Commands) -> None:
    comparing = terminal.described(commands, "compare", COMPARE)
    comparing.add_argument(
        "files", type=Path, nargs="+", metavar="A", help="files, run folders or encoders, at least two"
    )
    _about_files(comparing)
    transfer.about_encoders(comparing)
    comparing.add_argument(
        "--trust-code", action="store_true", help="run code that a model brings, or of an encoder or data the run names"
    )
    comparing.set_defaults(run=_compare)


def _about_files(parser: argparse.ArgumentParser) -> None:
    """What inspect and compare both take."""
    parser.add_argument("--labels", metavar="L", help="a file of labels, or a key or column in the same file")
    parser.add_argument("--sample", type=terminal.positive, metavar="N", help="examine N rows only, a seeded choice")
    parser.add_argument("--seed", type=terminal.seed, default=0, help="seed of every choice (0)")
    parser.add_argument(
        "--drop", action="store_true", help="leave out rows with NaN, without direction, or without a label"
    )
    parser.add_argument("--html", type=terminal.file, metavar="OUT", help="write a self-contained page")
    terminal.add_json(parser)


def _evaluate(arguments: argparse.Namespace) -> None:
    from isotherm import doors
    from isotherm.evaluate import image_text
    from isotherm.evaluate.assessment import Options
    from isotherm.evaluate.choose import evaluator_of
    from isotherm.inspect import describe

    console = _console(arguments)
    if arguments.trust_code:
        doors.allow(doors.EVERYTHING)
    if arguments.on is not None or arguments.suite is not None:
        transfer.evaluate(arguments, console)
        return
    transfer.refuse_without_data(arguments)
    with terminal.mistakes():
        evaluator = evaluator_of(arguments.source)
    towers = {"zeroshot": arguments.zeroshot, "prompt": arguments.prompt, "class-names": arguments.class_names}
    if (given := [name for name, value in towers.items() if value]) and evaluator is not image_text:
        raise terminal.UsersMistake(f"--{given[0]} is for a run of images and text; {arguments.source} is none.")
    names = evaluator.USUAL
    if arguments.probe is not None:
        names = tuple(name.strip() for name in arguments.probe.split(",") if name.strip())
    with terminal.mistakes(), terminal.progress(console) as note:
        options = Options(
            arguments.seed,
            arguments.senteval,
            arguments.html,
            arguments.json,
            arguments.typed,
            note,
            tuple(name.strip() for name in (arguments.zeroshot or "").split(",") if name.strip()),
            tuple(arguments.prompt or ()),
            arguments.class_names,
        )
        assessment = evaluator.assess(arguments.source, names, options)
    if assessment.unfinished:
        print(f"isotherm: warning: {arguments.source}: {assessment.unfinished}", file=sys.stderr)
    for numbers in assessment.tables():
        table = terminal.table(*numbers.heads)
        for row in numbers.rows:
            table.add_row(*row)
        console.print(table)
    for line in assessment.lines():
        console.print(line, highlight=False, soft_wrap=True)
    if assessment.health is not None:
        show_health(console, assessment.health, describe(assessment.health))
    terminal.written(console, arguments)


def _inspect(arguments: argparse.Namespace) -> int:
    from isotherm import inspect as inspection

    if len(arguments.files) > 1:
        several = " ".join(map(str, arguments.files))
        raise terminal.UsersMistake(f"inspect examines one file; side by side: isotherm compare {several}")
    (file,) = arguments.files
    console = _console(arguments)
    with terminal.mistakes(), terminal.progress(console) as note:
        note("examining", str(file))
        reading = inspection.Reading(
            arguments.labels, arguments.views, arguments.key, arguments.sample, arguments.seed, arguments.drop
        )
        output = inspection.Output(arguments.html, arguments.json, _said(arguments, "inspect", [file]))
        if arguments.pairs is not None:
            if arguments.labels or arguments.views:
                raise ValueError("--pairs looks at two modalities, without --labels and --views; leave those out.")
            paired = inspection.run_pairs(file, arguments.pairs, reading, output)
        else:
            health = inspection.run(file, reading, output, arguments.map, note)
    if arguments.pairs is not None:
        show_pairs(console, paired)
    else:
        show_health(console, health, inspection.describe(health))
    terminal.written(console, arguments)
    return fails(paired.findings if arguments.pairs is not None else health.findings, arguments.fail_on)


def _compare(arguments: argparse.Namespace) -> None:
    from isotherm import doors
    from isotherm import inspect as inspection
    from isotherm.report import number

    console = _console(arguments)
    if arguments.trust_code:
        doors.allow(doors.EVERYTHING)
    if arguments.on is not None or arguments.suite is not None:
        transfer.compare(arguments, console)
        return
    transfer.refuse_without_data(arguments)
    with terminal.mistakes(), terminal.progress(console) as note:
        note("examining", "")
        reading = inspection.Reading(
            arguments.labels, sample=arguments.sample, seed=arguments.seed, drop=arguments.drop
        )
        output = inspection.Output(arguments.html, arguments.json, _said(arguments, "compare", arguments.files))
        comparison = inspection.run_compare(arguments.files, reading, output)
    names = [entry.name for entry in comparison.entries]
    if comparison.settings:
        settings = terminal.table("setting that differs", *names)
        for name, values in comparison.settings:
            settings.add_row(name, *values)
        console.print(settings)
    table = terminal.table("measure", *names)
    for row in comparison.rows:
        cells = ["" if v is None else number(v) for v in row.values]
        table.add_row(
            row.title, *(terminal.styled(f"{v} ★", "bold") if i == row.best else v for i, v in enumerate(cells))
        )
    console.print(table)
    console.print(terminal.styled(comparison.verdict.text), highlight=False, soft_wrap=True)
    console.print(inspection.comparing.LEGEND, highlight=False, soft_wrap=True)
    if comparison.differences:
        table = terminal.table(*inspection.comparing.DIFFERENCE_HEADS)
        for cells in inspection.comparing.difference_cells(comparison.differences):
            table.add_row(*cells)
        console.print(table)
        console.print(inspection.comparing.PAIRED, highlight=False, soft_wrap=True)
    terminal.written(console, arguments)


def _console(arguments: argparse.Namespace) -> Console:
    """Where people read: standard error if the numbers go to standard output."""
    return terminal.console(stderr=arguments.json == STDOUT)


def _said(arguments: argparse.Namespace, command: str, files: Sequence[Path]) -> str:
    """The command again, as the page shows it."""
    options = ("labels", "views", "pairs", "key", "sample", "seed", "html")
    given = {name: getattr(arguments, name, None) for name in options}
    words = [f"--{name} {value}" for name, value in given.items() if value]
    return " ".join(["isotherm", command, *map(str, files), *words, *(["--drop"] if arguments.drop else [])])
