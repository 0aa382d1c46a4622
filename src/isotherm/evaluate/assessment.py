"""What every evaluator gives, whatever it probes: tables, lines, the health of an embedding; and what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from isotherm.checks import did_you_mean
from isotherm.files import Json, check_places, put_json
from isotherm.inspect.findings import verdict_of
from isotherm.inspect.health import Health
from isotherm.inspect.page import add_health, footer
from isotherm.inspect.reading import Embedding
from isotherm.report import Finding, Page

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
    zeroshot: tuple[str, ...] = ()
    """Of two towers: sets of images whose classes are to be named."""
    prompts: tuple[str, ...] = ()
    """Sentences with {} for the class's name; none: "a photo of a {}."."""
    class_names: Path | None = None
    """A file with the classes' names in words, one per line."""

    def check(self) -> None:
        """Refuse a place that cannot be written to, before anything is computed."""
        check_places(self.html, self.json)


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


def page_of(name: str, assessment: Assessment, embedding: Embedding, options: Options) -> Page:
    """What the probes say first, then the health of the embedding."""
    items = f"its embedding of {len(embedding.z):,} test items"
    lead = f"What the encoder knows, by the probes; and what {items} is like."
    if assessment.unfinished:
        lead = f"The run is at {assessment.unfinished} {lead}"
    rows = [(table.heads, row) for table in assessment.tables()[:1] for row in table.rows[:1]]
    first = "".join(f"{row[0]}: {heads[1]} {row[1]}. " for heads, row in rows)
    page = Page(
        f"Evaluation of {name}",
        first + lead,
        kicker="Isotherm evaluate",
        footer=footer(options.seed),
        verdict=_verdict(assessment),
    )
    page.section("Probes")
    for table in assessment.tables():
        page.table(table.heads, table.rows)
    page.text("\n\n".join(assessment.lines()))
    if assessment.health is not None:
        page.section("Embedding")
        add_health(page, assessment.health, embedding, seed=options.seed)
    if options.command:
        page.section("Again")
        page.code(options.command)
    return page


def _verdict(assessment: Assessment) -> Finding | None:
    """How the embedding fares, in a line; a probe's accuracy is neither good nor bad by itself."""
    if assessment.health is None:
        return None
    health = verdict_of(assessment.health.findings)
    return replace(health, text=f"Embedding: {health.text[0].lower()}{health.text[1:]}")


def warned(health: Health, unfinished: str) -> Health:
    """That a run has not ended is found before all else."""
    if not unfinished:
        return health
    return replace(health, findings=(Finding("bad", f"The run is at {unfinished}"), *health.findings))


def embedding_of(
    name: str,
    z: Tensor,
    labels: Tensor | None = None,
    classes: tuple[str, ...] = (),
    views: tuple[Tensor, Tensor] | None = None,
) -> Embedding:
    """All rows of an embedding that is at hand."""
    return Embedding(name, z, labels, classes, views, torch.arange(len(z)), len(z), ())


def write(name: str, assessment: Assessment, embedding: Embedding, options: Options) -> None:
    """The page and the numbers, where they are wanted."""
    if options.json is not None:
        put_json(options.json, assessment.as_dict())
    if options.html is not None:
        page_of(name, assessment, embedding, options).write(options.html)
