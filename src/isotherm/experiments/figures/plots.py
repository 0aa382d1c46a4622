"""Figures of studies as values: what to draw of which records.

A plot says what it needs of every run (`measures`) and draws records (`draw`), as a rule of a claim judges them. What
is heavy is imported when it is drawn: whoever lists the studies does not draw.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from isotherm.experiments.claims.by_seed import chosen
from isotherm.experiments.study import OfOneMeasure, Plot, Settings, Together, Where
from isotherm.report.charts import Chart, Dots, Drawing, HeatMap, Heights, Histogram, Line, Lines

if TYPE_CHECKING:
    from isotherm.experiments.records import Record, Records
    from isotherm.measures.measure import Measure

REFERENCE = ("simple", "hard simple")
"""Arms without what is varied, which `Against` shows as dashed lines."""


@dataclass(frozen=True)
class Several(Together[Plot]):
    """One plot after the other."""

    def draw(self, records: Records) -> list[Drawing]:
        return [chart for plot in self.parts for chart in plot.draw(records)]


@dataclass(frozen=True)
class Within:
    """Another plot of the runs with these values of what is varied."""

    varied: Settings
    plot: Plot

    @property
    def measures(self) -> Sequence[str]:
        return self.plot.measures

    def draw(self, records: Records) -> Sequence[Drawing]:
        return self.plot.draw(records.where(**self.varied))


@dataclass(frozen=True)
class Against:
    """Each measure against what was varied, with its standard deviation over seeds; constant arms as dashed lines."""

    arms: Sequence[str]
    over: str
    x: str
    measures: Sequence[str]
    log_x: bool = False

    def draw(self, records: Records) -> list[Chart]:
        charts = [self._chart(records, measure) for measure in self.measures]
        return [chart for chart in charts if chart is not None]

    def _chart(self, records: Records, measure: str) -> Chart | None:
        lines, fact = [], _fact(measure)
        for arm in self.arms:
            at, means, deviations = records.along(arm, self.over, measure)
            if len(at):
                lines.append(_banded(arm, at, means, deviations, fact))
        if not lines:
            return None
        ends = [v for line in lines for v in np.asarray(line.x)]
        for arm in (a for a in REFERENCE if a in records.arms()):
            mean, _, runs = records.mean(arm, measure)
            if runs:
                lines.append(Line(arm, [min(ends), max(ends)], [fact.factor * mean] * 2, dashed=True))
        title = _capital(f"{fact.heading} against {self.x}")
        return Lines(title, lines, x=self.x, y=fact.axis, log_x=self.log_x, measure=measure)


@dataclass(frozen=True)
class Family(OfOneMeasure):
    """One line for each value of `by`, against `over`."""

    arm: str
    over: str
    by: str
    x: str
    more: str = ""
    """Ends the title."""

    def draw(self, records: Records) -> list[Chart]:
        lines, fact = [], _fact(self.measure)
        for value in sorted({r.varied[self.by] for r in records if r.arm == self.arm and self.by in r.varied}):
            at, means, deviations = records.where(**{self.by: value}).along(self.arm, self.over, self.measure)
            if len(at):
                lines.append(_banded(f"{self.by.rpartition('.')[2]} {value:g}", at, means, deviations, fact))
        if not lines:
            return []
        title = _capital(f"{fact.heading} against {self.x}, {self.arm}{self.more}")
        return [Lines(title, lines, x=self.x, y=fact.axis, measure=self.measure, ramp=True)]


@dataclass(frozen=True)
class Split:
    """Measures of one arm against what was varied: a chart for each value of something else."""

    arm: str
    by: str
    values: Sequence[tuple[Any, str]]
    """Each with its title."""
    over: str
    x: str
    measures: Sequence[str]

    def draw(self, records: Records) -> list[Chart]:
        return [
            dataclasses.replace(chart, title=f"{title}: {chart.title[:1].lower()}{chart.title[1:]}")
            for measure in self.measures
            for value, title in self.values
            for chart in Against([self.arm], self.over, self.x, (measure,), log_x=True).draw(
                records.where(**{self.by: value})
            )
        ]


@dataclass(frozen=True)
class Grid:
    """Means over two settings as colours."""

    arm: str
    rows: str
    columns: str
    measures: Sequence[str]

    def draw(self, records: Records) -> list[Chart]:
        runs = [r for r in records if r.arm == self.arm]
        if not runs:
            return []
        down, across = (sorted({r.varied[name] for r in runs}) for name in (self.rows, self.columns))
        names = [[f"{value:g}" for value in values] for values in (down, across)]
        y, x = (name.rpartition(".")[2] for name in (self.rows, self.columns))
        charts: list[Chart] = []
        for measure in self.measures:
            fact = _fact(measure)
            places = [[Where(self.arm, {self.rows: a, self.columns: b}) for b in across] for a in down]
            values = [[fact.factor * records.mean(where, measure)[0] for where in row] for row in places]
            charts.append(HeatMap(_capital(fact.heading), names[0], names[1], values, y=y, x=x, measure=measure))
        return charts


@dataclass(frozen=True)
class OfArms(OfOneMeasure):
    """What plots of arms side by side share."""

    arms: Sequence[str]
    title: str


@dataclass(frozen=True)
class DotForEach(OfArms):
    """A dot for every arm, with its standard deviation over seeds."""

    def draw(self, records: Records) -> list[Chart]:
        fact = _fact(self.measure)
        means = [(arm, *self._of(records, arm)) for arm in self.arms]
        bars = [(arm, fact.factor * mean, abs(fact.factor) * spread) for arm, mean, spread, n in means if n]
        if not bars:
            return []
        names, values, errors = zip(*bars, strict=True)
        title, heights = f"{self.title}: {fact.heading}", Heights(fact.heading, values, errors)
        return [Dots(title, names, [heights], x=fact.axis, measure=self.measure)]

    def _of(self, records: Records, arm: str) -> tuple[float, float, int]:
        return records.mean(arm, self.measure)


@dataclass(frozen=True)
class DotAsChosen(DotForEach):
    """The same of each arm where, of all that is varied in it, another measure is best."""

    by: str

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure, self.by)

    def _of(self, records: Records, arm: str) -> tuple[float, float, int]:
        values = list(chosen(records, arm, self.measure, self.by).by_seed.values())
        if not values:
            return math.nan, math.nan, 0
        return float(np.mean(values)), float(np.std(values, ddof=1)), len(values)


@dataclass(frozen=True)
class OverTraining(OfArms):
    """What was seen on the way against the part of the training that is over, mean over seeds."""

    def draw(self, records: Records) -> list[Chart]:
        fact = _fact(self.measure)
        lines = []
        for arm in self.arms:
            by: dict[float, list[float]] = {}
            for record in (r for r in records if r.arm == arm):
                for part, value in record.monitored(self.measure):
                    by.setdefault(round(part, 3), []).append(value)
            if by:
                x = sorted(by)
                lines.append(Line(arm, x, [fact.factor * float(np.mean(by[v])) for v in x]))
        if not lines:
            return []
        title = f"{self.title}: {fact.heading}"
        return [Lines(title, lines, x="part of the training", y=fact.axis, measure=self.measure)]


@dataclass(frozen=True)
class Projection:
    """One random projection of the embedding, beside the normal distribution that it has when it is even."""

    arm: str
    over: str
    symbol: str
    measures: ClassVar[tuple[str, ...]] = ("projection",)

    def draw(self, records: Records) -> list[Chart]:
        from isotherm.measures.embedding import PROJECTED

        first = (r for r in records if r.arm == self.arm and r.seed == 0 and r.has("projection"))
        runs = sorted(first, key=lambda r: _at(r, self.over))
        if not runs:
            return []
        middles = (PROJECTED[1:] + PROJECTED[:-1]) / 2
        series = [Heights(f"{self.symbol} = {r.varied[self.over]:g}", r.measures["projection"]) for r in runs]
        series.append(Heights("normal", np.exp(-(middles**2) / 2) / math.sqrt(2 * math.pi)))
        title = f"A random projection, {self.arm}"
        return [Histogram(title, PROJECTED, series, x="value / spread when even", y="density")]


@dataclass(frozen=True)
class Separation:
    """Similarity of two views, and of the 1st to 10th nearest other item."""

    arms: Sequence[str]
    over: str
    x: str
    measures: ClassVar[tuple[str, ...]] = ("positive_similarity", "nearest_negatives")

    def draw(self, records: Records) -> list[Chart]:
        charts: list[Chart] = []
        for arm in self.arms:
            runs = [r for r in records if r.arm == arm and all(map(r.has, self.measures))]
            if runs:
                charts.append(Lines(f"Local separation, {arm}", self._lines(runs), x=self.x, y="mean similarity"))
        return charts

    def _lines(self, runs: Sequence[Record]) -> list[Line]:
        at = sorted({_at(r, self.over) for r in runs})
        by = [[r.measures for r in runs if _at(r, self.over) == value] for value in at]
        lines = [Line("two views", at, [float(np.mean([m["positive_similarity"] for m in same])) for same in by])]
        for k in (1, 2, 5, 10):
            if all(len(r.measures["nearest_negatives"]) >= k for r in runs):
                y = [float(np.mean([m["nearest_negatives"][k - 1] for m in same])) for same in by]
                lines.append(Line(f"nearest {k}", at, y))
        return lines


@dataclass(frozen=True)
class Entropies:
    """Mean H(r) at many temperatures for each trained embedding."""

    arm: str
    over: str
    temperatures: Sequence[float]
    measures: ClassVar[tuple[str, ...]] = ()

    def draw(self, records: Records) -> list[Chart]:
        from isotherm.experiments.claims.penalties import entropy, similarities

        lines, top = [], 0.0
        for record in records:
            if record.arm == self.arm and record.embedding.exists():
                s = similarities(record)
                y = [float(entropy(s, t).mean()) for t in self.temperatures]
                top = float(np.log(s.shape[1]))
                lines.append(Line(f"trained at {record.varied[self.over]:g}", list(self.temperatures), y))
        if not lines:
            return []
        ends = [self.temperatures[0], self.temperatures[-1]]
        lines.append(Line("log of the number of negatives", ends, [top, top], dashed=True))
        return [Lines("Entropy of the relative penalties", lines, x="temperature", y="H(r), nats", ramp=True)]


@dataclass(frozen=True)
class RelativePenalties:
    """The relative penalty of a negative against its similarity, with negatives spread evenly over [−1, 1]."""

    temperatures: Sequence[float]
    measures: ClassVar[tuple[str, ...]] = ()

    def draw(self, records: Records) -> list[Chart]:
        s = np.linspace(-1, 1, 101)
        weights = {t: np.exp((s - 1) / t) for t in self.temperatures}
        lines = [Line(f"τ = {t:g}", s, r / r.sum()) for t, r in weights.items()]
        title = "Share of the penalty against similarity"
        return [Lines(title, lines, x="similarity", y="relative penalty", log_y=True, ramp=True)]


@dataclass(frozen=True)
class ExactTemperature:
    """Temperatures that solve DySTreSS's equation, between the ends of its constant; undefined where there is none."""

    tau_max: float
    measures: ClassVar[tuple[str, ...]] = ()

    def draw(self, records: Records) -> list[Chart]:
        import torch

        from isotherm import temperature

        s = torch.linspace(-1, 1, 401, dtype=torch.float64)
        s = s[s.abs() > 1e-9]
        lines = []
        for blend in (0.0, 0.001, 0.01, 0.1, 1.0):
            tau = temperature.ode_solution(s, self.tau_max, 0.5, 1.0, blend)
            kept = torch.where((tau > 0) & (tau < 1.5 * self.tau_max), tau, torch.nan)
            lines.append(Line(f"{blend:g} of the way", s.numpy(), kept.numpy()))
        note = "δ = 0.5, K = 1; c lies on the way from c⁻ (exact at s = −1) to c⁺ (exact at s = 1) of eq. 15."
        return [Lines("Exact temperature against similarity", lines, x="similarity", y="τ(s)", note=note, ramp=True)]


