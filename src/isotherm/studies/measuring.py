"""What is measured of every run of a study, once its training is over."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isotherm import measures
from isotherm.evaluate.extract import features_of
from isotherm.evaluate.linear import linear
from isotherm.train import checkpoint, runs
from isotherm.train.config import Config, Place
from isotherm.train.loop import train
from isotherm.train.watch import geometry, labelled, neighbours, some, two_views

MEASURED = "measured.json"
EMBEDDING = "embedding.npz"
SAMPLE = 2000
"""Test pictures whose geometry is measured."""
KEPT = 1000
"""Embeddings kept for maps and histograms."""
NEAREST = 10


def done(folder: Path) -> dict[str, Any] | None:
    """What a finished run has in its folder."""
    path = folder / MEASURED
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def carry_out(config: Config, folder: Path, checkpoint_seconds: float = 20.0) -> dict[str, Any]:
    """Train a run, from its last checkpoint if it has one, and measure it."""
    found = done(folder)
    if found is not None:
        return found
    result = train(config, Place(out=folder, resume=True, quiet=True, checkpoint=checkpoint_seconds))
    found = {"measures": measure(folder), "seconds": result["seconds"], "versions": result["versions"]}
    checkpoint.write_json(folder / MEASURED, found)
    (folder / runs.BEST).unlink(missing_ok=True)
    return found


def measure(folder: Path) -> dict[str, Any]:
    """Probes of the features, geometry of the embedding, local separation."""
    run = runs.open_run(folder)
    test = run.test if run.test is not None else run.images
    found: dict[str, Any] = {}
    if run.test is not None and labelled(run.images) and labelled(test):
        known = test.subset(torch.isin(test.labels, run.images.labels).nonzero()[:, 0])
        bank, queries = (features_of(run.network.encoder, i, run.recipe) for i in (run.images, known))
        found["knn"] = neighbours(bank, run.images.labels, queries, known.labels)
        found["linear"] = linear(bank, run.images.labels, queries, known.labels, seed=0).accuracy
    sample = some(test, SAMPLE, 0)
    found |= geometry(run.network, sample, run.recipe, seed=0)
    recipe = run.recipe
    if len(recipe.views) == 1:  # a bank compares one view; alignment and local separation need two
        recipe = replace(recipe, views=recipe.views * 2)
    a, b = two_views(run.network, sample, recipe)
    found["alignment"] = measures.alignment(a, b)
    positive, nearest = measures.local_separation(a, b, NEAREST)
    found["positive_similarity"] = positive
    found["nearest_negative"] = float(nearest.mean())
    found["separation"] = positive - float(nearest.mean())
    found["nearest_negatives"] = [float(v) for v in nearest]
    kept = some(sample, KEPT, 0)
    z = features_of(run.network, kept, run.recipe)
    rows, labels = z.numpy().astype(np.float16), kept.labels.numpy()
    checkpoint.write_whole(folder / EMBEDDING, lambda file: np.savez(file, z=rows, labels=labels))
    return found
