"""`isotherm evaluate RUN`: what a run's encoder knows, and what its embedding is like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotherm import probes as evaluate
from isotherm.checks import did_you_mean
from isotherm.files import write_json
from isotherm.inspect.health import Health, examine
from isotherm.inspect.page import page_of
from isotherm.inspect.reading import Embedding
from isotherm.probes import PROTOCOLS, Score, Spread, features_of
from isotherm.train.monitor import labelled, some, two_views
from isotherm.train.runs import Opened, open_run

AUGMENTED = tuple(f"{name}-augmented" for name in PROTOCOLS)
PROBES = ("knn", "linear", *PROTOCOLS, *AUGMENTED, "finetune", "fewshot", "fewshot-finetune")
"""What `--probe` takes."""
SHOTS = 5
NEIGHBOURS = (1, 10, 20, 200)
MAP = 10_000
"""Test images whose embedding is examined, at most."""

Note = Callable[[str, str], None]


@dataclass(frozen=True, eq=False)
class Assessment:
    """Scores of the probes by name, and the health of the embedding of the test images."""

    out: Path
    scores: dict[str, Score | Spread]
    health: Health | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": str(self.out),
            "probes": {name: score.as_dict() for name, score in self.scores.items()},
            "measures": {} if self.health is None else self.health.values,
        }


def assess(
    out: Path,
    probes: Sequence[str] = ("knn", "linear"),
    seed: int = 0,
    html: Path | None = None,
    to_json: Path | None = None,
    command: str = "",
    note: Note = lambda stage, detail: None,
) -> Assessment:
    """Probe a run's frozen encoder on its test images, and examine its embedding of them."""
    if not probes:
        raise ValueError(f"no probe is named; there is: {', '.join(PROBES)}.")
    for name in probes:
        if name not in PROBES:
            raise ValueError(f"no probe '{name}'{did_you_mean(name, PROBES)}")
    note("opening the run", "")
    run = open_run(out)
    if run.test is None:
        raise ValueError(f"{run.config.data} has no part '{run.config.test}' to judge on.")
    if not (labelled(run.images) and labelled(run.test)):
        raise ValueError(f"{run.config.data} has no labels; `isotherm inspect` examines an embedding without them.")
    scores: dict[str, Score | Spread] = {}
    known = run.test.subset(torch.isin(run.test.labels, run.images.labels).nonzero()[:, 0])
    fixed: tuple[Tensor, Tensor] | None = None
    for name in probes:
        if not (name in AUGMENTED or name.endswith("finetune")) and fixed is None:
            note("features", "")
            train = features_of(run.network.encoder, run.images, run.recipe)
            fixed = train, features_of(run.network.encoder, known, run.recipe)
        note(name, "")
        scores |= _probe(name, run, known, fixed, seed)
    note("examining the embedding", "")
    health = _examined(run, html, seed, command)
    found = Assessment(out, scores, health)
    if to_json is not None:
        write_json(to_json, found.as_dict())
    return found


def _probe(
    name: str, run: Opened, test: Any, fixed: tuple[Tensor, Tensor] | None, seed: int
) -> dict[str, Score | Spread]:
    train, encoder = run.images, run.network.encoder
    if name == "finetune":
        return {name: evaluate.finetune(encoder, train, test, run.recipe, seed=seed)}
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


def _examined(run: Opened, html: Path | None, seed: int, command: str) -> Health:
    assert run.test is not None
    images = some(run.test, MAP, seed)
    z = features_of(run.network, images, run.recipe)
    second = None
    if len(run.recipe.views) > 1 and run.recipe.views[0].size == run.recipe.views[1].size:
        z, second = two_views(run.network, images, run.recipe, seed)
    health = examine(z, images.labels, second, name=run.out.name, classes=images.classes, seed=seed)
    if html is not None:
        rows = torch.arange(len(z))
        embedding = Embedding(run.out.name, z, images.labels, images.classes, second, rows, len(z), ())
        page_of(health, embedding, seed=seed, command=command).write(html)
    return health
