"""`isotherm robustness`. Whatever it does not know itself is a setting of `isotherm train`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from isotherm.cli import terminal, transfer
from isotherm.files import STDOUT, check_places, put_json

ROBUSTNESS = """usage: isotherm robustness [--loss L,…] [--imbalance I,…] [--seeds N,…] [settings of train] --out DIR

What pretraining on unequal classes costs: each loss learns from the whole set and from a part of it with unequal
classes; both encoders are probed on the whole, balanced set. Drops are paired by seed and test image. The same line
again continues what was interrupted.

examples:
  isotherm robustness --out runs/robust --epochs 5                     NT-Xent on the embedded digits
  isotherm robustness --data cifar10 --loss NTXentLoss,CACRLoss --imbalance linear,exponential --out runs/robust
  isotherm robustness --data cifar10 --imbalance long-tail --ratio 0.01 --equal --out runs/tail --json tail.json
"""


def run(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="isotherm robustness",
        usage=ROBUSTNESS.partition("\n")[0].removeprefix("usage: "),
        description=ROBUSTNESS.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the runs are kept")
    parser.add_argument(
        "--loss", default="NTXentLoss", metavar="L,…", help="losses; the first is the one to compare with"
    )
    parser.add_argument(
        "--imbalance", default="linear,exponential", metavar="I,…", help="as train's (linear,exponential)"
    )
    parser.add_argument("--seeds", default="0,1,2", metavar="N,…", help="seeds of the runs (0,1,2)")
    parser.add_argument("--on", metavar="DATA", help="the balanced set to probe on (that which is learnt from, whole)")
    parser.add_argument("--probe", default="linear", choices=("linear", "knn"), help="linear (exact) or knn (linear)")
    parser.add_argument(
        "--equal", action="store_true", help="regular runs learn from as few images as the unequal ones"
    )
    terminal.add_json(parser)
    parser.add_argument("--html", type=terminal.file, metavar="OUT", help="write a page")
    arguments, settings = parser.parse_known_args(list(argv))
    console = terminal.console(stderr=arguments.json == STDOUT)
    with terminal.mistakes(), terminal.progress(console) as note:
        check_places(arguments.html, arguments.json)
        from isotherm.evaluate.robustness import Plan, run_robustness

        losses, imbalances = (_names(text) for text in (arguments.loss, arguments.imbalance))
        if not all(seed.isdecimal() for seed in _names(arguments.seeds)):
            raise ValueError(f"--seeds must be whole numbers with commas between, got '{arguments.seeds}'.")
        seeds = tuple(int(seed) for seed in _names(arguments.seeds))
        on, probe, equal = arguments.on, arguments.probe, arguments.equal
        plan = Plan(arguments.out, tuple(settings), losses, imbalances, seeds, on, probe, equal)
        result = run_robustness(plan, note)
        if arguments.html is not None:
            transfer.page("Robustness to imbalance", result.tables(), result.lines()).write(arguments.html)
        if arguments.json is not None:
            put_json(arguments.json, result.as_dict())
    transfer.show(console, result.tables(), result.lines())
    terminal.written(console, arguments)
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
