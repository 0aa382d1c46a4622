"""`isotherm study` and `report`."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm import doors
from isotherm.cli import terminal
from isotherm.files import check_places, put_json

if TYPE_CHECKING:
    from rich.console import Console

    from isotherm.experiments.execute import About
    from isotherm.experiments.judging import Judged
    from isotherm.experiments.records import Records
    from isotherm.experiments.study import Point, Study


STUDY = """
reproduce a paper's experiment: a grid of runs, claims, a report

Run a study's grid, judge the paper's claims on it, write a report. Interrupted, the same line goes on; what is done is
not done again. A study of your own is a file that ends in STUDY = Study(…) (examples/my_study.py); naming it runs its
code.

isotherm study --list
isotherm study temperature
isotherm study temperature --data cifar10 --seeds 3 --out studies/cifar
isotherm study temperature --scale smoke --workers 2
isotherm study temperature --until-decided --budget 2h
isotherm study temperature --ray auto
isotherm study ./mine_study.py --scale smoke
"""
REPORT = """
write a study's report again from its records

Judge the claims and write the page and figures again, from a study's records. With --publish a page for a repository:
README.md, its figures, the tables as CSV and the records, in a folder of its own; DIR is only read.

isotherm report studies/cifar
isotherm report studies/cifar --publish docs/results/cifar
"""
LARGE = 1_000_000
"""Bytes of records that a repository should not be given without a word."""


def add(commands: terminal.Commands) -> None:
    _add_study(commands)
    report = terminal.described(commands, "report", REPORT)
    report.add_argument("folder", type=Path, metavar="DIR", help="a folder that `isotherm study` made")
    report.add_argument("--publish", type=Path, metavar="FOLDER", help="write a page for a repository instead")
    report.add_argument(
        "--trust-code", action="store_true", help="run the file that the study came from, if it is not one of ours"
    )
    report.set_defaults(run=_report)


def _add_study(commands: terminal.Commands) -> None:
    study = terminal.described(commands, "study", STUDY)
    study.add_argument(
        "name", nargs="?", metavar="NAME", help="a study from --list, or a file of your own, ./mine_study.py"
    )
    study.add_argument("--list", action="store_true", help="every study and its question, and NAME's")
    terminal.add_json(study, "what --list shows")
    study.add_argument("--scale", help="smoke (seconds), cpu (minutes), paper (for GPUs) (cpu, or the study's first)")
    study.add_argument("--data", metavar="D", help="another set of images: cifar10, cifar100, folder:PATH, …")
    study.add_argument("--seeds", type=terminal.positive, metavar="N", help="seeds of every run (the scale's)")
    study.add_argument("--out", type=Path, metavar="DIR", help="the study's folder (studies/NAME-SCALE-DATA)")
    study.add_argument("--workers", type=terminal.positive, metavar="N", help="local processes (one per core)")
    study.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster: auto, an address, or local")
    study.add_argument(
        "--until-decided", action="store_true", help="after the grid add seeds where they decide most claims"
    )
    study.add_argument(
        "--budget", type=terminal.seconds, metavar="TIME", help="with --until-decided: stop after 90m, 2h, 1h30m, …"
    )
    study.add_argument("--plan", action="store_true", help="say what it would cost, from a few steps of each kind")
    study.add_argument("--gpus", type=terminal.positive, metavar="N", help="with --plan: so many GPUs (1)")
    study.add_argument(
        "--throughput", type=terminal.positive, metavar="V", help="with --plan: views per second that a GPU trains on"
    )
    study.set_defaults(run=_study)


def _study(arguments: argparse.Namespace) -> int:
    if arguments.list or not arguments.name:
        return _list(arguments.name, arguments.json)
    if arguments.json:
        raise terminal.UsersMistake("--json is for --list; a study's numbers are in its records.jsonl and claims.json")
    from isotherm.experiments import execute, find, plan  # all of it now: the files may change while a study runs
    from isotherm.experiments.live_table import live_table
    from isotherm.experiments.progress import Progress
    from isotherm.experiments.until_decided import Asked, run_until_decided

    console = terminal.console()
    failed = ""
    with terminal.mistakes():
        if arguments.ray and arguments.workers:
            raise ValueError("--workers counts local processes; with --ray the cluster decides. Give one of them.")
        if arguments.budget and not arguments.until_decided:
            raise ValueError("--budget is for --until-decided; without it a study runs its grid to the end.")
        if not arguments.plan and (arguments.gpus or arguments.throughput):
            raise ValueError("--gpus and --throughput are for what --plan reckons; a study runs where it is started.")
        if arguments.gpus and not arguments.throughput:
            raise ValueError("--gpus needs --throughput: how many views a second one of them trains on.")
        arguments.gpus = arguments.gpus or 1
        study = find.load(arguments.name)
        points, out = _points(study, arguments)
        workers = arguments.workers or os.cpu_count() or 1
        with terminal.progress(console) as note:
            note("looking at the data", points[0].config.data)
            plan.check_data(points if arguments.plan else Progress.of(points, out).todo)
        if arguments.plan:
            return _planned(console, arguments, study.name, points, workers, out)
        about = _about(study, points[0].config.data, out, arguments)
        with execute.begin(out, about):
            try:
                with live_table(console) as show:
                    if arguments.until_decided:
                        asked = Asked(
                            study, arguments.scale, arguments.data, arguments.seeds, out, workers, arguments.ray
                        )
                        budget = arguments.budget or math.inf
                        run_until_decided(asked, budget, show, lambda said: print(said, file=sys.stderr, flush=True))
                    else:
                        execute.run_points(points, out, workers, arguments.ray, show)
            except execute.RunFailed as error:
                failed = str(error)
                print(f"isotherm: {failed}", file=sys.stderr)
            _write_report(console, out, study, about)
    return 1 if failed else 0


def run_file(file: Path, out: Path, workers: int | None) -> int:
    """Run a study of one's own file as it stands."""
    words = [str(file), "--out", str(out), *(["--workers", str(workers)] if workers else [])]
    parser = argparse.ArgumentParser()
    _add_study(parser.add_subparsers())
    return _study(parser.parse_args(["study", *words]))


