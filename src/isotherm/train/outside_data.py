"""Data from a function of the user's: images, arrays with labels, or sentences; all of it, or a split at a time."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from isotherm import doors
from isotherm.checks import known_settings, parameters
from isotherm.data.images import Images
from isotherm.data.parts import NoSplit
from isotherm.data.sentences import ROLES, Sentences, is_text
from isotherm.data.sentences import read as read_sentences
from isotherm.data.sets import SETS
from isotherm.data.sources.arrays import channels_first, whole_numbers
from isotherm.data.sources.reading import as_many, make_images, one_split
from isotherm.train.layers import Settings
from isotherm.train.lookup import address, called, loaded

WANTED = "isotherm.data.images.Images, (images, labels), a list of sentences, or a dictionary of those by split"


def data_address(name: str) -> str | None:
    """Where the function that gives this data is; None: it is one of our sets, or a file."""
    if not doors.is_outside(name) and (name in SETS or ":" in name or is_text(name)):
        return None
    return address(name, "data")


def gives_sentences(name: str) -> bool:
    """Whether the data of an outside name, which is read for this, are sentences."""
    return data_address(name) is not None and _are_sentences(_value(name, "train", {}))


def images(name: str, split: str, options: Settings) -> Images:
    """The images of a split."""
    known_settings(name, options, function_options(name), "option")
    value = _value(name, split, options)
    if isinstance(value, Images):
        return value
    if _are_sentences(value):
        raise ValueError(f"{name} gives sentences; they need an encoder that reads them, such as text_small.")
    pixels, labels = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    pixels = np.asarray(pixels)
    if pixels.ndim < 3:
        raise ValueError(f"{name} gives {_described(value)}; wanted is {WANTED}.")
    x = np.ascontiguousarray(channels_first(pixels, name, None))
    y = np.full(len(x), -1) if labels is None else as_many(whole_numbers(np.asarray(labels), name), x, name)
    return make_images(name, x, y, 0, [str(c) for c in range(int(y.max(initial=-1)) + 1)])


def sentences(name: str, options: Settings) -> Sentences:
    """The sentences, brought to a file and read from there like any others."""
    own = {k: v for k, v in options.items() if k in function_options(name)}
    value = _value(name, "train", own)
    if not _are_sentences(value):
        raise ValueError(f"{name} gives {_described(value)}; the encoder reads sentences.")
    rows = [(row,) if isinstance(row, str) else tuple(row) for row in value]
    columns = next((role for role in ROLES if len(role) == len(rows[0])), None)
    if columns is None or any(len(row) != len(columns) for row in rows):
        raise ValueError(f"{name} must give rows of one, two or three sentences, all alike.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.jsonl"
        lines = (json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
        path.write_text("".join(lines))
        others = {k: v for k, v in options.items() if k not in own}
        return replace(read_sentences(path, **{"columns": columns, **others}), name=name)


def function_options(name: str) -> list[str]:
    """What a function of data takes besides the split."""
    return parameters(loaded(str(data_address(name))), ("split",))


def _value(name: str, split: str, options: Settings) -> Any:
    """What the function gives for a split."""
    value = _called(name, doors.digest(name), split, json.dumps(options, sort_keys=True))
    if isinstance(value, Mapping):
        one_split(name, split, value)
        return value[split]
    return value


@functools.lru_cache(maxsize=4)
def _called(name: str, digest: str, split: str, options: str) -> Any:
    """The function's value; once per split, since it may take long."""
    function = loaded(str(data_address(name)))
    if not callable(function):
        raise ValueError(f"{name} is a {type(function).__name__}; data come from a function.")
    asked = {"split": split} if "split" in parameters(function) else {}
    value = called(name, function, **asked, **json.loads(options))
    if value is None or (not asked and not isinstance(value, Mapping) and split != "train"):
        raise NoSplit(f"{name} has no split '{split}'.")
    return value


def _are_sentences(value: object) -> bool:
    if not isinstance(value, list | tuple) or not value:
        return False
    first = value[0]
    return isinstance(first, str) or (
        isinstance(first, Sequence) and bool(first) and all(isinstance(s, str) for s in first)
    )


def _described(value: object) -> str:
    return f"a {type(value).__name__}"
