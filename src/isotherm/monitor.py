"""What the embeddings of a training are like, step by step, for a loop of one's own: is it collapsing?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from isotherm.checks import at_least
from isotherm.inspect.health import even_uniformity
from isotherm.measures import alignment, alpha_req, effective_rank, lidar, rankme, uniformity
from isotherm.measures.arrays import tensor
from isotherm.measures.embedding import CONE, FEW_DIRECTIONS, NEARLY_COLLAPSED, Around
from isotherm.measures.reach import HIGH, LOW, Queries
from isotherm.measures.subject import healthy
from isotherm.report import Line, Lines, Page, number

ASKED = 1024
"""Items among which the temperature is looked for: the part of the negatives that is reached hardly depends on it."""


@dataclass(frozen=True)
class Status(Mapping[str, float]):
    """What the embeddings of one step are like; as a mapping, the numbers for a logger: ``log(dict(status))``."""

    step: int
    measures: Mapping[str, float]
    """uniformity, mean_similarity, effective_rank, rankme, alpha_req; of two views also alignment, lidar."""
    temperature: tuple[float, float] | None = None
    """Between these a query's repulsion reaches 2 % to 15 % of its negatives (`isotherm.inspect`)."""
    warning: str = ""
    """What is wrong, in a sentence; empty if nothing is."""

    def __getitem__(self, name: str) -> float:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def _all(self) -> dict[str, float]:
        tau = {} if self.temperature is None else dict(zip(("tau_low", "tau_high"), self.temperature, strict=True))
        return {**self.measures, **tau}

    def __repr__(self) -> str:
        parts = [f"{name.replace('_', ' ')} {number(value, 3)}" for name, value in self.measures.items()]
        if self.temperature is not None:
            parts.append(f"τ {self.temperature[0]:.2g} to {self.temperature[1]:.2g}")
        said = f"; {self.warning}" if self.warning else ""
        return f"step {self.step}: {', '.join(parts) or 'nothing to measure'}{said}"


@dataclass
class Monitor:
    """``status = monitor(z0, z1)`` in the loop: measures of a sample of the batch, and a warning when it collapses.

    Every `every` steps (else the answer is None) `sample` items of this process's batch are measured on the CPU; no
    random number of the training is used, and nothing is sent around. Each step of a collapse has its `Status.warning`;
    the first one after the first `grace` steps, since a fresh network looks collapsed, gives a Python warning too. For
    none at all, `grace` is None. `history` keeps what was measured; in a notebook the monitor shows it.
    """

    every: int = 1
    sample: int = 512
    grace: int | None = 100
    seed: int = 0
    step: int = field(default=0, init=False)
    history: list[Status] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        at_least(1, every=self.every)
        at_least(2, sample=self.sample)
        self._ill = False

    def __call__(self, *views: Any) -> Status | None:
        """What the embeddings (N, D) of this step are like: one view, or several of the same items."""
        step, self.step = self.step, self.step + 1
        if step % self.every:
            return None
        status = self._measured(step, self._sampled(step, views))
        self.history.append(status)
        if self.grace is not None and step >= self.grace:
            if status.warning and not self._ill:
                warnings.warn(f"step {step}: {status.warning}", RuntimeWarning, stacklevel=2)
            self._ill = bool(status.warning)
        return status

    def _sampled(self, step: int, views: tuple[Any, ...]) -> list[Tensor]:
        """The same items of every view, in float32 on the CPU."""
        given = [tensor(view, f"view {i}").detach() for i, view in enumerate(views)]
        shapes = {tuple(view.shape) for view in given}
        if len(shapes) != 1 or given[0].ndim != 2:
            raise ValueError(f"a monitor takes embeddings (N, D), all of one shape; got {sorted(shapes)}.")
        n = len(given[0])
        if n > self.sample:
            generator = torch.Generator().manual_seed(hash((self.seed, step)) % (1 << 63))
            chosen = torch.randperm(n, generator=generator)[: self.sample]
            given = [view[chosen.to(view.device)] for view in given]
        return [view.float().cpu() for view in given]

    @torch.no_grad()
    def _measured(self, step: int, views: list[Tensor]) -> Status:
        z = views[0]
        n, d = z.shape
        if n < 2:
            return Status(step, {})
        if not all(map(healthy, views)):
            return Status(step, {}, warning="embeddings hold NaN, infinite numbers or zero vectors: it has diverged.")
        unit = torch.nn.functional.normalize(z.double(), dim=1)
        values = {
            "uniformity": uniformity(z),
            "mean_similarity": min(1.0, float((unit.sum(0).square().sum() - n) / (n * (n - 1)))),
            "effective_rank": effective_rank(z),
            "rankme": rankme(z),
        }
        if min(n - 1, d) >= 20:  # enough directions for the power law, which leaves out the first ten
            values |= _or_nothing("alpha_req", alpha_req, z)
        if len(views) > 1:
            values |= {"alignment": alignment(z, views[1])} | _or_nothing("lidar", lidar, *views)
        around = Around(values, n, d, even_uniformity(d))
        return Status(step, values, self._asked(z, around), _warning(around))

    def _asked(self, z: Tensor, around: Around) -> tuple[float, float] | None:
        """The temperatures the embedding asks for, unless it is collapsed or too small to ask."""
        if around.spread == "bad" or (queries := Queries(z[:ASKED])).few:
            return None
        low, high = queries.temperature_of(LOW), queries.temperature_of(HIGH)
        return None if low is None or high is None else (low, high)

    def page(self) -> Page:
        """Every measure over the steps, as a page of charts."""
        page = Page("Monitor", f"{len(self.history):,} looks at a training, {self.step:,} steps.")
        last = self.history[-1] if self.history else None
        if last is not None:
            page.facts([(name.replace("_", " "), value) for name, value in last.measures.items()])
            if last.warning:
                page.text(last.warning)
        names = dict.fromkeys(name for status in self.history for name in status)
        charts = []
        for name in names:
            known = [(status.step, status[name]) for status in self.history if name in status]
            x, y = zip(*known, strict=True)
            charts.append(Lines(name.replace("_", " "), [Line(name, list(x), list(y))], x="step"))
        if charts:
            page.figures(*charts)
        return page

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()


def _or_nothing(name: str, measure: Callable[..., float], *views: Tensor) -> dict[str, float]:
    try:
        return {name: measure(*views)}
    except ValueError:  # too few directions vary, or numbers are too large
        return {}


def _warning(around: Around) -> str:
    values = around.values
    if around.spread == "bad":
        return (
            f"nearly collapsed: uniformity {number(values['uniformity'], 3)} is less than {NEARLY_COLLAPSED:.0%} of "
            f"the {number(around.limit, 3)} that is possible. Look for a missing stop-gradient, too high a learning "
            "rate or temperature."
        )
    if around.few:
        return ""
    if around.rank == "bad":
        return (
            f"dimensions have collapsed: effective rank {number(values['effective_rank'], 3)} is less than "
            f"{FEW_DIRECTIONS:.0%} of {around.directions} directions."
        )
    if values["mean_similarity"] > CONE:
        return f"all embeddings lie in a cone: mean similarity {number(values['mean_similarity'], 3)}, above {CONE:g}."
    return ""
