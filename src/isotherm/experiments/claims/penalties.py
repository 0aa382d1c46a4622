"""Relative penalties on real similarities: their entropy, and the closed forms of the gradients (Wang & Liu §3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from isotherm.experiments.claims.decision import exact
from isotherm.experiments.claims.verdict import Verdict, undecided
from isotherm.experiments.study import ArmName

if TYPE_CHECKING:
    from isotherm.experiments.records import Floats, Record, Records


@dataclass(frozen=True)
class EntropyRises:
    """On the similarities of every run, H(r) strictly rises with the temperature for every query."""

    arm: ArmName
    temperatures: Sequence[float]
    measures = ()

    def judge(self, records: Records) -> Verdict:
        rows, smallest = [], math.inf
        for record in with_embeddings(records, self.arm):
            entropies = np.stack([entropy(similarities(record), t) for t in self.temperatures])
            smallest = min(smallest, float(np.diff(entropies, axis=0).min()))
            rows.append([round(float(v), 4) for v in entropies.mean(1)])
        if not rows:
            return undecided("no embeddings are at hand", "the folders of the runs")
        temperatures = list(self.temperatures)
        what = "the smallest step of H(r) from one temperature to the next, over all queries"
        return exact(what, smallest, smallest > 0, 0.0, temperatures=temperatures, mean_entropy=rows)


@dataclass(frozen=True)
class GradientsAgree:
    """The closed forms of eq. 4 and 5 and of ∂H/∂(1/τ) (supplement, eq. 6) are what autograd finds."""

    arm: ArmName
    temperatures: Sequence[float]
    within: float = 1e-8
    measures = ()

    def judge(self, records: Records) -> Verdict:
        worst, runs = 0.0, 0
        for record in with_embeddings(records, self.arm):
            runs += 1
            s = similarities(record)[:64]
            worst = max(worst, *(closed_forms(s, t) for t in self.temperatures))
        if not runs:
            return undecided("no embeddings are at hand", "the folders of the runs")
        what = "the largest relative difference of the closed forms from autograd"
        return exact(what, worst, worst <= self.within, self.within, bound=True, runs=runs)


def with_embeddings(records: Records, arm: str) -> Iterator[Record]:
    """Runs of an arm whose embeddings are at hand."""
    for record in records.at(arm):
        if record.embedding.exists():
            yield record
        else:
            records.lacks(record, "has its embeddings elsewhere: only its record is here")


def similarities(record: Record) -> Floats:
    """Each kept item's similarities to all others, (n, n − 1), in float64."""
    with np.load(record.embedding) as kept:
        z = kept["z"].astype(np.float64)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    s = z @ z.T
    others: Floats = s[~np.eye(len(s), dtype=bool)].reshape(len(s), len(s) - 1)
    return others


def entropy(s: Floats, temperature: float) -> Floats:
    """H(r) of each query, in nats."""
    e = s / temperature
    e -= e.max(1, keepdims=True)
    r = np.exp(e)
    total = r.sum(1)
    nats: Floats = np.log(total) - (r * e).sum(1) / total
    return nats


def closed_forms(s: Floats, temperature: float) -> float:
    """The largest difference, relative to the largest value, of the papers' closed forms from autograd.

    Query i's first column stands for its positive. ∂L/∂s_p = −(1/τ) Σ P, ∂L/∂s_j = P_j/τ (Wang & Liu eq. 4 and 5);
    ∂H/∂(1/τ) = −β Var_r(s) with β = 1/τ, which is the supplement's eq. 6.
    """
    import torch

    x = torch.tensor(s, requires_grad=True)
    beta = torch.tensor(1 / temperature, dtype=torch.float64, requires_grad=True)
    losses = torch.logsumexp(x * beta.detach(), 1) - x[:, 0] * beta.detach()
    (slopes,) = torch.autograd.grad(losses.sum(), x)
    p = torch.softmax(x.detach() / temperature, 1)
    expected = p / temperature
    expected[:, 0] = -(1 - p[:, 0]) / temperature
    r = torch.softmax(x.detach() * beta, 1)
    entropies = -(r * torch.log_softmax(x.detach() * beta, 1)).sum(1)
    (slope,) = torch.autograd.grad(entropies.sum(), beta)
    with torch.no_grad():
        mean = (r * x).sum(1, keepdim=True)
        variance = (r * (x - mean).square()).sum(1)
        closed = -(variance / temperature).sum()
        first = float((slopes - expected).abs().max() / expected.abs().max())
        second = float((slope - closed).abs() / closed.abs().clamp_min(1e-12))
    return max(first, second)
