"""Figures of studies: from records to charts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.manifold import TSNE

from isotherm.report.charts import Chart, Line, Lines, Points, Scatter
from isotherm.studies.claims import entropy, similarities
from isotherm.studies.records import Records

SHOWN = {
    "linear": "linear accuracy",
    "knn": "kNN accuracy",
    "uniformity": "−uniformity",
    "tolerance": "tolerance",
    "positive_similarity": "similarity of two views",
}
NEGATED = {"uniformity"}
"""The papers plot its negative."""
REFERENCE = ("simple", "hard simple")


def against(records: Records, arms: Sequence[str], over: str, x: str, measures: Sequence[str]) -> list[Chart]:
    """Each measure against what was varied, with its standard deviation over seeds; constant arms as dashed lines."""
    charts: list[Chart] = []
    for measure in measures:
        sign = -1 if measure in NEGATED else 1
        lines = []
        for arm in arms:
            at, means, deviations = records.along(arm, over, measure)
            if len(at):
                y = sign * means
                lines.append(Line(arm, at, y, y - deviations, y + deviations))
        ends = [v for line in lines for v in np.asarray(line.x)]
        for arm in (a for a in REFERENCE if a in records.arms() and ends):
            mean, _, runs = records.mean(arm, measure)
            if runs:
                lines.append(Line(arm, [min(ends), max(ends)], [sign * mean] * 2, dashed=True))
        title = SHOWN.get(measure, measure.replace("_", " "))
        charts.append(Lines(f"{title} against {x}", lines, x=x, y=title))
    return charts


def separation(records: Records, arms: Sequence[str], over: str, x: str) -> list[Chart]:
    """Similarity of two views, and of the 1st to 10th nearest other item."""
    charts: list[Chart] = []
    for arm in arms:
        found = [r for r in records if r.arm == arm and "nearest_negatives" in r.measures]
        at = sorted({float(r.varied[over]) for r in found})
        if not at:
            continue
        by = {v: [r for r in found if float(r.varied[over]) == v] for v in at}
        lines = [
            Line("two views", at, [float(np.mean([r.measures["positive_similarity"] for r in by[v]])) for v in at])
        ]
        for k in (1, 2, 5, 10):
            y = [float(np.mean([r.measures["nearest_negatives"][k - 1] for r in by[v]])) for v in at]
            lines.append(Line(f"nearest {k}", at, y))
        charts.append(Lines(f"Local separation, {arm}", lines, x=x, y="mean similarity"))
    return charts


def maps(records: Records, arm: str, over: str, values: Sequence[float], most: int) -> list[Chart]:
    """t-SNE of the kept embeddings of the first runs there are at these values."""
    charts: list[Chart] = []
    for value in values:
        record = records.one(arm, {over: value})
        if record is None or len(charts) == most:
            continue
        with np.load(record.folder / "embedding.npz") as kept:
            z, labels = kept["z"].astype(np.float32), kept["labels"]
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        flat = TSNE(perplexity=min(30, (len(z) - 1) / 3), init="pca", random_state=0).fit_transform(z)
        groups = [
            Points(f"class {c}", flat[labels == c, 0], flat[labels == c, 1], [f"class {c}"] * int((labels == c).sum()))
            for c in np.unique(labels)[:20]
        ]
        charts.append(Scatter(f"t-SNE at {over.rpartition('.')[2]} {value:g}", groups, axes=False))
    return charts


def penalties(temperatures: Sequence[float]) -> list[Chart]:
    """The relative penalty of a negative against its similarity, with negatives spread evenly over [−1, 1]."""
    s = np.linspace(-1, 1, 101)
    lines = []
    for t in temperatures:
        r = np.exp((s - 1) / t)
        lines.append(Line(f"τ = {t:g}", s, r / r.sum()))
    return [Lines("Share of the penalty against similarity", lines, x="similarity", y="relative penalty", log_y=True)]


def entropies(records: Records, arm: str, over: str, temperatures: Sequence[float]) -> list[Chart]:
    """Mean H(r) at many temperatures for each trained embedding."""
    lines, top = [], 0.0
    for record in records:
        if record.arm == arm:
            s = similarities(record)
            y = [float(entropy(s, t).mean()) for t in temperatures]
            top = float(np.log(s.shape[1]))
            lines.append(Line(f"trained at {record.varied[over]:g}", list(temperatures), y))
    if lines:
        lines.append(
            Line("log of the number of negatives", [temperatures[0], temperatures[-1]], [top, top], dashed=True)
        )
    return [Lines("Entropy of the relative penalties", lines, x="temperature", y="H(r), nats")]
