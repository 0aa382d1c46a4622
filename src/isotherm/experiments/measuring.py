"""Carries a run of a study out and measures it, once; what is done stays done."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isotherm import files
from isotherm.data import fingerprints
from isotherm.experiments.data_at_hand import fingerprint
from isotherm.experiments.records import EMBEDDING, Measured, rounded
from isotherm.experiments.trained import trained
from isotherm.measures.catalogue import USUAL, in_groups
from isotherm.measures.measure import take
from isotherm.train import names, runs
from isotherm.train.config import Config, Runtime
from isotherm.train.loop import run_to_end
from isotherm.train.modality import ImageModality, ImageTextModality, modality_of, sentences
from isotherm.train.modality.image_text import pairs_of, view_of
from isotherm.train.modality.modality import Opened

MEASURED = "measured.json"
ASIDE = "aside"
"""Beside the runs: folders of runs that cannot be gone on with, the last one of each run."""
KEPT = 1000
"""Embeddings kept for maps and histograms."""


def done(folder: Path, groups: Sequence[str] = ()) -> Measured | None:
    """What a finished run has in its folder, if these groups are among it."""
    try:
        measured = Measured.of(json.loads(files.text_of(folder / MEASURED)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or damaged: measured again
        return None
    return measured if measured.has(groups) and (folder / EMBEDDING).exists() else None


def carry_out(
    config: Config, folder: Path, groups: Sequence[str] = USUAL, checkpoint_seconds: float = 20.0, data: str = ""
) -> Measured:
    """Train a run, from its last checkpoint if it has one, and measure it.

    `data` is the fingerprint of the data at hand, where somebody has taken it already.
    """
    measured = done(folder, groups)
    if measured is not None:
        return measured
    for name in (names.FAILURE, names.REPLAY):  # of an earlier attempt
        (folder / name).unlink(missing_ok=True)
    if not can_go_on(config, folder):
        put_aside(folder)
    with runs.alone(folder):  # which throws away what one that was killed while it measured has left
        pass
    run = run_to_end(config, Runtime(out=folder, resume=True, quiet=True, checkpoint=checkpoint_seconds))
    values, result = measure(run.opened, groups), run.result
    data = data or fingerprint(config)
    measured = Measured(values, tuple(groups), result.seconds, result.versions, data, result.warnings)
    files.write_json(folder / MEASURED, measured.as_dict())
    (folder / names.BEST).unlink(missing_ok=True)
    return measured


def attempt(config: Config, folder: Path, groups: Sequence[str], data: str) -> Measured | str:
    """`carry_out`, or why the run failed, in a sentence; how is in its folder."""
    try:
        return carry_out(config, folder, groups, data=data)
    except Exception as error:  # whatever goes wrong in a run is told of the run, and the others go on
        with contextlib.suppress(OSError):  # such as a full disk
            folder.mkdir(parents=True, exist_ok=True)
            (folder / names.FAILURE).write_text(traceback.format_exc())
        return reason(error)


def reason(error: Exception) -> str:
    """The first sentence of what an error says."""
    said = re.split(r"(?<=[.!?])\s", " ".join(str(error).split()), maxsplit=1)[0].rstrip(".")
    named = type(error).__name__
    return said if said and isinstance(error, ValueError) else f"{named}: {said}" if said else named


def can_go_on(config: Config, folder: Path) -> bool:
    """Whether what a run has left can be read, and belongs to the data at hand; else it starts over."""
    if not any((folder / name).exists() for name in (names.CHECKPOINT, names.RESULT)):
        return True
    today = _learnt_from(config)
    try:
        runs.read_config(folder)
        if (folder / names.RESULT).exists():
            runs.read_result(folder)
        saved: Any = runs.last_checkpoint(folder)
        written = (folder / names.METRICS).stat().st_size
        return bool(fingerprints.same(saved["fingerprint"], today) and saved["metrics"] <= written)
    except Exception:  # whatever a damaged or missing file makes of its reader
        return False


def _learnt_from(config: Config) -> str:
    """The fingerprint that a checkpoint of this run would have today."""
    modality = modality_of(config)
    if modality is ImageModality:
        return ImageModality.of(config).fingerprint()
    if modality is ImageTextModality:
        return pairs_of(config, config.split, view_of(config).views[0].size).fingerprint()
    return sentences.read(config).fingerprint()


def put_aside(folder: Path) -> None:
    """Move a run's folder out of the way, in the place of one that was there before; nobody may be at work in it."""
    place = folder.parent / ASIDE / folder.name
    with runs.alone(folder):
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(place)


def measure(run: Opened, groups: Sequence[str] = USUAL) -> dict[str, Any]:
    """What these groups say of a run; a part of its embeddings is kept beside."""
    subject = trained(run)
    for group in groups:
        if not any(set(m.needs) <= subject.could_have for m in in_groups([group])):
            raise ValueError(f"'{group}' is not measured of {subject.noun}.")
    taken = in_groups(groups)
    values = take(taken, subject)
    values |= {m.name: rounded(values[m.name]) for m in taken if m.curve and m.name in values}
    rows, labels = subject.kept(KEPT)
    z = rows.numpy().astype(np.float16)
    files.write_whole(run.out / EMBEDDING, lambda file: np.savez(file, z=z, labels=labels.numpy()))
    return values
