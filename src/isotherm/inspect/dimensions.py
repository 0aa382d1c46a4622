"""Which columns of a table are the dimensions of its embedding, where it has a column each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from isotherm.inspect.column import LABEL_KEYS, Array, Column
from isotherm.report import Finding

Kind = Literal["fractions", "whole", "other"]
NAMES = (*LABEL_KEYS, "", "id", "ids", "index", "idx", "row", "key", "name", "unnamed: 0", "__index_level_0__")
"""Columns that nobody takes for a dimension."""


def dimensions(kinds: Mapping[str, Kind], headed: bool = True) -> list[str]:
    """The columns that hold an embedding, of what each holds; nothing where fewer than two do.

    Fractions are dimensions, whole numbers ids or classes; but whatever is of one numbering with dimensions (d0, d1, …)
    or, without a head, stands between them, is one too. What is called a label is none.
    """
    wide = {name for name, kind in kinds.items() if kind == "fractions" and name.lower() not in LABEL_KEYS}
    if headed:
        for numbered in _numberings(kinds):
            if wide.intersection(numbered) or all(kinds[name] == "whole" for name in numbered):
                wide.update(numbered)
    elif wide:
        places = [i for i, name in enumerate(kinds) if name in wide]
        wide.update(list(kinds)[places[0] : places[-1]])
    return [name for name in kinds if name in wide] if len(wide) > 1 else []


def _numberings(names: Mapping[str, Kind]) -> Iterator[list[str]]:
    """Columns whose names differ in the number at their end only."""
    stems: dict[str, list[str]] = {}
    for name in names:
        if found := re.fullmatch(r"(.*?)\d+", name):
            stems.setdefault(found[1], []).append(name)
    return (numbered for numbered in stems.values() if len(numbered) > 1)


def kind_of(texts: Array) -> Kind:
    """What a column of texts holds: numbers, if more than half of its cells are one, or else something other."""
    numbers = [text for text in texts if is_number(text)]
    if 2 * len(numbers) <= len(texts):
        return "other"
    return "whole" if all(text.strip().lstrip("+-").isdecimal() for text in numbers) else "fractions"


def numbers_of(texts: Array) -> Array:
    """Texts as numbers; what is missing, or none, is NaN."""
    try:
        return texts.astype(np.float64)  # at once, as nearly always
    except ValueError:
        return np.array([float(text) if is_number(text) else np.nan for text in texts])


def is_number(text: str) -> bool:
    """As tables have numbers: 0_2 is Python's."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def left_out(columns: Mapping[str, Column], chosen: Column, used: Sequence[str]) -> Iterator[Finding]:
    """What is to be said of the columns of a table that are neither dimensions nor used otherwise."""
    flat = [name for name, column in columns.items() if len(column.shape) == 1]
    rest = [name for name in flat if name not in chosen.dimensions and name not in used]
    if not chosen.dimensions or not rest:
        return
    named = ", ".join(f"'{name}'" for name in rest[:5]) + (" …" if len(rest) > 5 else "")
    are = "column was" if len(rest) == 1 else "columns were"
    usual = all(name.lower() in NAMES for name in rest)
    said = f"{len(rest):,} {are} left out of the embedding: {named}."
    yield Finding("good" if usual else "look", said, f"{len(chosen.dimensions):,} columns are its dimensions")
