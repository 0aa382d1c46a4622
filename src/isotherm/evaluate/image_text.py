"""`isotherm evaluate` for two towers: retrieval, zero-shot classification, and a linear probe of the image tower."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from isotherm import probes as probing
from isotherm.data import fingerprints
from isotherm.data.captioned import broken_note
from isotherm.data.catalogue import SETS
from isotherm.data.class_names import in_words, read_names
from isotherm.data.images import Images
from isotherm.data.sets import load, there
from isotherm.encoders.features import evaluating
from isotherm.encoders.towers import Locked
from isotherm.evaluate.assessment import Options, Table, check_probes, embedding_of, write
from isotherm.files import Json
from isotherm.inspect.health import Health
from isotherm.inspect.pairs import PairHealth, examine_pairs
from isotherm.measures.retrieval import Direction, Retrieval
from isotherm.probes.scores import Score, wilson
from isotherm.probes.zeroshot import PHOTO, check_prompts, class_vectors, zero_shot
from isotherm.train.features import kept
from isotherm.train.modality.image_text import OpenedPairs
from isotherm.train.pair_embeddings import AT_ONCE, embed_features, pair_subject
from isotherm.train.runs import open_pairs, unfinished

PROBES = ("retrieval", "zeroshot", "linear")
"""What `--probe` takes."""
USUAL: tuple[str, ...] = ("retrieval",)
NAMES = "class_names.txt"
"""In a set's folder: what its classes are called, one per line."""
DIRECTIONS = {"image to text": "image_to_text", "text to image": "text_to_image"}


@dataclass(frozen=True, eq=False)
class PairAssessment:
    """What the probes say of two towers."""

    out: Path
    retrieval: Retrieval | None
    scores: dict[str, Score]
    """Zero-shot and linear, by probe and data."""
    names: dict[str, list[str]]
    """The classes of each data set, as they were asked for."""
    pairs: PairHealth
    health: Health | None = None
    """None: what is to be said of one embedding is said of two (`pairs`), whose negatives are across."""
    unfinished: str = ""
    notes: tuple[str, ...] = ()

    def tables(self) -> list[Table]:
        tables = []
        if self.retrieval is not None:
            heads = ("retrieval", "R@1", "R@5", "R@10", "median rank", "queries")
            rows = [_row(title, getattr(self.retrieval, name)) for title, name in DIRECTIONS.items()]
            tables.append(Table(heads, tuple(rows)))
        if self.scores:
            columns = ("probe", "accuracy", "95 % interval", "balanced", "n")
            tables.append(Table(columns, tuple(_scored(name, score) for name, score in self.scores.items())))
        for name, score in self.scores.items():
            if name.startswith("zero-shot"):
                each = zip(self.names[name], score.per_class, strict=True)
                shares = [(word, "none" if share is None else f"{100 * share:.1f} %") for word, share in each]
                tables.append(Table((name, "accuracy"), tuple(shares)))
        return tables

    def lines(self) -> list[str]:
        found = [f"{finding.level}: {finding.text}" for finding in self.pairs.findings]
        return [*self.notes, *found, self.pairs.advice.reasoning]

    def as_dict(self) -> Json:
        return {
            "run": str(self.out),
            "unfinished": self.unfinished,
            "notes": list(self.notes),
            "retrieval": None if self.retrieval is None else _retrieval_json(self.retrieval),
            "probes": {name: score.as_dict() for name, score in self.scores.items()},
            "pairs": self.pairs.as_dict(),
            "measures": self.pairs.values,
        }


def assess(
    source: str | Path,
    probes: Sequence[str] = USUAL,
    options: Options = Options(),  # noqa: B008
) -> PairAssessment:
    """Probe a run's towers on its test pairs and, where asked, on images with classes (`options.zeroshot`)."""
    if options.zeroshot and tuple(probes) == USUAL:
        probes = (*USUAL, "zeroshot")
    check_probes(probes, PROBES, "image–text pairs")
    templates = options.prompts or PHOTO
    check_prompts(["a", "b"], templates)
    if not options.zeroshot and set(probes) & {"zeroshot", "linear"}:
        raise ValueError("zeroshot and linear need images with classes: say --zeroshot DATA, such as imagenette.")
    options.check()
    options.note("opening the run", "")
    run = open_pairs(Path(source))
    judged = run.pairs if run.test is None else run.test
    options.note("embedding", judged.name)
    subject = pair_subject(run.network, judged, run.recipe)
    scores: dict[str, Score] = {}
    names: dict[str, list[str]] = {}
    for data in options.zeroshot:
        if "zeroshot" in probes:
            options.note("zero-shot", data)
            key = f"zero-shot, {data}"
            scores[key], names[key] = zero_shot_on(run, data, templates, options.class_names)
        if "linear" in probes:
            options.note("linear", data)
            scores[f"linear, {data}"] = _linear(run, data, options.seed)
    options.note("examining the embedding", "")
    stopped = unfinished(run.out)
    embedding = embedding_of(run.out.name, subject.images)
    assessment = PairAssessment(
        run.out,
        subject.retrieval if "retrieval" in probes else None,
        scores,
        names,
        examine_pairs(subject.images, subject.texts, subject.owner, run.out.name, options.seed),
        unfinished=stopped,
        notes=tuple(broken_note(judged.broken)),
    )
    write(run.out.name, assessment, embedding, options)
    return assessment


