"""`isotherm train`. Its settings depend on what it trains: `isotherm.train.commandline` reads them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from isotherm.cli import terminal

TRAIN = """usage: isotherm train [--preset NAME] [--config FILE] [settings] --out DIR [--resume]

Train an encoder with any method and any loss. Settings come from a preset, then a YAML file, then this line.
Killed at any moment, the same line with --resume continues and ends with the same weights.

examples:
  isotherm train --out runs/first                                    SimCLR on the embedded digits, seconds
  isotherm train --loss DySTreSSLoss --loss.tau_max 0.3 --out runs/dystress
  isotherm train --preset cifar10-cpu --loss.temperature 0.1 --out runs/a
  isotherm train --preset wang-liu-cifar10 --print_config > mine.yaml
  isotherm train --config mine.yaml --epochs 20 --out runs/mine --resume
  isotherm train --data text:sentences.txt --out runs/sentences      SimCSE, a small encoder from scratch
  isotherm train --data text:sentences.txt --encoder minilm --loss MACLLoss --out runs/minilm
  isotherm train --loss ./mine.py:MyLoss --loss.margin 0.2 --out runs/mine   a loss of your own; so --encoder, --data
  torchrun --nproc-per-node=2 -m -- isotherm.cli train --out runs/two   two processes, one batch
                                                                     (several machines: docs/guides/many-machines.md)

  --preset NAME               a paper's recipe: isotherm presets lists them
  --config FILE               settings from a YAML file
  --print_config              print all settings as YAML and stop
  --trust-code                run code that a YAML file names (what is typed here is run anyway), or a model brings
"""


HELP = Path(__file__).with_name("train-help.txt")
"""`isotherm train --help` as `help_page` says it: the settings are the constructors' arguments, which only torch could
tell. docs/make_pages.py writes it, a test sees that it is current."""


def help_page(argv: Sequence[str] = ()) -> str:
    """Every setting there is for the method, loss, encoder … that these words name."""
    from isotherm.train import commandline

    return f"{TRAIN}{commandline.help_text(argv)}\n\n{commandline.listing()}\n"


def run(argv: Sequence[str]) -> int:
    if len(argv) == 1 and argv[0] in ("--help", "-h"):
        print(HELP.read_text(encoding="utf-8"), end="")
        return 0
    from isotherm.train import commandline

    with terminal.mistakes():
        if "--help" in argv or "-h" in argv:
            print(help_page(argv), end="")
            return 0
        config, place, only_print = commandline.parse(argv)
        if only_print:
            from isotherm.train.runs import as_yaml

            print(as_yaml(config), end="")
            return 0
        from isotherm import world
        from isotherm.measures.catalogue import measure
        from isotherm.train.loop import Stopped, train

        try:
            result = train(config, place)
            leader = world.rank() == 0
        except Stopped as stopped:
            print(f"isotherm: {stopped}", file=sys.stderr)
            return stopped.exit_code
        except world.Lost as lost:
            print(f"isotherm: {lost}", file=sys.stderr)
            return 1
        finally:
            world.leave()
    if leader:
        facts = {measure(name): value for name, value in result.measures.items()}
        measures = ", ".join(f"{fact.heading} {fact.text(value)}" for fact, value in facts.items())
        print(f"{place.out}: {measures}; {result.seconds:.1f} s", flush=True)
        for warning in result.warnings:
            print(f"isotherm: {warning}", file=sys.stderr)
    return 0