def _list(name: str | None, json: Path | None) -> int:
    """Every study and its question; light, so that it answers at once."""
    from isotherm.experiments import find
    from isotherm.experiments.study import Study

    with terminal.mistakes():
        check_places(json=json, listing=True)
        more = [name] if name and doors.is_outside(name) else []
        entries: list[dict[str, Any]] = [
            {"name": label, "question": study.question, "scales": list(study.scales)}
            if isinstance(study, Study)
            else {"name": label, "question": f"does not load: {study}", "scales": []}
            for label, study in find.listed(*more)
        ]
    if json:
        with terminal.mistakes():
            put_json(json, entries)
        return 0
    table = terminal.table("study", "question", "scales")
    for entry in entries:
        table.add_row(entry["name"], entry["question"], ", ".join(entry["scales"]))
    terminal.console().print(table)
    return 0


def _points(study: Study, arguments: argparse.Namespace) -> tuple[Sequence[Point], Path]:
    """The runs that are asked for, with as many seeds as before if the folder has begun; and the folder."""
    from isotherm.experiments import execute
    from isotherm.experiments.looks import Looks
    from isotherm.experiments.points import expand

    arguments.scale = arguments.scale or _usual_scale(study)
    points = expand(study, arguments.scale, arguments.data, arguments.seeds)
    data = re.sub(r"[^A-Za-z0-9]+", "-", points[0].config.data)
    out = arguments.out or Path("studies") / f"{study.name}-{arguments.scale}-{data}"
    if (out / execute.ABOUT).exists():
        arguments.seeds = arguments.seeds or execute.about(out).seeds
        points = expand(study, arguments.scale, arguments.data, arguments.seeds, Looks.of(out).seeds)
    return points, out


def _usual_scale(study: Study) -> str:
    """cpu; the first of a study that has none, which is said."""
    if "cpu" in study.scales or not study.scales:
        return "cpu"
    first = next(iter(study.scales))
    print(f"study {study.name} has no scale 'cpu'; this is its scale '{first}'.", file=sys.stderr)
    return first


def _about(study: Study, data: str, out: Path, arguments: argparse.Namespace) -> About:
    """What the folder says of itself: above all the command that continues it."""
    from isotherm.experiments.design import commit_now
    from isotherm.experiments.execute import About
    from isotherm.experiments.find import file_of

    options = {"scale": arguments.scale, "data": arguments.data, "seeds": arguments.seeds, "out": out}
    words = ["isotherm", "study", arguments.name, *(w for k, v in options.items() if v for w in (f"--{k}", str(v)))]
    words += ["--until-decided"] * arguments.until_decided
    begun = commit_now(file_of(study))
    return About(study.name, arguments.scale, data, shlex.join(words), arguments.seeds, study.source, design=begun)