@dataclass(frozen=True)
class Profiles:
    """τ(s) of DySTreSS: cosine over several ranges; moved minima between these `ends`."""

    ranges: Sequence[tuple[float, float]]
    shifts: Sequence[tuple[float, float]]
    ends: tuple[float, float] = (0.07, 0.2)
    measures: ClassVar[tuple[str, ...]] = ()

    def draw(self, records: Records) -> list[Chart]:
        import torch

        from isotherm.temperature import Cosine, Shifted

        s = torch.linspace(-1, 1, 201, dtype=torch.float64)
        plain = [Line(f"{a:g} to {b:g}", s.numpy(), Cosine(a, b)(s).numpy()) for a, b in self.ranges]
        moved = {f"shift {shift:+g}, k {k:g}": Shifted(*self.ends, shift, k) for shift, k in self.shifts}
        shifted = [Line(name, s.numpy(), tau(s).numpy()) for name, tau in moved.items()]
        return [
            Lines("Ranges of the cosine profile", plain, x="similarity", y="τ(s)", ramp=True),
            Lines("Shifted profiles", shifted, x="similarity", y="τ(s)"),
        ]


@dataclass(frozen=True)
class Maps:
    """t-SNE of the kept embeddings of the first runs there are at these values, `most` of them."""

    arm: str
    over: str
    values: Sequence[float]
    most: int
    measures: ClassVar[tuple[str, ...]] = ()

    def draw(self, records: Records) -> list[Drawing]:
        from isotherm.experiments.figures import portraits

        return portraits.maps(records, self.arm, self.over, self.values, self.most)


