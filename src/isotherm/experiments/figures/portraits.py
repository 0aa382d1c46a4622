"""Figures that look into a run itself: its images, its embeddings, its weights."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from isotherm.data.loaders.images import Loader
from isotherm.encoders.features import evaluating
from isotherm.experiments.records import Record, Records
from isotherm.experiments.study import Where
from isotherm.experiments.trained.images import EDGES
from isotherm.report.charts import Drawing, Heights, Histogram, Picture, Points, Scatter
from isotherm.train import names, runs
from isotherm.train.monitor import some

Floats = NDArray[np.float32]
SHOWN = 100
"""Pictures among which a query is shown."""
FEW = 4
"""Negatives shown with the largest and with the smallest weights, as in CACR's figure 6."""


def _map(rows: Floats, perplexity: float) -> Floats:
    """t-SNE in the plane, the same in every call."""
    from sklearn.manifold import TSNE  # noqa: PLC0415 - a second to import, and reports without runs have no maps

    plane: Floats = TSNE(perplexity=min(perplexity, (len(rows) - 1) / 3), init="pca", random_state=0).fit_transform(
        rows
    )
    return plane


def maps(records: Records, arm: str, over: str, values: Sequence[float], most: int) -> list[Drawing]:
    """t-SNE of the kept embeddings of the first runs there are at these values."""
    charts: list[Drawing] = []
    for value in values:
        record = records.one(Where(arm, {over: value}))
        if record is None or len(charts) == most or not record.embedding.exists():
            continue
        with np.load(record.embedding) as kept:
            z, labels = kept["z"].astype(np.float32), kept["labels"]
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        flat = _map(z, 30)
        groups = [
            Points(f"class {c}", flat[labels == c, 0], flat[labels == c, 1], [f"class {c}"] * int((labels == c).sum()))
            for c in np.unique(labels)[:20]
        ]
        charts.append(Scatter(f"t-SNE at {over.rpartition('.')[2]} {value:g}", groups, axes=False))
    return charts


def pairs(records: Records, where: Where) -> list[Drawing]:
    """Similarities of true positive, false negative and true negative pairs, before and after training."""
    record = records.one(where)
    if record is None or not (record.has("pairs_before") and record.has("pairs_after")):
        return []
    return [
        Histogram(
            f"Similarity of pairs {when} training",
            EDGES,
            [Heights(name, counts) for name, counts in record.measures[f"pairs_{when}"].items()],
            x="similarity",
            y="density",
        )
        for when in ("before", "after")
    ]


def weights(records: Records, where: Where, t_pos: float, t_neg: float) -> list[Drawing]:
    """One query, its positives and its negatives, with the weights that CACR gives them."""
    record = records.one(where)
    if record is None or not (record.folder / names.CHECKPOINT).exists():
        return []
    views, z = _seen(record)
    query = z[0][0]
    positives = torch.stack([v[0] for v in z[1:]])
    pull = torch.softmax(t_pos * (query - positives).square().sum(1), 0)
    push = torch.softmax(-t_neg * (query - z[0][1:]).square().sum(1), 0)
    order = push.argsort(descending=True)
    chosen = [*order[:FEW].tolist(), *order[-FEW:].tolist()]
    shown = [("query", views[0][0])]
    shown += [(f"positive\n{w:.3f}", v[0]) for w, v in zip(pull.tolist(), views[1:], strict=True)]
    shown += [(f"negative\n{push[i] * len(push):.2f} × even", views[0][1 + i]) for i in chosen]
    about = "A query, its positives with their weights, and the negatives with the largest and the smallest weights."
    return [Picture(f"Weights of {where.arm}", _strip(shown), about)]


def neighbourhoods(records: Records, arms: Sequence[str]) -> list[Drawing]:
    """t-SNE of one query's views and negatives, early in training and at its end."""
    charts: list[Drawing] = []
    for arm in arms:
        mine = [r for r in records if r.arm == arm and r.seed == 0 and r.varied.get("imbalance", "none") == "none"]
        for record in sorted(mine, key=lambda r: r.config.steps or r.config.epochs or 0):
            if (record.folder / names.CHECKPOINT).exists():
                charts.append(_neighbourhood(record, arm))
    return charts


def _neighbourhood(record: Record, arm: str) -> Drawing:
    _, z = _seen(record, views=5)
    rows = torch.cat([z[0][:1], torch.stack([v[0] for v in z[1:]]), z[0][1:]]).numpy()
    flat = _map(rows, 15)
    flat -= flat[0]
    groups = {"query": slice(0, 1), "its other views": slice(1, 5), "other images": slice(5, None)}
    length, unit = record.config.steps or record.config.epochs, "step" if record.config.steps else "epoch"
    return Scatter(
        f"{arm}, {length} {unit}{'' if length == 1 else 's'}",
        [Points(name, flat[part, 0], flat[part, 1]) for name, part in groups.items()],
        axes=False,
    )


def _seen(record: Record, views: int | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """Views of some test images as they are shown, and their unit embeddings."""
    run = runs.open_run(record.folder)
    images = some(run.images if run.test is None else run.test, SHOWN, 0)
    recipe = run.recipe
    if views is not None:
        recipe = replace(recipe, views=(recipe.views[0],) * views)
    with evaluating(run.network):
        batch = next(iter(Loader(images, recipe, len(images), 0, shuffle=False, drop_last=False).epoch(0)))
        z = [torch.nn.functional.normalize(run.network(v), dim=1) for v in batch.views]
    mean, std = (torch.tensor(v or d).view(-1, 1, 1) for v, d in ((recipe.mean, [0.0]), (recipe.std, [1.0])))
    return [(v * std + mean).clamp(0, 1) for v in batch.views], z


def _strip(shown: Sequence[tuple[str, Tensor]]) -> bytes:
    """Small images in rows of seven, each with its words below, as PNG."""
    across = 7
    rows = -(-len(shown) // across)
    figure = Figure(figsize=(1.1 * across, 1.65 * rows), layout="constrained")
    for i, (words, image) in enumerate(shown):
        axes = figure.add_subplot(rows, across, i + 1)
        axes.imshow(image.permute(1, 2, 0)[..., :3].squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=1)
        axes.set_title(words, y=-0.12, va="top", fontsize=8, parse_math=False)
        axes.set_axis_off()
    result = io.BytesIO()
    figure.savefig(result, format="png", dpi=110)
    return result.getvalue()
