"""`isotherm export`: a run in the layout of another library."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from isotherm.cli import terminal
from isotherm.cli.detect import trust
from isotherm.files import check_places

EXPORT = """
a run in the layout of another library: transformers, torchvision, detectron2, ONNX

A run on image–text pairs becomes a folder: text/ for transformers and sentence-transformers, image/ for
isotherm.load_encoder, projections.safetensors, and a README.md with the code that joins them. A ResNet, of a run
or of a file of weights, is written with --to torchvision or detectron2 under their weight names, without a classifier;
detectron2 matches names by their ends, for C4 and FPN alike. With --to onnx any encoder of images or sentences is a
graph for any batch size (and length), with its preprocessing in a .json beside it, checked with onnxruntime where that
is installed: features differ from torch's by at most 2e-5 of the largest.

isotherm export runs/clip --out clip-model
isotherm export runs/resnet50 --to torchvision --out resnet50.pth
isotherm export runs/resnet50 --to detectron2 --out resnet50-d2.pth
isotherm export runs/first --to onnx --out first.onnx
"""
ONNX = "onnx"
FOLDER, NAMES = "transformers", ("torchvision", "detectron2")


def add(commands: terminal.Commands) -> None:
    export = terminal.described(commands, "export", EXPORT)
    export.add_argument("source", metavar="RUN", help="a folder that `isotherm train` made, or a file of weights")
    export.add_argument("--to", default=FOLDER, choices=(FOLDER, *NAMES, ONNX), help=f"whose layout ({FOLDER}: pairs)")
    export.add_argument("--arch", metavar="N", help="the network of a file of weights: resnet50, …")
    export.add_argument(
        "--out", type=Path, required=True, metavar="PLACE", help="a new folder; of a ResNet a .pth file; an .onnx file"
    )
    export.add_argument("--opset", type=terminal.positive, metavar="N", help="of ONNX (18)")
    export.add_argument("--trust-code", action="store_true", help="run code that a run names")
    export.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    trust(arguments)
    if arguments.opset is not None and arguments.to != ONNX:
        raise terminal.UsersMistake(f"--opset belongs to --to {ONNX}.")
    if arguments.to == ONNX:
        _onnx(arguments)
    elif arguments.to == FOLDER:
        _pairs(arguments)
    else:
        _weights(arguments)


def _pairs(arguments: argparse.Namespace) -> None:
    from isotherm.evaluate.export import export

    with terminal.mistakes():
        export(Path(arguments.source), arguments.out)
    terminal.console().print(f"written to {arguments.out}; its README.md shows how to load it", highlight=False)


def _onnx(arguments: argparse.Namespace) -> None:
    with terminal.mistakes():
        from isotherm.encoders.onnx_graph import OPSET
        from isotherm.evaluate.models import Wanted
        from isotherm.evaluate.onnx_export import export_onnx

        graph, unfinished = export_onnx(
            arguments.source, arguments.out, Wanted(arguments.arch), arguments.opset or OPSET
        )
    print(f"written to {arguments.out} (opset {graph.opset}); {arguments.out.with_suffix('.json')} says how to feed it")
    if graph.difference is None:
        print("isotherm: warning: onnxruntime is not installed, so the graph was not checked.", file=sys.stderr)
    else:
        print(f"onnxruntime {graph.runtime} agrees with torch to {graph.difference:.1e} of the largest feature")
    if unfinished:
        print(f"isotherm: warning: {arguments.source}: {unfinished}", file=sys.stderr)


def _weights(arguments: argparse.Namespace) -> None:
    with terminal.mistakes():
        from isotherm.encoders.export import exported, write_export
        from isotherm.evaluate.models import Wanted, open_model

        model = open_model(arguments.source, Wanted(arguments.arch))
        exported(model.encoder, arguments.to)  # whether it can be comes before what it should be called
        if arguments.out.suffix != ".pth":
            raise ValueError(f"--out must end in .pth, got '{arguments.out}'; by that ending they know what it is.")
        check_places(out=arguments.out, read=[Path(arguments.source)])
        n = write_export(model.encoder, arguments.to, arguments.out)
    print(f"{n} tensors written to {arguments.out}")
    if arguments.to == "detectron2":
        mean, std = model.recipe.mean or (0.0,) * model.channels, model.recipe.std or (1.0,) * model.channels
        scaled = [[round(255 * x, 3) for x in values] for values in (mean, std)]
        print("settings that belong to it: MODEL.RESNETS.STRIDE_IN_1X1 False, INPUT.FORMAT RGB,")
        print(f"  MODEL.PIXEL_MEAN {scaled[0]}, MODEL.PIXEL_STD {scaled[1]}, MODEL.RESNETS.NORM SyncBN")
    if model.unfinished:
        print(f"isotherm: warning: {arguments.source}: {model.unfinished}", file=sys.stderr)
