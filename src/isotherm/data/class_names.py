"""What classes are called in words, for those that read them: zero-shot prompts. Folders of ImageNet have numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from isotherm import files

IMAGENETTE = {
    "n01440764": "tench",
    "n02102040": "English springer",
    "n02979186": "cassette player",
    "n03000684": "chain saw",
    "n03028079": "church",
    "n03394916": "French horn",
    "n03417042": "garbage truck",
    "n03425413": "gas pump",
    "n03445777": "golf ball",
    "n03888257": "parachute",
}
"""Imagenette's ten, by their WordNet numbers."""


def in_words(classes: Sequence[str], data: str) -> list[str]:
    """The classes' names as a sentence has them."""
    names = [IMAGENETTE.get(name, name).replace("_", " ") for name in classes]
    unknown = [name for name in names if re.fullmatch(r"n\d{8}|\d+", name)]
    if unknown:
        raise ValueError(
            f"{data}: {len(unknown)} of {len(names)} classes have no name in words, such as '{unknown[0]}'. Write one "
            "per line, in the classes' order, and say --class-names FILE."
        )
    return names


def read_names(path: Path, classes: int) -> list[str]:
    """Names from a file, one per line."""
    try:
        names = files.lines(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from error
    while names and not names[-1].strip():
        names.pop()
    if len(names) != classes:
        raise ValueError(f"{path} names {len(names)} classes; there are {classes}, one per line is wanted.")
    return names
