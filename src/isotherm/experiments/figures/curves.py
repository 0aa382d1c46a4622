"""Figures of studies: from records to charts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from isotherm import temperature
from isotherm.experiments.claims.penalties import entropy, similarities
from isotherm.experiments.records import Records
from isotherm.experiments.study import Where
from isotherm.measures.catalogue import measure as fact
from isotherm.measures.embedding import PROJECTED
from isotherm.report.charts import Bars, Chart, HeatMap, Heights, Histogram, Line, Lines

REFERENCE = ("simple", "hard simple")


def against(
    records: Records, arms: Sequence[str], over: str, x: str, measures: Sequence[str], log_x: bool = False
) -> list[Chart]:
    """Each measure against what was varied, with its standard deviation over seeds; constant arms as dashed lines."""
    charts: list[Chart] = []
    for measure in measures:
        scale, spread = fact(measure).factor, abs(fact(measure).factor)
        lines = []
        for arm in arms:
            at, means, deviations = records.along(arm, over, measure)
            if len(at):
                y = scale * means
                lines.append(Line(arm, at, y, y - spread * deviations, y + spread * deviations))
        ends = [v for line in lines for v in np.asarray(line.x)]
        for arm in (a for a in REFERENCE if a in records.arms() and ends):
            mean, _, runs = records.mean(arm, measure)
            if runs:
                lines.append(Line(arm, [min(ends), max(ends)], [scale * mean] * 2, dashed=True))
        title = fact(measure).heading
        charts.append(Lines(_capital(f"{title} against {x}"), lines, x=x, y=fact(measure).axis, log_x=log_x))
    return charts


def family(records: Records, arm: str, over: str, by: str, x: str, measure: str, more: str = "") -> list[Chart]:
    """One line for each value of `by`, against `over`."""
    lines, scale, spread = [], fact(measure).factor, abs(fact(measure).factor)
    for value in sorted({r.varied[by] for r in records if r.arm == arm and by in r.varied}):
        at, means, deviations = records.where(**{by: value}).along(arm, over, measure)
        y, half = scale * means, spread * deviations
        lines.append(Line(f"{by.rpartition('.')[2]} {value:g}", at, y, y - half, y + half))
    return [Lines(_capital(f"{fact(measure).heading} against {x}, {arm}{more}"), lines, x=x, y=fact(measure).axis)]


def split(
    records: Records, arm: str, by: str, values: Sequence[tuple[Any, str]], over: str, x: str, measure: str
) -> list[Chart]:
    """A measure of one arm against what was varied: a chart for each value of something else."""
    charts: list[Chart] = []
    for value, title in values:
        for chart in against(records.where(**{by: value}), [arm], over, x, (measure,), log_x=True):
            charts.append(dataclasses.replace(chart, title=f"{title}: {chart.title[:1].lower()}{chart.title[1:]}"))
    return charts


def grid(records: Records, arm: str, rows: str, columns: str, measures: Sequence[str]) -> list[Chart]:
    """Means over two settings as colours."""
    mine = [r for r in records if r.arm == arm]
    down, across = (sorted({r.varied[name] for r in mine}) for name in (rows, columns))
    charts: list[Chart] = []
    for measure in measures:
        scale = fact(measure).factor
        values = [[scale * records.mean(Where(arm, {rows: a, columns: b}), measure)[0] for b in across] for a in down]
        names = [[f"{v:g}" for v in found] for found in (down, across)]
        titles = [name.rpartition(".")[2] for name in (rows, columns)]
        charts.append(HeatMap(_capital(fact(measure).heading), names[0], names[1], values, y=titles[0], x=titles[1]))
    return charts


def bars(records: Records, arms: Sequence[str], measure: str, title: str) -> list[Chart]:
    """A bar for every arm, with its standard deviation over seeds."""
    scale = fact(measure).factor
    found = [(arm, *records.mean(arm, measure)) for arm in arms]
    there = [(arm, scale * mean, abs(scale) * deviation) for arm, mean, deviation, n in found if n]
    if not there:
        return []
    heights = Heights(fact(measure).heading, [m for _, m, _ in there], [d for _, _, d in there])
    name = fact(measure).heading
    return [Bars(f"{title}: {name}", [a for a, _, _ in there], [heights], x=fact(measure).axis)]


def projected(records: Records, arm: str, over: str, symbol: str) -> list[Chart]:
    """One random projection of the embedding, beside the normal distribution that it has when it is even."""
    mine = sorted((r for r in records if r.arm == arm and r.seed == 0), key=lambda r: float(r.varied[over]))
    middles = (PROJECTED[1:] + PROJECTED[:-1]) / 2
    series = [Heights(f"{symbol} = {r.varied[over]:g}", r.measures["projection"]) for r in mine]
    series.append(Heights("normal", np.exp(-(middles**2) / 2) / math.sqrt(2 * math.pi)))
    return [Histogram(f"A random projection, {arm}", PROJECTED, series, x="value / spread when even", y="density")]


def over_training(records: Records, arms: Sequence[str], measure: str, title: str) -> list[Chart]:
    """What was seen on the way against the part of the training that is over, mean over seeds."""
    lines = []
    for arm in arms:
        by: dict[float, list[float]] = {}
        for r in records:
            if r.arm == arm:
                for line in r.monitored():
                    if measure in line:
                        by.setdefault(round(line["epoch"] / r.config.epochs, 3), []).append(line[measure])
        if by:
            x = sorted(by)
            lines.append(Line(arm, x, [fact(measure).factor * float(np.mean(by[v])) for v in x]))
    if not lines:
        return []
    return [Lines(f"{title}: {fact(measure).heading}", lines, x="part of the training", y=fact(measure).axis)]


def ode(tau_max: float) -> list[Chart]:
    """Temperatures that solve DySTreSS's equation, between the ends of its constant; undefined where there is none."""
    s = torch.linspace(-1, 1, 401, dtype=torch.float64)
    s = s[s.abs() > 1e-9]
    lines = []
    for blend in (0.0, 0.001, 0.01, 0.1, 1.0):
        tau = temperature.ode_solution(s, tau_max, 0.5, 1.0, blend)
        kept = torch.where((tau > 0) & (tau < 1.5 * tau_max), tau, torch.nan)
        lines.append(Line(f"{blend:g} of the way", s.numpy(), kept.numpy()))
    note = "δ = 0.5, K = 1; c lies on the way from c⁻ (exact at s = −1) to c⁺ (exact at s = 1) of eq. 15."
    return [Lines("Exact temperature against similarity", lines, x="similarity", y="τ(s)", note=note)]


