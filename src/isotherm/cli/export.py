"""`isotherm export`: a run in the layout of another library."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from isotherm.cli import terminal
from isotherm.cli.detect import trust

EXPORT = """
a run in the layout of another library: transformers, torchvision, detectron2

A run on image–text pairs becomes a folder: text/ for transformers and sentence-transformers, image/ for
isotherm.load_encoder, projections.safetensors, and a README.md with the code that joins them. A ResNet, of a run
or of a file of weights, is written with --to torchvision or detectron2 under their weight names, without a classifier;
detectron2 matches names by their ends, for C4 and FPN alike.

isotherm export runs/clip --out clip-model
isotherm export runs/resnet50 --to torchvision --out resnet50.pth
isotherm export runs/resnet50 --to detectron2 --out resnet50-d2.pth
"""
FOLDER, NAMES = "transformers", ("torchvision", "detectron2")


def add(commands: terminal.Commands) -> None:
    export = terminal.described(commands, "export", EXPORT)
    export.add_argument("source", metavar="RUN", help="a folder that `isotherm train` made, or a file of weights")
    export.add_argument("--to", default=FOLDER, choices=(FOLDER, *NAMES), help=f"whose layout ({FOLDER}: pairs)")
    export.add_argument("--arch", metavar="N", help="the network of a file of weights: resnet50, …")
    export.add_argument(
        "--out", type=Path, required=True, metavar="PLACE", help="a new folder; of a ResNet a .pth file"
    )
    export.add_argument("--trust-code", action="store_true", help="run code that a run names")
    export.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    trust(arguments)
    if arguments.to == FOLDER:
        _pairs(arguments)
    else:
        _weights(arguments)


def _pairs(arguments: argparse.Namespace) -> None:
    from isotherm.evaluate.export import export

    with terminal.mistakes():
        export(Path(arguments.source), arguments.out)
    terminal.console().print(f"written to {arguments.out}; its README.md shows how to load it", highlight=False)


def _weights(arguments: argparse.Namespace) -> None:
    with terminal.mistakes():
        from isotherm.encoders.export import write_export
        from isotherm.evaluate.models import Wanted, open_model

        if arguments.out.suffix != ".pth":
            raise ValueError(f"--out must end in .pth, got '{arguments.out}'; by that ending they know what it is.")
        model = open_model(arguments.source, Wanted(arguments.arch))
        n = write_export(model.encoder, arguments.to, arguments.out)
    print(f"{n} tensors written to {arguments.out}")
    if arguments.to == "detectron2":
        mean, std = model.recipe.mean or (0.0,) * model.channels, model.recipe.std or (1.0,) * model.channels
        scaled = [[round(255 * x, 3) for x in values] for values in (mean, std)]
        print("settings that belong to it: MODEL.RESNETS.STRIDE_IN_1X1 False, INPUT.FORMAT RGB,")
        print(f"  MODEL.PIXEL_MEAN {scaled[0]}, MODEL.PIXEL_STD {scaled[1]}, MODEL.RESNETS.NORM SyncBN")
    if model.unfinished:
        print(f"isotherm: warning: {arguments.source}: {model.unfinished}", file=sys.stderr)
