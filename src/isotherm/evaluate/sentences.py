"""`isotherm evaluate` for encoders of sentences: STS, SentEval's transfer tasks, and how the embedding lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isotherm.data import senteval
from isotherm.encoders import text
from isotherm.evaluate.assessment import Options, Table, check_probes, embedding_of, warned, write
from isotherm.files import Json
from isotherm.inspect.health import Health, examine_embedding
from isotherm.probes.sts import STS, Geometry, sts, stsb_geometry
from isotherm.probes.transfer import Transfer, transfer
from isotherm.train import names, runs

PROBES = ("sts", "senteval")
"""What `--probe` takes."""
USUAL: tuple[str, ...] = ("sts",)
EXAMINED = 5000
"""Sentences whose embedding is examined, at most."""


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
    unfinished: str = ""

    def tables(self) -> list[Table]:
        tables = []
        if self.sts is not None:
            scores = [*(task.spearman for task in self.sts.tasks.values()), self.sts.average]
            row = (self.name, *("undefined" if s is None else f"{100 * s:.2f}" for s in scores))
            tables.append(Table(("similarity (Spearman × 100, all)", *self.sts.tasks, "average"), (row,)))
        if self.transfer is not None:
            accuracies = [*(task.accuracy for task in self.transfer.tasks.values()), self.transfer.average]
            row = (self.name, *(f"{100 * a:.2f}" for a in accuracies))
            tables.append(Table(("transfer (accuracy, %)", *self.transfer.tasks, "average"), (row,)))
        return tables

    def lines(self) -> list[str]:
        lines = []
        if self.geometry is not None:
            there = self.geometry
            lines.append(
                f"STS-B test: alignment {there.alignment:.4f} ({there.positives} pairs above 4), "
                f"uniformity {there.uniformity:.4f} ({there.sentences:,} sentences)"
            )
        for notes in (self.notes, *(part.notes for part in (self.sts, self.transfer) if part is not None)):
            lines += notes
        return lines

    def as_dict(self) -> Json:
        parts = {"sts": self.sts, "senteval": self.transfer, "stsb_geometry": self.geometry}
        return {
            "encoder": self.name,
            "unfinished": self.unfinished,
            "probes": {name: part.as_dict() for name, part in parts.items() if part is not None},
            "measures": {} if self.health is None else self.health.values,
            "notes": list(self.notes),
        }


def encoder_of(source: str) -> text.TextEncoder:
    """The encoder that `source` names."""
    if source == text.SMALL:
        raise ValueError(f"{text.SMALL} has nothing to show before it is trained; name a run.")
    if text.is_text_encoder(source):
        return text.pretrained(source)
    if (Path(source) / names.CONFIG).exists():
        return runs.open_text_encoder(Path(source))[1]
    if not Path(source).exists():
        raise ValueError(f"no folder {source}; a run's, a model's, {text.INSTALLED}, or {text.HUB}NAME.")
    return text.pretrained(f"{text.HUB}{source}")


def assess(
    source: str | Path,
    probes: Sequence[str] = USUAL,
    options: Options = Options(),  # noqa: B008
) -> TextAssessment:
    """Probe an encoder of sentences on SentEval's data."""
    source = str(source)
    check_probes(probes, PROBES, "sentences")
    place = senteval.folder(options.senteval)
    options.check()
    note = options.note
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
    sentences = there["sts"].get("STS-B") or next(iter({**there["sts"], **there["senteval"]}.values()))
    unfinished = runs.unfinished(Path(source))
    embedding = embedding_of(Path(source).name, encode(sentences[:EXAMINED]))
    health = warned(examine_embedding(embedding, options.seed), unfinished)
    assessment = TextAssessment(source, similar, learnt, geometry, health, notes, unfinished)
    write(embedding.name, assessment, embedding, options)
    return assessment


def _rated(place: Path) -> dict[str, list[str]]:
    """The different sentences of every similarity task that is there; a line that cannot be read is told now."""
    tasks = {task: senteval.rated(place, task)[0] for task in senteval.SIMILARITY}
    return {
        task: list(dict.fromkeys(s for part in parts for column in (part.first, part.second) for s in column))
        for task, parts in tasks.items()
        if parts
    }


def _classified(place: Path) -> dict[str, list[str]]:
    """The same of the transfer tasks."""
    tasks = {task: senteval.classified(place, task)[0] for task in senteval.TRANSFER}
    return {
        task: list(dict.fromkeys(s for part in parts.values() for s in (*part.first, *part.second) if s))
        for task, parts in tasks.items()
        if parts
    }
