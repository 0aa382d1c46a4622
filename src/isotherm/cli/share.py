"""`isotherm push` and `isotherm pull`: a run as a model in the hub's layout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from isotherm.cli import terminal
from isotherm.cli.detect import trust

PUSH = """
share a run: a model in the hub's layout, in a folder or on the hub

The run's encoder as model.safetensors, config.json, and README.md, a card with the command, the settings, the measures,
a map of the embedding and, of a run of a study, its seeds, intervals and claims. Sentences load with
sentence-transformers and transformers, ResNets with the usual stem and timm:NAME with timm, all with
isotherm.load_encoder. Absolute paths of this machine are left out. Nothing is sent but to hf:OWNER/NAME.

isotherm push runs/first first-model --license apache-2.0
isotherm push runs/simcse hf:me/simcse-small --private
"""
PULL = """
bring a shared model into a folder

A model that was pushed, from the hub or from a folder, checked before it gets its name. Programs and pickles are not
brought along. Whatever takes an encoder takes the folder.

isotherm pull hf:me/simcse-small
isotherm pull hf:me/first@main --out models/first && isotherm embed models/first digits --out z.npz
"""


def add(commands: terminal.Commands) -> None:
    push = terminal.described(commands, "push", PUSH)
    push.add_argument("source", type=Path, metavar="RUN", help="a folder that `isotherm train` made")
    push.add_argument("target", metavar="TARGET", help="a new folder, or hf:OWNER/NAME")
    push.add_argument("--license", metavar="ID", help="on which terms, as the hub names them: apache-2.0, mit, …")
    push.add_argument("--map", default="tsne", choices=("tsne", "pca", "none"), help="the card's picture (tsne)")
    push.add_argument("--private", action="store_true", help="a new model on the hub is for its owner alone")
    push.add_argument("--replace", action="store_true", help="in place of the model that is there")
    push.add_argument("--trust-code", action="store_true", help="run code that a run names")
    push.set_defaults(run=run_push)
    pull = terminal.described(commands, "pull", PULL)
    pull.add_argument("source", metavar="SOURCE", help="hf:OWNER/NAME, hf:OWNER/NAME@REVISION, or a folder")
    pull.add_argument("--out", type=Path, metavar="DIR", help="a new folder (the model's name, here)")
    pull.add_argument("--trust-code", action="store_true", help="run code that a model names")
    pull.set_defaults(run=run_pull)


def run_push(arguments: argparse.Namespace) -> None:
    trust(arguments)
    with terminal.mistakes():
        from isotherm.share.places import push

        given = (arguments.license, arguments.map, arguments.private, arguments.replace)
        place, notes = push(arguments.source, arguments.target, *given)
    for note in notes:
        print(f"isotherm: warning: {note}", file=sys.stderr)
    print(f"pushed to {place}; its README.md is the card")


def run_pull(arguments: argparse.Namespace) -> None:
    trust(arguments)
    with terminal.mistakes():
        from isotherm.share.places import pull

        folder = pull(arguments.source, arguments.out)
    print(f'pulled into {folder}: isotherm.load_encoder("{folder}")')