def _planned(
    console: Console, arguments: argparse.Namespace, name: str, points: Sequence[Point], workers: int, out: Path
) -> int:
    """Say what a study would cost."""
    from isotherm.experiments import plan
    from isotherm.experiments.wording import duration

    starting = 2 * time.process_time()  # what this process took to be here, and a worker will take
    with terminal.progress(console) as note:
        kinds = plan.kinds(points, lambda kind: note("a few steps of", kind))
    table = terminal.table("kind of run", "runs", "steps", "seconds per step", "minutes")
    for kind in kinds:
        table.add_row(kind.name, f"{kind.runs}", f"{kind.steps:,}", f"{kind.step:.3f}", f"{kind.seconds / 60:.1f}")
    console.print(table)
    total = sum(k.seconds for k in kinds)
    runs, measuring = sum(k.runs for k in kinds), sum(k.runs * k.measuring for k in kinds)
    console.print(
        f"{name} at scale {arguments.scale} on {points[0].config.data}: {runs} runs, about "
        f"{duration(total + starting)} on one core, {duration(total / workers + starting)} on {workers}; "
        f"{measuring / total:.0%} of it is measuring. "
        f"Into {out}",
        highlight=False,
        soft_wrap=True,
    )
    if arguments.throughput:
        views = sum(k.views for k in kinds)
        each = duration(views / arguments.throughput / arguments.gpus)
        console.print(
            f"{views:,} views of images: {each} on {arguments.gpus} GPU{'s' if arguments.gpus > 1 else ''} at "
            f"{arguments.throughput:,.0f} views per second each",
            highlight=False,
        )
    return 0


def _report(arguments: argparse.Namespace) -> int:
    """Write a report again; a study from somebody's file is run only if the person says so."""
    from isotherm.experiments import execute, find, points
    from isotherm.train import runs

    if arguments.trust_code:
        doors.allow(doors.EVERYTHING)
    with terminal.mistakes():
        about = execute.about(arguments.folder)
        name = about.study if about.study in find.names() else about.source or about.study
        doors.refuse_strangers(name, arguments.folder / execute.ABOUT)
        study = find.load(name)
        points.check_measures(study)
        if arguments.publish is not None:
            _publish(terminal.console(), study, arguments.folder, arguments.publish)
        else:
            with runs.alone(arguments.folder):
                _write_report(terminal.console(), arguments.folder, study, about)
    return 0


def _publish(console: Console, study: Study, source: Path, folder: Path) -> None:
    """The page for a repository; the verdicts on the terminal."""
    from isotherm.experiments import publish, records

    with terminal.progress(console) as note:
        note("writing the page", "")
        judged, all_records = publish.publish(study, source, folder)
    _show_verdicts(console, judged, all_records, folder / publish.PAGE)
    size = (folder / records.RECORDS).stat().st_size
    if size > LARGE:
        print(f"{folder / records.RECORDS} is large for a repository: {size / 1e6:.1f} MB.", file=sys.stderr)


def _write_report(console: Console, out: Path, study: Study, about: About) -> None:
    """The page, the figures and claims.json; the verdicts on the terminal."""
    from isotherm.experiments import records, report

    with terminal.progress(console) as note:
        all_records = records.read(out)
        note("writing the report", "")
        judged = report.tell(study, all_records, out, about)
    _show_verdicts(console, judged, all_records, out / "report.html")


def _show_verdicts(console: Console, judged: Sequence[Judged], all_records: Records, page: Path) -> None:
    """Every claim, what is to be said of the runs, and where the page is."""
    from isotherm.experiments import judging, report, wording

    table = terminal.table("claim", "paper", "", "found")
    colours = {"held": "green", "contradicted": "red", "undecided": "yellow"}
    for each in judged:
        outcome = each.verdict.outcome
        found = terminal.styled(wording.sentence(each.verdict), "dim")
        table.add_row(each.claim.claim, each.claim.paper, terminal.styled(outcome, colours[outcome]), found)
    if judged:
        console.print(table)
        counted = f"{report.verdicts_counted(judged)} {judging.by_chance(judged)}"
        console.print(counted, highlight=False, soft_wrap=True)
    told = [f"{name} {why}" for name, why in report.missing(all_records)] + report.notes(all_records)
    for line in (*told, f"{report.standing(all_records)}; report: {page}"):
        console.print(line, highlight=False, soft_wrap=True)
