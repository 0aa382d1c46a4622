"""`isotherm study` and `report`."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm.cli import terminal

if TYPE_CHECKING:
    from rich.console import Console


def add(commands: terminal.Commands) -> None:
    study = commands.add_parser(
        "study",
        help="reproduce a paper's experiment: a grid of runs, claims, a report",
        description="Run a study's grid, judge the paper's claims on it, write a report. Interrupted, the same line "
        "goes on; what is done is not done again.",
        epilog="examples:\n  isotherm study --list\n  isotherm study temperature\n"
        "  isotherm study temperature --data cifar10 --seeds 3 --out studies/cifar\n"
        "  isotherm study temperature --scale smoke --workers 2\n  isotherm study temperature --ray auto",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    study.add_argument("name", nargs="?", metavar="NAME", help="a study from --list")
    study.add_argument("--list", action="store_true", help="every study and its question")
    study.add_argument("--scale", default="cpu", help="smoke (seconds), cpu (minutes), paper (for GPUs) (cpu)")
    study.add_argument("--data", metavar="D", help="another set of images: cifar10, cifar100, folder:PATH, …")
    study.add_argument("--seeds", type=terminal.positive, metavar="N", help="seeds of every run (the scale's)")
    study.add_argument("--out", type=Path, metavar="DIR", help="the study's folder (studies/NAME-SCALE-DATA)")
    study.add_argument("--workers", type=terminal.positive, metavar="N", help="local processes (one per core)")
    study.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster: auto, an address, or local")
    study.add_argument("--plan", action="store_true", help="say what it would cost, from a few steps of each kind")
    study.add_argument("--gpus", type=terminal.positive, default=1, metavar="N", help="with --plan: so many GPUs (1)")
    study.add_argument(
        "--throughput", type=terminal.positive, metavar="V", help="with --plan: views per second that a GPU trains on"
    )
    study.set_defaults(run=_study)

    report = commands.add_parser(
        "report",
        help="write a study's report again from its records",
        description="Judge the claims and write the page and figures again, from a study's records.",
    )
    report.add_argument("folder", type=Path, metavar="DIR", help="a folder that `isotherm study` made")
    report.set_defaults(run=_report)


def _study(arguments: argparse.Namespace) -> int:
    from isotherm.experiments import study as studies

    console = terminal.console()
    if arguments.list or not arguments.name:
        table = terminal.table("study", "question", "scales")
        for name in studies.names():
            found = studies.load(name)
            table.add_row(name, found.question, ", ".join(found.scales))
        console.print(table)
        return 0
    from isotherm.experiments import execute, plan  # all of it now: the files may change while a study runs
    from isotherm.experiments.live_table import showing

    with terminal.mistakes():
        if arguments.ray and arguments.workers:
            raise ValueError("--workers counts local processes; with --ray the cluster decides. Give one of them.")
        study = studies.load(arguments.name)
        points = study.points(arguments.scale, arguments.data, arguments.seeds)
        data = points[0].config.data
        out = arguments.out or Path("studies") / f"{study.name}-{arguments.scale}-{re.sub(r'[^A-Za-z0-9]+', '-', data)}"
        if arguments.seeds is None and (out / execute.ABOUT).exists():
            arguments.seeds = execute.about(out).get("seeds")  # as before
            points = study.points(arguments.scale, arguments.data, arguments.seeds)
        workers = arguments.workers or os.cpu_count() or 1
        with terminal.progress(console) as note:
            note("looking at the data", data)
            plan.check_data(points)
        if arguments.plan:
            return _planned(console, arguments, study.name, points, workers, out)
        options = {"scale": arguments.scale, "data": arguments.data, "seeds": arguments.seeds, "out": out}
        words = ["isotherm", "study", study.name, *(w for k, v in options.items() if v for w in (f"--{k}", str(v)))]
        about = {"study": study.name, "scale": arguments.scale, "data": data, "seeds": arguments.seeds}
        about["command"] = shlex.join(words)
        execute.begin(out, about)
        failed = ""
        try:
            with showing(console) as show:
                execute.run_points(points, out, workers, arguments.ray, show)
        except execute.RunFailed as error:
            failed = str(error)
    if failed:
        print(f"isotherm: {failed}", file=sys.stderr)
        if (out / "records.jsonl").stat().st_size:
            _told(console, out)
        return 1
    return _told(console, out)


def _planned(
    console: Console, arguments: argparse.Namespace, name: str, points: Sequence[Any], workers: int, out: Path
) -> int:
    """Say what a study would cost."""
    from isotherm.experiments import plan

    with terminal.progress(console) as note:
        kinds = plan.kinds(points, lambda kind: note("a few steps of", kind))
    table = terminal.table("kind of run", "runs", "steps", "seconds per step", "minutes")
    for kind in kinds:
        table.add_row(kind.name, f"{kind.runs}", f"{kind.steps:,}", f"{kind.step:.3f}", f"{kind.seconds / 60:.1f}")
    console.print(table)
    total = sum(k.seconds for k in kinds)
    runs = sum(k.runs for k in kinds)
    console.print(
        f"{name} at scale {arguments.scale} on {points[0].config.data}: {runs} runs, about {plan.duration(total)} of "
        f"training on one core, {plan.duration(total / workers)} on {workers}; measuring comes on top. Into {out}",
        highlight=False,
        soft_wrap=True,
    )
    if arguments.throughput:
        views = sum(k.views for k in kinds)
        each = plan.duration(views / arguments.throughput / arguments.gpus)
        console.print(
            f"{views:,} views of images: {each} on {arguments.gpus} GPU{'s' if arguments.gpus > 1 else ''} at "
            f"{arguments.throughput:,.0f} views per second each",
            highlight=False,
        )
    return 0


def _report(arguments: argparse.Namespace) -> int:
    return _told(terminal.console(), arguments.folder)


def _told(console: Console, out: Path) -> int:
    from isotherm.experiments import execute, records
    from isotherm.experiments import report as telling
    from isotherm.experiments import study as studies

    with terminal.mistakes(), terminal.progress(console) as note:
        about = execute.about(out)
        found = records.read(out)
        note("writing the report", "")
        judged = telling.tell(studies.load(about["study"]), found, out, about)
    table = terminal.table("claim", "paper", "", "evidence")
    for claim in judged:
        short = telling.evidence({k: v for k, v in claim["evidence"].items() if k != "values"})
        held = "[green]held[/]" if claim["held"] else "[yellow]not held[/]"
        table.add_row(claim["claim"], claim["paper"], held, f"[dim]{short}[/dim]")
    console.print(table)
    console.print(f"{len(found)} runs; report: {out / 'report.html'}", highlight=False, soft_wrap=True)
    return 0
