"""`isotherm presets`: the papers' recipes, the numbers to expect, and what they would cost. Without torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from isotherm.checks import did_you_mean
from isotherm.cli import terminal
from isotherm.train.presets import PAPERS, PRESETS, Preset
from isotherm.train.presets.cost import THROUGHPUT, cost_of


def add(commands: terminal.Commands) -> None:
    presets = terminal.command(
        commands,
        "presets",
        "the papers' recipes by paper and table, with the numbers to expect and the cost",
        "The papers' recipes by paper and table: the number that is printed there and the GPU hours of the training.\n"
        "With words: those in whose name, paper or tables all of them occur. With a name: all about it.",
        "isotherm presets",
        "isotherm presets cacr imagenet100",
        "isotherm presets dystress 'table 1'",
        "isotherm presets wang-liu-cifar10",
        "isotherm train --preset wang-liu-cifar10 --out runs/a",
    )
    presets.add_argument("words", nargs="*", metavar="WORD", help="show those it occurs in; or a preset's name")
    presets.add_argument(
        "--throughput",
        type=float,
        default=THROUGHPUT,
        metavar="V",
        help=f"views per second of ResNet-50 at 224 pixels, forward and backward, of the GPU ({THROUGHPUT:.0f})",
    )
    presets.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    words: Sequence[str] = arguments.words
    if not arguments.throughput > 0:
        raise terminal.UsersMistake(f"--throughput must be positive, got {arguments.throughput:g}.")
    if len(words) == 1 and words[0] in PRESETS:
        _show(words[0], PRESETS[words[0]], arguments.throughput)
        return
    chosen = {name: preset for name, preset in PRESETS.items() if all(_occurs(w, name, preset) for w in words)}
    if not chosen:
        hint = did_you_mean(words[0], PRESETS, ["isotherm presets"], lead="see") if len(words) == 1 else "."
        raise terminal.UsersMistake(f"no preset has '{' '.join(words)}' in its name, paper or tables{hint}")
    for paper in dict.fromkeys(preset.paper for preset in chosen.values()):
        print(f"\n{paper} ({PAPERS[paper]})" if paper else "\nours")
        mine = {name: preset for name, preset in chosen.items() if preset.paper == paper}
        rows = [(n, "; ".join(p.tables), printed(p), hours(p, arguments.throughput)) for n, p in mine.items()]
        terminal.show_table(("preset", "where", "published", "GPU hours"), rows)
    print(f"{len(chosen)} presets; `isotherm presets NAME` shows one. {_assumed(arguments.throughput)}")


def printed(preset: Preset) -> str:
    """The published numbers, those that are printed twice once."""
    return ", ".join(dict.fromkeys(f"{p.measure} {p.value:g}" for p in preset.published))


def hours(preset: Preset, throughput: float) -> str:
    """Of one GPU, with as many digits as an estimate deserves."""
    value = cost_of(preset).hours(throughput)
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.05 else "< 0.1"


def _occurs(word: str, name: str, preset: Preset) -> bool:
    """Whole where it is a table: table 1 is not table 15."""
    said = word.casefold()
    return said in name.casefold() or said in preset.paper.casefold() or said in map(str.casefold, preset.tables)


def _show(name: str, preset: Preset, throughput: float) -> None:
    cost = cost_of(preset)
    paper = f"{preset.paper} ({PAPERS[preset.paper]}), {'; '.join(preset.tables)}" if preset.paper else "ours"
    print(f"{name}: {paper}\n{preset.about}\n")
    for number in preset.published:
        print(f"  published  {number.table}: {number.measure} {number.value:g}")
    print(f"  cost       {cost.views:,} views, {hours(preset, throughput)} GPU hours. {_assumed(throughput)}")
    print(f"  train      isotherm train --preset {name} --out runs/{name}")
    print(f"  judge      isotherm evaluate runs/{name} --probe {preset.probe}")
    print(f"  settings   isotherm train --preset {name} --print_config")


def _assumed(throughput: float) -> str:
    return (
        f"Hours are an estimate for one GPU that takes {throughput:,.0f} views per second of ResNet-50 at 224 pixels "
        "(--throughput), other networks in proportion to their arithmetic."
    )
