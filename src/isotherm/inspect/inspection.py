"""What `isotherm.inspect(array, labels)` gives: the health of an embedding, readable where it is printed or shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotherm.inspect.findings import describe
from isotherm.inspect.health import Health, examine_embedding
from isotherm.inspect.page import page_of
from isotherm.inspect.reading import Embedding, of_arrays, read
from isotherm.report import Finding, Page, number

MARKS = {"good": "✓", "look": "◆", "bad": "✕"}


@dataclass(frozen=True, eq=False)
class Inspection:
    """The health of an embedding, with the embedding itself."""

    health: Health
    embedding: Embedding
    seed: int = 0

    @property
    def values(self) -> Mapping[str, float]:
        """The measures by name."""
        return self.health.values

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What somebody should know, the gravest first."""
        return self.health.findings

    @property
    def temperature(self) -> tuple[float, float] | None:
        """Between which temperatures a loss suits it; None where none does, as `health.advice.reasoning` says."""
        advice = self.health.advice
        return None if advice.low is None or advice.high is None else (advice.low, advice.high)

    def page(self, layout: str = "tsne") -> Page:
        """The page of `isotherm inspect`; `layout` of its map: tsne, pca or none."""
        return page_of(self.health, self.embedding, layout, self.seed)

    def write(self, path: str | Path, layout: str = "tsne") -> Path:
        """Write the page."""
        return self.page(layout).write(path)

    def __repr__(self) -> str:
        health = self.health
        tau = "none recommended" if self.temperature is None else "{:g} to {:g}".format(*self.temperature)
        lines = [f"{health.name}: {health.n:,} items, {health.d:,} dimensions; temperature {tau}"]
        lines += [f"  {MARKS[finding.level]} {finding.text}" for finding in self.findings]
        shown = describe(health)
        width = max(len(row.measure.title) for row in shown)
        lines += [f"  {r.measure.title:{width}}  {number(r.value):>9}  {r.healthy.where}".rstrip() for r in shown]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.page("pca")._repr_html_()  # at once; t-SNE takes seconds


def inspection_of(z: Any, labels: Any, views: Any, name: str, drop: bool, seed: int) -> Inspection:
    """Examine arrays, or the file at a path."""
    if isinstance(z, str | Path):
        embedding = read(z, labels, views, drop=drop, seed=seed)
    else:
        embedding = of_arrays(z, labels, views, name, drop)
    return Inspection(examine_embedding(embedding, seed), embedding, seed)