def profiles(
    ranges: Sequence[tuple[float, float]],
    shifts: Sequence[tuple[float, float]],
    ends: tuple[float, float] = (0.07, 0.2),
) -> list[Chart]:
    """τ(s) of DySTreSS: cosine over several ranges; moved minima between these `ends`."""
    s = torch.linspace(-1, 1, 201, dtype=torch.float64)
    plain = [Line(f"{a:g} to {b:g}", s.numpy(), temperature.Cosine(a, b)(s).numpy()) for a, b in ranges]
    moved = [Line(f"shift {d:+g}, k {k:g}", s.numpy(), temperature.Shifted(*ends, d, k)(s).numpy()) for d, k in shifts]
    return [
        Lines("Ranges of the cosine profile", plain, x="similarity", y="τ(s)"),
        Lines("Shifted profiles", moved, x="similarity", y="τ(s)"),
    ]


def _capital(text: str) -> str:
    return text if text[1:2].isupper() else text[:1].upper() + text[1:]  # kNN stays kNN


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
            if any(len(r.measures["nearest_negatives"]) < k for r in found):
                continue
            y = [float(np.mean([r.measures["nearest_negatives"][k - 1] for r in by[v]])) for v in at]
            lines.append(Line(f"nearest {k}", at, y))
        charts.append(Lines(f"Local separation, {arm}", lines, x=x, y="mean similarity"))
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
        if record.arm == arm and record.embedding.exists():
            s = similarities(record)
            y = [float(entropy(s, t).mean()) for t in temperatures]
            top = float(np.log(s.shape[1]))
            lines.append(Line(f"trained at {record.varied[over]:g}", list(temperatures), y))
    if lines:
        lines.append(
            Line("log of the number of negatives", [temperatures[0], temperatures[-1]], [top, top], dashed=True)
        )
    return [Lines("Entropy of the relative penalties", lines, x="temperature", y="H(r), nats")]
