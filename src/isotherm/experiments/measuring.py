"""Carries a run of a study out and measures it, once; what is done stays done."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from isotherm import files
from isotherm.data.sentences import is_text
from isotherm.experiments.records import EMBEDDING
from isotherm.experiments.trained.images import TrainedImages
from isotherm.experiments.trained.sentences import TrainedSentences
from isotherm.measures.catalogue import USUAL, in_groups
from isotherm.measures.measure import take
from isotherm.train import runs
from isotherm.train.config import Config, Runtime
from isotherm.train.loop import train

MEASURED = "measured.json"
FAILURE = "failure.txt"
KEPT = 1000
"""Embeddings kept for maps and histograms."""


def done(folder: Path, groups: Sequence[str] = ()) -> dict[str, Any] | None:
    """What a finished run has in its folder, if these groups are among it."""
    try:
        found = json.loads((folder / MEASURED).read_text())
    except (OSError, ValueError):  # not there, or damaged: measured again
        return None
    whole = isinstance(found, dict) and {"measures", "groups", "seconds"} <= found.keys()
    return found if whole and set(groups) <= set(found["groups"]) and (folder / EMBEDDING).exists() else None


def carry_out(
    config: Config, folder: Path, groups: Sequence[str] = USUAL, checkpoint_seconds: float = 20.0
) -> dict[str, Any]:
    """Train a run, from its last checkpoint if it has one, and measure it."""
    found = done(folder, groups)
    if found is not None:
        return found
    discard_damaged(folder)
    result = train(config, Runtime(out=folder, resume=True, quiet=True, checkpoint=checkpoint_seconds))
    found = {
        "measures": measure(folder, groups),
        "groups": list(groups),
        "seconds": result["seconds"],
        "versions": result["versions"],
    }
    files.write_json(folder / MEASURED, found)
    for name in (runs.BEST, FAILURE):
        (folder / name).unlink(missing_ok=True)
    return found


def discard_damaged(folder: Path) -> None:
    """Throw away what cannot be read of a run, so that it is done again."""
    readers: dict[str, Callable[[Path], Any]] = {runs.CHECKPOINT: runs.last_checkpoint, runs.RESULT: runs.read_result}
    for name, read in readers.items():
        try:
            if (folder / name).exists():
                read(folder)
        except (ValueError, RuntimeError, OSError, EOFError, UnpicklingError):
            (folder / name).unlink()


def opened(folder: Path) -> TrainedImages | TrainedSentences:
    return TrainedSentences(folder) if is_text(str(runs.read_config(folder)["data"])) else TrainedImages(folder)


def measure(folder: Path, groups: Sequence[str] = USUAL) -> dict[str, Any]:
    """What these groups say of a run; a part of its embeddings is kept beside."""
    trained = opened(folder)
    for group in groups:
        if not any(set(m.needs) <= trained.could_have for m in in_groups([group])):
            raise ValueError(f"'{group}' is not measured of {trained.noun}.")
    values = take(in_groups(groups), trained)
    rows, labels = trained.kept(KEPT)
    z = rows.numpy().astype(np.float16)
    files.write_whole(folder / EMBEDDING, lambda file: np.savez(file, z=z, labels=labels.numpy()))
    return values
