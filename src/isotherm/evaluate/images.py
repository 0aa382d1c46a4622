"""`isotherm evaluate RUN`: what a run's encoder knows, and what its embedding is like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from isotherm import probes as evaluate
from isotherm.data.fingerprints import same
from isotherm.data.images import Images
from isotherm.data.sources.reading import count
from isotherm.evaluate.assessment import Options, Table, check_probes, embedding_of, warned, write
from isotherm.files import Json
from isotherm.inspect.health import Health, examine_embedding
from isotherm.inspect.reading import Embedding
from isotherm.probes import PROTOCOLS, Score, Spread, features_of
from isotherm.probes.extract import probed_layer
from isotherm.train.modality.images import OpenedImages, data_of
from isotherm.train.monitor import labelled, some, two_views, with_labels
from isotherm.train.names import RESULT
from isotherm.train.runs import open_run, read_result, unfinished

AUGMENTED = tuple(f"{name}-augmented" for name in PROTOCOLS)
PROBES = ("knn", "linear", *PROTOCOLS, *AUGMENTED, "finetune", "fewshot", "fewshot-finetune")
"""What `--probe` takes."""
USUAL: tuple[str, ...] = ("knn", "linear")
SHOTS = 5
NEIGHBOURS = (1, 10, 20, 200)
MAP = 10_000
"""Test images whose embedding is examined, at most."""


@dataclass(frozen=True, eq=False)
class ImageAssessment:
    """Scores of the probes by name, and the health of the embedding of the test images."""

    out: Path
    scores: dict[str, Score | Spread]
    health: Health | None
    unfinished: str = ""
    notes: tuple[str, ...] = ()

    def tables(self) -> list[Table]:
        rows = []
        for name, score in self.scores.items():
            low, high = score.interval
            value = score.accuracy if isinstance(score, Score) else score.mean
            other = f"{100 * score.balanced:.2f} %" if isinstance(score, Score) else f"sd {100 * score.sd:.2f}"
            interval = f"{100 * low:.2f} to {100 * high:.2f}"
            rows.append((name, f"{100 * value:.2f} %", interval, other, f"{score.n:,}"))
        return [Table(("probe", "accuracy", "95 % interval", "balanced, or sd over seeds", "n"), tuple(rows))]

    def lines(self) -> list[str]:
        return list(self.notes)

    def as_dict(self) -> Json:
        return {
            "run": str(self.out),
            "unfinished": self.unfinished,
            "notes": list(self.notes),
            "probes": {name: score.as_dict() for name, score in self.scores.items()},
            "measures": {} if self.health is None else self.health.values,
        }


def assess(
    source: str | Path,
    probes: Sequence[str] = USUAL,
    options: Options = Options(),  # noqa: B008
) -> ImageAssessment:
    """Probe a run's frozen encoder on its test images, and examine its embedding of them."""
    check_probes(probes, PROBES, "images")
    options.check()
    options.note("opening the run", "")
    run = open_run(Path(source))
    test = run.test
    if test is None:
        raise ValueError(f"{run.config.data} has no part '{run.config.test}' to judge on.")
    refuse_other_data(run)
    run = replace(run, images=with_labels(run.images))
    if not (labelled(run.images) and labelled(test)):
        raise ValueError(f"{run.config.data} has no labels; `isotherm inspect` examines an embedding without them.")
    scores: dict[str, Score | Spread] = {}
    known = test.subset(torch.isin(test.labels, run.images.labels).nonzero()[:, 0])
    gone = len(test) - len(known)
    left = (
        f"{count(gone, 'test image')} left out: their classes are not in the training part; training counts them wrong"
    )
    fixed: tuple[Tensor, Tensor] | None = None
    for name in probes:
        if not (name in AUGMENTED or name.endswith("finetune")) and fixed is None:
            options.note("features", "")
            fixed = _features(run, run.images), _features(run, known)
        options.note(name, "")
        scores |= _probe(name, run, known, fixed, options.seed)
    options.note("examining the embedding", "")
    embedding, stopped = _embedding(run, options.seed), unfinished(run.out)
    health = warned(examine_embedding(embedding, options.seed), stopped)
    assessment = ImageAssessment(run.out, scores, health, stopped, (left,) if gone else ())
    write(run.out.name, assessment, embedding, options)
    return assessment


def refuse_other_data(run: OpenedImages) -> None:
    """Refuse to judge a run on images that have changed since it ended: they are others by the same name."""
    known = read_result(run.out).data if (run.out / RESULT).exists() else ""
    if known and not same(known, data_of(run.images, run.test)):
        raise ValueError(
            f"the images of {run.config.data} have changed since {run.out} was trained. Bring the old ones back, or "
            f"judge it on the new ones: isotherm evaluate {run.out} --on {run.config.data}"
        )


def _features(run: OpenedImages, images: Images) -> Tensor:
    encoder = run.network.encoder
    return features_of(encoder, images, run.recipe, layer=probed_layer(encoder))


def _probe(
    name: str, run: OpenedImages, test: Images, fixed: tuple[Tensor, Tensor] | None, seed: int
) -> dict[str, Score | Spread]:
    train, encoder = run.images, run.network.encoder
    if name == "finetune":
        tuned = evaluate.finetune(encoder, train, test, run.recipe, seed=seed)
        assert isinstance(tuned, Score)  # `assess` has seen to labels
        return {name: tuned}
    if name == "fewshot-finetune":
        return {name: evaluate.few_shot_finetune(encoder, train, test, run.recipe, SHOTS)}
    if name in AUGMENTED:
        how = name.removesuffix("-augmented")
        return {name: evaluate.follow_augmented(how, encoder, train, test, run.recipe, seed=seed)}
    assert fixed is not None
    given = (fixed[0], train.labels, fixed[1], test.labels)
    if name == "knn":
        ks = [k for k in NEIGHBOURS if k <= len(train)]
        return {f"knn, k = {k}": score for k, score in evaluate.knn(*given, ks=ks).items()}
    if name == "linear":
        return {name: evaluate.linear(*given, seed=seed)}
    if name == "fewshot":
        return {f"linear, {SHOTS} per class": evaluate.few_shot(*given, SHOTS)}
    return {name: evaluate.follow(name, *given, seed=seed)}


def _embedding(run: OpenedImages, seed: int) -> Embedding:
    """The test images as they are, as training's monitor looks at them; two views of each for what is about views."""
    assert run.test is not None
    images = some(run.test, MAP, seed)
    z, views = features_of(run.network, images, run.recipe), None
    if len(run.recipe.views) > 1 and run.recipe.views[0].size == run.recipe.views[1].size:
        views = two_views(run.network, images, run.recipe, seed)
    return embedding_of(run.out.name, z, images.labels, images.classes, views)
