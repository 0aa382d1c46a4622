"""Carries a run of a study out and measures it, once; what is done stays done."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from isotherm import files
from isotherm.experiments.records import EMBEDDING, Measured
from isotherm.experiments.trained import trained
from isotherm.measures.catalogue import USUAL, in_groups
from isotherm.measures.measure import take
from isotherm.train import runs
from isotherm.train.config import Config, Runtime
from isotherm.train.loop import run_to_end
from isotherm.train.modality.modality import Opened

MEASURED = "measured.json"
FAILURE = "failure.txt"
KEPT = 1000
"""Embeddings kept for maps and histograms."""


def done(folder: Path, groups: Sequence[str] = ()) -> Measured | None:
    """What a finished run has in its folder, if these groups are among it."""
    try:
        measured = Measured.of(json.loads((folder / MEASURED).read_text()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or damaged: measured again
        return None
    return measured if set(groups) <= set(measured.groups) and (folder / EMBEDDING).exists() else None


def carry_out(
    config: Config, folder: Path, groups: Sequence[str] = USUAL, checkpoint_seconds: float = 20.0
) -> Measured:
    """Train a run, from its last checkpoint if it has one, and measure it."""
    measured = done(folder, groups)
    if measured is not None:
        return measured
    discard_damaged(folder)
    run = run_to_end(config, Runtime(out=folder, resume=True, quiet=True, checkpoint=checkpoint_seconds))
    measured = Measured(measure(run.opened, groups), tuple(groups), run.result.seconds, run.result.versions)
    files.write_json(folder / MEASURED, measured.as_dict())
    for name in (runs.BEST, FAILURE):
        (folder / name).unlink(missing_ok=True)
    return measured


def discard_damaged(folder: Path) -> None:
    """Throw away what cannot be read of a run, so that it is done again."""
    readers: dict[str, Callable[[Path], Any]] = {runs.CHECKPOINT: runs.last_checkpoint, runs.RESULT: runs.read_result}
    for name, read in readers.items():
        try:
            if (folder / name).exists():
                read(folder)
        except (ValueError, RuntimeError, OSError, EOFError, UnpicklingError):
            (folder / name).unlink()


def measure(run: Opened, groups: Sequence[str] = USUAL) -> dict[str, Any]:
    """What these groups say of a run; a part of its embeddings is kept beside."""
    subject = trained(run)
    for group in groups:
        if not any(set(m.needs) <= subject.could_have for m in in_groups([group])):
            raise ValueError(f"'{group}' is not measured of {subject.noun}.")
    values = take(in_groups(groups), subject)
    rows, labels = subject.kept(KEPT)
    z = rows.numpy().astype(np.float16)
    files.write_whole(run.out / EMBEDDING, lambda file: np.savez(file, z=z, labels=labels.numpy()))
    return values
