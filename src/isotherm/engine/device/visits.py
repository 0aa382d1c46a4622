"""Kernels for candidates that visit from other processes (`isotherm.engine.visits`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from isotherm.engine.device.jobs import Hidden, Job, plan
from isotherm.engine.device.launch import add, pull
from isotherm.engine.masks import away
from isotherm.engine.reductions import Gradient, Reduction
from isotherm.engine.tiles import Slopes
from isotherm.engine.visits import Part
from isotherm.types import Pairs, Visitors


class Kernels:
    """The sums of a block by kernels, one's own or a visitor's."""

    fixed = False

    def __init__(self, pairs: Pairs, jobs: Sequence[Job]) -> None:
        self._jobs = tuple(jobs)
        self._masks = [job.reduction.where or pairs.hidden for job in jobs]
        self.reductions = tuple(job.reduction for job in jobs)
        self.parameters = tuple(job.scale for job in jobs if job.scale is not None)
        functions = [f for r in self.reductions for f in (*r.functions, *r.constants)]
        self.constants = tuple(p for f in functions for p in f.parameters)

    def prepare(self, visitors: Visitors, queries: Tensor, others: Tensor, rows: Tensor) -> None:
        pass

    def add(self, rank: int | None, queries: Tensor, others: Tensor) -> list[Part]:
        jobs = [self._for(i, rank) for i in range(len(self._jobs))]
        return [Part(*add(job, queries.contiguous(), others.contiguous())) for job in jobs]

    def pull(self, rank: int | None, queries: Tensor, others: Tensor, asking: Sequence[Gradient], to: Slopes) -> None:
        dq, dc, dp = to
        learnable = 0
        for i, asked in enumerate(asking):
            job = self._for(i, rank)
            candidates = None if job.symmetric else others.contiguous()
            said = (asked.upstream.contiguous(), asked.log_mass, asked.value)
            more_q, more_c, learned = pull(job, queries.contiguous(), candidates, said, dc is not None)
            if dq is not None:
                dq += more_q
            if dc is not None and more_c is not None:
                dc += more_c
            if job.learn:
                before = dp[learnable]
                dp[learnable] = learned if before is None else before + learned
                learnable += 1

    def refuse_changed(self, like: Tensor) -> None:
        """What kernels read is saved for backward, and torch sees to it."""

    def _for(self, i: int, rank: int | None) -> Job:
        return self._jobs[i] if rank is None else visiting(self._jobs[i], self._masks[i], rank)


def visiting(job: Job, mask: object, rank: int) -> Job:
    """The job for the candidates of another process."""
    hidden = Hidden.of(away(mask, rank))  # type: ignore[arg-type]
    assert hidden is not None
    return replace(job, symmetric=False, hidden=hidden)


def planned(pairs: Pairs, reduction: Reduction) -> list[Job] | None:
    """The job for one's own candidates, and one for a visitor's, which differs in kind."""
    job = plan(pairs, reduction, None)
    return None if job is None else [job, visiting(job, reduction.where or pairs.hidden, 0)]
