"""The HTML page of an embedding: what was found, the measures, and figures that explain them."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from isotherm import __version__
from isotherm.inspect.findings import describe, verdict_of
from isotherm.inspect.health import PROJECTION_EDGES, Floats, Health
from isotherm.inspect.reading import Embedding
from isotherm.measures.reach import HIGH, LOW
from isotherm.pairing import unit
from isotherm.report import Cell, Heights, Histogram, Line, Lines, Page, Points, Scatter, Span, number

MAPPED = 2000
"""Items on the map."""
NAMED = 16
"""Classes that get a colour of their own on the map; the rest share one."""
LAYOUTS = ("tsne", "pca", "none")


def page_of(health: Health, embedding: Embedding, layout: str = "tsne", seed: int = 0, command: str = "") -> Page:
    """The page; `layout` is how its map is made: tsne, pca or none."""
    page = Page(
        f"Embedding {health.name}",
        f"{_described(health)}: is it healthy, and which temperature suits it?",
        kicker="Isotherm inspect",
        footer=footer(seed),
        verdict=verdict_of(health.findings),
    )
    add_health(page, health, embedding, layout, seed)
    if command:
        page.section("Again")
        page.code(command)
    return page


def footer(seed: int) -> str:
    """What holds for every number of the page."""
    return (
        f"isotherm {__version__}. Items are normalized to length 1 before anything is measured; "
        f"all pairs count. Random choices use seed {seed}."
    )


def _described(health: Health) -> str:
    labelled = f" in {len(health.classes):,} classes" if health.classes else ""
    return f"{health.n:,} items{labelled}, {health.d:,} dimensions"


def add_health(page: Page, health: Health, embedding: Embedding, layout: str = "tsne", seed: int = 0) -> None:
    """Everything about an embedding, at the end of a page."""
    values, advice = health.values, health.advice
    page.facts(
        [
            ("embeddings", health.n, f"{health.d:,} dimensions"),
            ("uniformity", values["uniformity"], f"{number(health.limit, 3)} at best"),
            ("effective rank", values["effective_rank"], f"of {min(health.d, health.n - 1):,}"),
            *(
                [("neighbours agree", f"{values['nearest_agreement']:.1%}", f"by chance {health.chance:.1%}")]
                if "nearest_agreement" in values
                else []
            ),
            ("temperature", "–" if advice.low is None else f"{advice.low:g} to {advice.high:g}", "recommended τ"),
        ]
    )
    page.section("Findings")
    page.findings(health.findings)
    page.section("Temperature", advice.reasoning)
    if advice.low is not None:
        page.figures(*hardness_charts(health))
        with page.fold("Why this range, and what to give DySTreSS"):
            page.text(advice.more)
    page.section("Measures", "What was measured, what it means, and what is healthy.")
    page.table(
        ["measure", "value", "healthy", "what it means"],
        [
            [r.measure.title, Cell(r.value, level=r.healthy.level), r.healthy.where, r.measure.meaning]
            for r in describe(health)
        ],
        stack=True,
    )
    page.section("Similarities and directions")
    page.figures(*_distributions(health))
    if layout != "none" and values["effective_rank"] > 0:
        page.section("Map")
        page.figure(map_of(embedding, layout, seed))
    if len(health.classes) > 1:
        page.section("Classes")
        with page.fold(f"{len(health.classes):,} classes, the smallest agreement first"):
            worst = sorted(health.classes, key=lambda c: (c.agreement is None, c.agreement))
            page.table(
                ["class", "items", "tolerance", "neighbours agree"],
                [[c.name, c.items, c.tolerance, c.agreement] for c in worst[:200]],
                caption="The first 200" if len(worst) > 200 else "",
            )


def hardness_charts(health: Health) -> tuple[Lines, Lines]:
    """How many negatives a query reaches at each temperature, and on which similarities its repulsion falls."""
    return _reach(health), _profiles(health)


def _reach(health: Health) -> Lines:
    hardness, advice = health.hardness, health.advice
    series = [Line("negatives reached", hardness.temperatures, 100 * hardness.reach)]
    if hardness.same_class is not None:
        series.append(Line("repulsion on the own class", hardness.temperatures, 100 * hardness.same_class))
    spans = [] if advice.low is None or advice.high is None else [Span(advice.low, advice.high, "recommended")]
    return Lines(
        "How many negatives a query reaches",
        series,
        x="temperature τ",
        y="%",
        log_x=True,
        spans=spans,
        note=f"exp H(r) as a part of all {hardness.negatives:,} negatives, {hardness.queries} queries. "
        f"Recommended: {LOW:.0%} to {HIGH:.0%}.",
    )


def _profiles(health: Health) -> Lines:
    hardness = health.hardness
    middles = (hardness.edges[1:] + hardness.edges[:-1]) / 2
    shown = _occupied(np.sum(list(hardness.profiles.values()), axis=0))
    return Lines(
        "On which similarities the repulsion falls",
        [Line(f"τ = {t:g}", middles[shown], 100 * part[shown]) for t, part in hardness.profiles.items()],
        x="similarity to the query",
        y="% of the repulsion",
        ramp=True,
        note="The hardness profile: the lower the temperature, the more the nearest negatives take.",
    )


def _distributions(health: Health) -> list[Histogram | Lines]:
    full = _occupied(np.sum(list(health.histograms.values()), axis=0))
    fold = 4 if full.stop - full.start > 100 else 2 if full.stop - full.start > 50 else 1  # bins of the measure in one
    coarse = {kind: parts.reshape(-1, fold).sum(1) for kind, parts in health.histograms.items()}
    edges = health.edges[::fold]
    shown = _occupied(np.sum(list(coarse.values()), axis=0))
    width = edges[1] - edges[0]
    charts: list[Histogram | Lines] = [
        Histogram(
            "Similarities of pairs",
            edges[shown.start : shown.stop + 1],
            [Heights(kind, parts[shown] / width) for kind, parts in coarse.items()],
            x="similarity",
            y="density",
            note="Each kind of pair has area 1. The less they overlap, the better they are told apart.",
        )
    ]
    if health.separation is not None:
        ranks = np.arange(1, len(health.separation) + 1)
        level = np.full(len(ranks), health.values["positive_similarity"])
        charts.append(
            Lines(
                "Local separation",
                [
                    Line("two views of an item", ranks, level, dashed=True),
                    Line("its nearest other items", ranks, health.separation),
                ],
                x="rank of the neighbour",
                y="mean similarity",
                note="The wider the gap, the better an item is told from its neighbours.",
            )
        )
    total = max(float(health.spectrum.sum()), 1e-30)
    rank = np.arange(1, health.d + 1)
    charts.append(
        Lines(
            "Covariance spectrum",
            [
                Line("this embedding", rank, np.maximum(100 * health.spectrum / total, 1e-8)),
                Line("evenly spread", rank, np.full(health.d, 100 / health.d), dashed=True),
            ],
            x="principal direction",
            y="% of the variance",
            log_y=True,
            note="A cliff means collapsed dimensions; flat means every direction is used.",
        )
    )
    charts.append(_projections(health))
    return charts


def _projections(health: Health) -> Lines:
    middles = (PROJECTION_EDGES[1:] + PROJECTION_EDGES[:-1]) / 2
    along = health.projections
    return Lines(
        "Random directions against the prior",
        [
            Line(f"mean of {len(along)} directions", middles, along.mean(0)),
            *(Line(f"direction {i + 1}", middles, along[i]) for i in range(min(3, len(along)))),
            Line("evenly spread", middles, _prior(middles, health.d), dashed=True),
        ],
        x=f"projection, in units of 1/√{health.d}",
        y="density",
        note="Points spread evenly over the sphere look normal from every side (Chen & Li 2021, figure 3).",
    )


def _prior(x: Floats, d: int) -> Floats:
    """The density of √d times one coordinate of a point spread evenly over the sphere."""
    scale = math.lgamma(d / 2) - math.lgamma((d - 1) / 2) - math.log(math.pi * d) / 2
    inside = np.clip(1 - x * x / d, 1e-300, None)
    result: Floats = np.where(x * x < d, np.exp(scale + (d - 3) / 2 * np.log(inside)), 0.0)
    return result


def _occupied(parts: Floats) -> slice:
    """The bins that hold anything worth drawing, and one on each side."""
    full = np.flatnonzero(parts > 1e-5 * parts.max())
    return slice(max(0, int(full[0]) - 1), min(len(parts), int(full[-1]) + 2))


def map_of(embedding: Embedding, layout: str, seed: int) -> Scatter:
    """A seeded sample of the items in two dimensions, coloured by class."""
    n = len(embedding.z)
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:MAPPED].sort().values
    at, how = flattened(unit(embedding.z[chosen], "z").double().numpy(), layout, seed)
    rows = embedding.rows[chosen].tolist()
    if embedding.labels is None:
        groups, rest = {"items": np.arange(len(chosen))}, {}
        names = [f"row {row:,}" for row in rows]
    else:
        codes = embedding.labels[chosen].numpy()
        order = np.argsort(-np.bincount(codes[codes >= 0], minlength=len(embedding.classes)), kind="stable")
        named = sorted(order[:NAMED].tolist()) if len(order) > NAMED + 1 else list(range(len(order)))
        groups = {embedding.classes[c]: np.flatnonzero(codes == c) for c in named}
        groups = {name: where for name, where in groups.items() if len(where)}
        others = {"other classes": (codes >= 0) & ~np.isin(codes, named), "no label": codes < 0}
        rest = {name: np.flatnonzero(where) for name, where in others.items() if where.any()}
        groups |= rest
        called = [*embedding.classes, "no label"]
        names = [f"{called[c]} · row {row:,}" for c, row in zip(codes, rows, strict=True)]
    return Scatter(
        f"{len(chosen):,} of {n:,} items, {how}",
        [
            Points(name, at[where, 0], at[where, 1], [names[i] for i in where], pale=name in rest)
            for name, where in groups.items()
        ],
        axes=False,
        note="Near means alike; distances between far groups mean little."
        if how == "t-SNE"
        else "The two directions of largest variance.",
    )


def flattened(z: NDArray[np.float64], layout: str, seed: int = 0) -> tuple[Floats, str]:
    """Points in two dimensions, by t-SNE or (also where those are too few for it) by principal components."""
    from sklearn.decomposition import PCA  # noqa: PLC0415 - extra `lab`
    from sklearn.manifold import TSNE  # noqa: PLC0415

    z = z + 1e-9 * np.random.default_rng(seed).standard_normal(z.shape)  # equal rows would divide by zero
    pca = PCA(2, random_state=seed, svd_solver="randomized" if min(z.shape) > 2 else "full").fit_transform(z)
    if layout == "pca" or len(z) < 10:
        return pca, "principal components"
    start = 1e-4 * pca / max(float(pca[:, 0].std()), 1e-12)
    tsne = TSNE(2, perplexity=min(30.0, (len(z) - 1) / 3), init=start, metric="euclidean", random_state=seed)
    result: Floats = tsne.fit_transform(z.astype(np.float32)).astype(np.float64)
    return result, "t-SNE"