@dataclass(frozen=True)
class PairSimilarities:
    """Similarities of true positive, false negative and true negative pairs, before and after training."""

    where: Where
    measures: ClassVar[tuple[str, ...]] = ("pairs_before", "pairs_after")

    def draw(self, records: Records) -> list[Drawing]:
        from isotherm.experiments.figures import portraits

        return portraits.pairs(records, self.where)


@dataclass(frozen=True)
class Weights:
    """One query, its positives and its negatives, with the weights that CACR gives them."""

    where: Where
    t_pos: float
    t_neg: float
    measures: ClassVar[tuple[str, ...]] = ()

    def draw(self, records: Records) -> list[Drawing]:
        from isotherm.experiments.figures import portraits

        return portraits.weights(records, self.where, self.t_pos, self.t_neg)


@dataclass(frozen=True)
class Neighbourhoods:
    """t-SNE of one query's views and negatives, early in training and at its end."""

    arms: Sequence[str]
    measures: ClassVar[tuple[str, ...]] = ()

    def draw(self, records: Records) -> list[Drawing]:
        from isotherm.experiments.figures import portraits

        return portraits.neighbourhoods(records, self.arms)


def _fact(name: str) -> Measure:
    from isotherm.measures.catalogue import measure

    return measure(name)


def _at(record: Record, over: str) -> float:
    return float(record.varied[over])


def _banded(name: str, x: Any, means: Any, deviations: Any, fact: Measure) -> Line:
    """Means as they are shown, in a band of their standard deviations."""
    y, half = fact.factor * means, abs(fact.factor) * deviations
    return Line(name, x, y, y - half, y + half)


def _capital(text: str) -> str:
    return text if text[1:2].isupper() else text[:1].upper() + text[1:]  # kNN stays kNN
