"""What every evaluator gives, whatever it probes: tables, lines, the health of an embedding; and what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from isotherm.checks import did_you_mean
from isotherm.files import Json, write_json
from isotherm.inspect.health import Health, examine_embedding
from isotherm.inspect.page import page_of
from isotherm.inspect.reading import Embedding
from isotherm.report import Finding

Note = Callable[[str, str], None]


@dataclass(frozen=True)
class Options:
    """How to probe, and where to write what comes out."""

    seed: int = 0
    senteval: Path | None = None
    """SentEval's data; None: senteval in the data root."""
    html: Path | None = None
    json: Path | None = None
    command: str = ""
    """What was typed, for the page."""
    note: Note = lambda stage, detail: None

    def check(self) -> None:
        """Refuse a place that cannot be written to, before anything is computed."""
        for path in (self.html, self.json):
            if path is not None and not path.parent.is_dir():
                raise ValueError(f"no folder {path.parent} to write {path.name} into.")


@dataclass(frozen=True)
class Table:
    """Numbers as people read them."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Assessment(Protocol):
    """What the probes say."""

    @property
    def health(self) -> Health | None: ...
    @property
    def unfinished(self) -> str:
        """How far the run is, if it has not ended."""
        ...

    def tables(self) -> list[Table]: ...
    def lines(self) -> list[str]:
        """What is said after the tables."""
        ...

    def as_dict(self) -> Json:
        """Every number, for JSON."""
        ...


class Evaluator(Protocol):
    """The probes of one modality; its file is the evaluator."""

    USUAL: tuple[str, ...]
    """The probes that are taken unless others are named."""

    def assess(self, source: str, probes: Sequence[str] = ..., options: Options = ..., /) -> Assessment: ...


def check_probes(probes: Sequence[str], known: Sequence[str], noun: str) -> None:
    """Refuse probes that are not there."""
    if not probes:
        raise ValueError(f"no probe is named; there is: {', '.join(known)}.")
    for name in probes:
        if name not in known:
            raise ValueError(f"no probe '{name}' for {noun}{did_you_mean(name, known)}")


def examined(embedding: Embedding, options: Options, unfinished: str = "") -> Health:
    """The health of an embedding, and its page if one is wanted."""
    health = warned(examine_embedding(embedding, options.seed), unfinished)
    if options.html is not None:
        page_of(health, embedding, seed=options.seed, command=options.command).write(options.html)
    return health


def warned(health: Health, unfinished: str) -> Health:
    """That a run has not ended is found before all else."""
    if not unfinished:
        return health
    return replace(health, findings=(Finding("bad", f"The run is at {unfinished}"), *health.findings))


def embedding_of(
    name: str, z: Tensor, labels: Tensor | None = None, classes: tuple[str, ...] = (), second: Tensor | None = None
) -> Embedding:
    """All rows of an embedding that is at hand."""
    return Embedding(name, z, labels, classes, second, torch.arange(len(z)), len(z), ())


def written(assessment: Assessment, options: Options) -> None:
    if options.json is not None:
        write_json(options.json, assessment.as_dict())
