"""`isotherm evaluate` for encoders of sentences: STS, SentEval's transfer tasks, and how the embedding lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotherm.checks import did_you_mean
from isotherm.data import senteval
from isotherm.data.sentences import is_text
from isotherm.encoders import text
from isotherm.files import write_json
from isotherm.inspect.health import Health, examine
from isotherm.inspect.page import page_of
from isotherm.inspect.reading import Embedding
from isotherm.probes.sts import STS, Geometry, sts, stsb_geometry
from isotherm.probes.transfer import Transfer, transfer
from isotherm.train import runs

PROBES = ("sts", "senteval")
"""What `--probe` takes."""
SHOWN = 5000
"""Sentences whose embedding is examined, at most."""

Note = Callable[[str, str], None]


@dataclass(frozen=True, eq=False)
class TextAssessment:
    """What the probes say of an encoder; None where they were not asked or their data is not there."""

    name: str
    sts: STS | None
    transfer: Transfer | None
    geometry: Geometry | None
    """Of STS-B's test part."""
    health: Health | None
    """Of the embedding of STS-B's sentences, or of others where they are not there."""
    notes: tuple[str, ...] = ()
    """What was asked for and is not there."""

    def as_dict(self) -> dict[str, Any]:
        parts = {"sts": self.sts, "senteval": self.transfer, "stsb_geometry": self.geometry}
        return {
            "encoder": self.name,
            "probes": {name: part.as_dict() for name, part in parts.items() if part is not None},
            "measures": {} if self.health is None else self.health.values,
            "notes": list(self.notes),
        }


def about_sentences(source: str) -> bool:
    """Whether `source` is an encoder of sentences: minilm, hf:NAME, a model's folder, a run that learnt from text."""
    if text.is_text_encoder(source):
        return True
    settings = Path(source) / runs.CONFIG
    if settings.exists():
        return is_text(str(runs.read_config(Path(source)).get("data")))
    return (Path(source) / "config.json").exists()


def encoder_of(source: str) -> text.TextEncoder:
    """The encoder that `source` names."""
    if source == text.SMALL:
        raise ValueError(f"{text.SMALL} has nothing to show before it is trained; name a run.")
    if text.is_text_encoder(source):
        return text.pretrained(source)
    if (Path(source) / runs.CONFIG).exists():
        return runs.open_text_encoder(Path(source))[1]
    if not Path(source).exists():
        raise ValueError(f"no folder {source}; a run's, a model's, {text.INSTALLED}, or {text.HUB}NAME.")
    return text.pretrained(f"{text.HUB}{source}")


def assess(
    source: str,
    probes: Sequence[str] = ("sts",),
    folder: Path | None = None,
    seed: int = 0,
    html: Path | None = None,
    to_json: Path | None = None,
    command: str = "",
    note: Note = lambda stage, detail: None,
) -> TextAssessment:
    """Probe an encoder of sentences on the data in `folder` (by default senteval in the data root)."""
    if not probes:
        raise ValueError(f"no probe is named; there is: {', '.join(PROBES)}.")
    for name in probes:
        if name not in PROBES:
            raise ValueError(f"no probe '{name}' for sentences{did_you_mean(name, PROBES)}")
    place = senteval.folder(folder)
    for path in (html, to_json):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"no folder {path.parent} to write {path.name} into.")
    note("reading the tasks", str(place))
    there = {"sts": _rated(place), "senteval": _classified(place)}
    absent = [name for name in probes if not there[name]]
    if len(absent) == len(probes):
        raise ValueError(f"{place} holds nothing for {', '.join(probes)}; SentEval's own layout is expected.")
    notes = tuple(f"{name}: nothing of it in {place}" for name in absent)
    note("opening the encoder", source)
    encode = text.remembering(
        encoder_of(source), lambda done, total: note("encoding", f"{done:,} of {total:,} sentences")
    )
    asked = [name for name in probes if name not in absent]
    similar = sts(encode, place) if "sts" in asked else None
    learnt = transfer(encode, place, note=lambda task: note(f"transfer, {task}", "")) if "senteval" in asked else None
    note("examining the embedding", "")
    geometry = stsb_geometry(encode, place, "test") if similar is not None and "STS-B" in similar.tasks else None
    shown = there["sts"].get("STS-B") or next(iter({**there["sts"], **there["senteval"]}.values()))
    health = _examined(Path(source).name, encode(shown[:SHOWN]), html, seed, command)
    found = TextAssessment(source, similar, learnt, geometry, health, notes)
    if to_json is not None:
        write_json(to_json, found.as_dict())
    return found


def _rated(place: Path) -> dict[str, list[str]]:
    """The different sentences of every similarity task that is there; a line that cannot be read is told now."""
    found = {task: senteval.rated(place, task)[0] for task in senteval.SIMILARITY}
    return {
        task: list(dict.fromkeys(s for part in parts for column in (part.first, part.second) for s in column))
        for task, parts in found.items()
        if parts
    }


def _classified(place: Path) -> dict[str, list[str]]:
    """The same of the transfer tasks."""
    found = {task: senteval.classified(place, task)[0] for task in senteval.TRANSFER}
    return {
        task: list(dict.fromkeys(s for part in parts.values() for s in (*part.first, *part.second) if s))
        for task, parts in found.items()
        if parts
    }


def _examined(name: str, z: Tensor, html: Path | None, seed: int, command: str) -> Health:
    health = examine(z, name=name, seed=seed)
    if html is not None:
        embedding = Embedding(name, z, None, (), None, torch.arange(len(z)), len(z), ())
        page_of(health, embedding, seed=seed, command=command).write(html)
    return health