def zero_shot_on(
    run: OpenedPairs, data: str, templates: Sequence[str] = PHOTO, class_names: Path | None = None
) -> tuple[Score, list[str]]:
    """How often a run's towers name the classes of a set's test images, and what those are called."""
    test = _images(data, "test", run)
    known = test.subset((test.labels >= 0).nonzero()[:, 0])
    if not known.classes:
        raise ValueError(f"{data} has no classes to be named.")
    if class_names is None:
        class_names = _names_beside(data)
    names = in_words(known.classes, data) if class_names is None else read_names(class_names, len(known.classes))
    vectors = class_vectors(run.embed_texts, names, templates)
    z = embed_features(run.network, _features(run, known))
    return zero_shot(z, vectors, known.labels, templates), names


def check_zero_shot(data: str) -> None:
    """Refuse a set that is not there, or whose classes have no words, before anybody trains for it."""
    there(data)
    beside = _names_beside(data)
    if beside is None and data in SETS and SETS[data].folder == "imagenet":
        folder = SETS[data].place()
        raise ValueError(
            f"{data}: its classes are numbers. Write their names, one per line in the folders' order, to "
            f"{folder}/{NAMES}."
        )


def _names_beside(data: str) -> Path | None:
    """A file of names in a named set's own folder, if somebody has put one there."""
    folder = SETS[data].place() if data in SETS else None
    return folder / NAMES if folder is not None and (folder / NAMES).exists() else None


def _linear(run: OpenedPairs, data: str, seed: int) -> Score:
    """The exact linear probe of the image tower's features, before its projection."""
    train, test = (_images(data, split, run) for split in ("train", "test"))
    train, test = (part.subset((part.labels >= 0).nonzero()[:, 0]) for part in (train, test))
    return probing.linear(_features(run, train), train.labels, _features(run, test), test.labels, seed=seed)


def _features(run: OpenedPairs, images: Images) -> Tensor:
    """What the image tower makes of images as they are; of a locked one it is kept on disk, as that of pairs is."""
    tower, size = run.network.encoder.image_encoder, run.recipe.views[0].size
    like = next(tower.parameters())

    def make(indices: Tensor) -> Tensor:
        parts = []
        with evaluating(tower):
            for index in indices.split(AT_ONCE):
                x = run.recipe.plain(images.at(index).to(like.device), size)
                parts.append(tower(x.to(like.dtype)).float().cpu())
        return torch.cat(parts)

    side = run.network.encoder.image
    if not isinstance(side, Locked):
        return make(torch.arange(len(images)))
    pixels = fingerprints.checksum(images.at(part).numpy().data for part in torch.arange(len(images)).split(1024))
    shown = (tuple(images.shape), size, run.recipe.mean, run.recipe.std)
    return kept(("pixels", pixels, shown, side.digest.tolist()), len(images), run.network.encoder.width, make)


def _images(data: str, split: str, run: OpenedPairs) -> Images:
    """Images with classes, as large as the tower takes them where their reader can do that."""
    try:
        return load(data, split, size=run.recipe.views[0].size)
    except TypeError:  # they have one size
        return load(data, split)


def _row(title: str, way: Direction) -> tuple[str, ...]:
    recalls = (f"{100 * value:.1f} % ({_interval(value, way.n)})" for value in way.recalls.values())
    return title, *recalls, f"{way.median:g}", f"{way.n:,}"


def _interval(share: float, n: int) -> str:
    low, high = wilson(round(share * n), n)
    return f"{100 * low:.1f} to {100 * high:.1f}"


def _scored(name: str, score: Score) -> tuple[str, ...]:
    low, high = score.interval
    interval = f"{100 * low:.2f} to {100 * high:.2f}"
    return name, f"{100 * score.accuracy:.2f} %", interval, f"{100 * score.balanced:.2f} %", f"{score.n:,}"


def _retrieval_json(retrieval: Retrieval) -> Json:
    json: Json = {**dataclasses.asdict(retrieval), "mean_recall": retrieval.mean_recall}
    for name in DIRECTIONS.values():
        way = getattr(retrieval, name)
        json[name]["intervals"] = {k: wilson(round(value * way.n), way.n) for k, value in way.recalls.items()}
    return json
