"""`isotherm embed` (also called encode) and `isotherm search`: what people do with a trained model."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from isotherm.cli import terminal
from isotherm.files import STDOUT, check_places, put_json

NAMES = ("embed", "encode")
"""Two names of one command."""
FEATURES = (
    "These are the encoder's features, without the head whose output the run's loss sees: a temperature for that loss "
    "is what `isotherm evaluate` recommends."
)
ENCODE = """
embeddings of a set, of image files or of texts by a run

Embeddings of a set by its name (digits, cifar10, folder:PATH, parquet:PATH, text:PATH, …): embeddings, labels and ids,
as `isotherm inspect` reads them. Or of images (files, and folders of them) and of texts (.txt files, a text per line):
images and image_files, texts and text_lines. A run on image–text pairs gives both in one space; a run on images, or
timm:NAME, torchvision:NAME, hf:NAME or a file of weights, the encoder's features; a run on sentences embeds texts; so
does what was pulled. The data it learnt from need not be there. An image that cannot be decoded is left out and named.

isotherm {command} runs/first digits --split test --out z.npz && isotherm inspect z.npz
isotherm {command} runs/clip photos captions.txt --out embeddings.npz
isotherm {command} runs/first a.png b.png --out two.npz
isotherm {command} runs/simcse sentences.txt --out sentences.npz
"""


def add(commands: terminal.Commands) -> None:
    for name in NAMES:
        encode = terminal.described(commands, name, ENCODE.format(command=name))
        encode.add_argument("source", metavar="RUN", help="a run's folder, or an encoder as evaluate --on takes it")
        encode.add_argument(
            "files", nargs="+", metavar="DATA", help="a set; or images, folders of images, .txt files (what is there)"
        )
        encode.add_argument("--split", metavar="S", help="the part of a set: train, test, … (train)")
        encode.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="where the embeddings go")
        encode.set_defaults(run=run_encode)
    search = terminal.described(
        commands,
        "search",
        """
the images nearest to a sentence or to an image

The images of a folder that are nearest to a sentence, by a run on image–text pairs, or to another image, by any
encoder of images: a table, and with --html a page that shows them and needs nothing else.

isotherm search runs/clip "a dog on the beach" --images photos --html page.html
isotherm search runs/clip "a red bus" "two children" --images embeddings.npz
isotherm search runs/first query.png --images photos
""",
    )
    search.add_argument("source", metavar="RUN", help="a run's folder, or an encoder as evaluate --on takes it")
    search.add_argument("queries", nargs="+", metavar="QUERY", help="a sentence, or the path of an image")
    search.add_argument(
        "--images", type=Path, required=True, metavar="P", help="a folder of images, or what `isotherm encode` wrote"
    )
    search.add_argument("--top", type=terminal.positive, default=12, metavar="N", help="how many to show (12)")
    search.add_argument("--html", type=terminal.file, metavar="FILE", help="a page with the images")
    terminal.add_json(search)
    search.set_defaults(run=run_search)


def run_encode(arguments: argparse.Namespace) -> None:
    from isotherm.evaluate.embed import embed_set, is_data
    from isotherm.evaluate.encode import encode, is_embeddings, modality_at, open_embedder, write
    from isotherm.train.modality import ImageTextModality

    console = terminal.console()
    with terminal.mistakes(), terminal.progress(console) as note:
        if arguments.out.suffix != ".npz":
            raise terminal.UsersMistake(f"--out must end in .npz, got {arguments.out}")
        if is_data(arguments.source) and modality_at(Path(arguments.files[0])) is not None:
            raise ValueError(
                f"RUN comes first, and {arguments.source} is a set; did you swap RUN and DATA? "
                f"isotherm embed {arguments.files[0]} {arguments.source}"
            )
        sets = [name for name in arguments.files if is_data(name)]
        if sets and len(arguments.files) > 1:
            raise ValueError(f"{sets[0]} is a set, which is embedded alone: one set, or any number of files.")
        if arguments.split and not sets:
            raise ValueError("--split is a part of a set; of files all are taken.")
        paths = [] if sets else [Path(name) for name in arguments.files]
        check_places(out=arguments.out, read=paths)
        if not is_embeddings(arguments.out):
            raise ValueError(f"{arguments.out} is there and holds no embeddings; write into another file.")
        encoded = (
            embed_set(open_embedder(arguments.source), sets[0], arguments.split or "train", note)
            if sets
            else encode(arguments.source, paths, note)
        )
        write(arguments.out, encoded)
    for each in encoded.notes:
        console.print(each, highlight=False)
    shapes = [f"{name} {z.shape[0]:,} × {z.shape[1]}" for name, z in encoded.arrays().items() if z.ndim == 2]
    console.print(f"{', '.join(shapes)}: written to {arguments.out}", highlight=False)
    if modality_at(Path(arguments.source)) not in (None, ImageTextModality):
        console.print(FEATURES, highlight=False, soft_wrap=True)


def run_search(arguments: argparse.Namespace) -> None:
    from isotherm.evaluate.search import search, search_page

    console = terminal.console(stderr=arguments.json == STDOUT)
    with terminal.mistakes(), terminal.progress(console) as note:
        check_places(arguments.html, arguments.json, [Path(arguments.images)])
        result = search(arguments.source, arguments.queries, arguments.images, arguments.top, note)
        if arguments.html:
            command = shlex.join(["isotherm", "search", arguments.source, *arguments.queries])
            search_page(result, f"{command} --images {shlex.quote(str(arguments.images))} --top {arguments.top}").write(
                arguments.html
            )
        if arguments.json:
            answers = [
                {
                    "query": answer.query,
                    "images": [
                        {"image": str(path), "similarity": value}
                        for path, value in zip(answer.images, answer.similarities, strict=True)
                    ],
                }
                for answer in result.answers
            ]
            put_json(arguments.json, {"run": arguments.source, "among": result.among, "answers": answers})
    for each in result.notes:
        console.print(each, highlight=False)
    if arguments.json != STDOUT:
        for answer in result.answers:
            display = terminal.table(answer.query, "similarity")
            for path, value in zip(answer.images, answer.similarities, strict=True):
                display.add_row(terminal.styled(str(path)), f"{value:.3f}".replace("-", "−"))
            console.print(display)
    terminal.written(console, arguments)
