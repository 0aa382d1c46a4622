"""The self-check: before a kernel is used, it is compared with the plain path on this very device."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from isotherm.engine.device import jobs, launch
from isotherm.engine.masks import Mask, Nothing, Periodic, Same, Unlike
from isotherm.engine.tiles import tiled
from isotherm.types import Pairs

SIZES = {"cuda": (257, 300), "cpu": (33, 20)}  # rows, and columns of what is not square; an interpreter is slow
NEAREST = 5
VALUES, GRADIENTS, COARSE = 1e-5, 1e-4, 1e-2
"""How far values and gradients may be apart, relative to the largest; `COARSE` for both in tf32."""
outcomes: dict[tuple[object, ...], str | None] = {}
"""What the self-check has said so far of each kind of job: None, or what was wrong."""


def passes(job: jobs.Job, device: torch.device) -> bool:
    """Whether the kernels of this job have been seen to agree with the plain path; looked at once per process.

    Raises `RuntimeError` where they do not. In inference mode there are no gradients to look at: not yet.
    """
    key = (str(device), job.key)
    if key not in outcomes and torch.is_inference_mode_enabled():
        return False
    if key not in outcomes:
        try:
            with torch.autocast(device.type, enabled=False):
                outcomes[key] = _difference(job, device)
        except Exception as error:
            outcomes[key] = f"{type(error).__name__}: {error}"
    outcome = outcomes[key]
    if outcome is not None:
        raise RuntimeError(outcome)
    return True


def _difference(job: jobs.Job, device: torch.device) -> str | None:
    reduction = replace(job.reduction, where=None)  # type: ignore[type-var]
    results = []
    top_k = None if job.top_k is None else NEAREST
    for by_kernels in (False, True):
        pairs = _pairs(job, device)
        if by_kernels:
            small = jobs.plan(pairs, reduction, top_k)
            assert small is not None
            with torch.enable_grad():
                value = launch.run(small, pairs)
        else:
            with torch.enable_grad():
                (value,) = tiled(pairs, (reduction,), top_k)
        inputs = [t for t in (pairs.queries, pairs.candidates) if t is not None]
        learnable = [p for f in reduction.functions for p in f.parameters if p.requires_grad]
        upstream = torch.linspace(0.5, 1.5, len(value), device=device)
        gradients = torch.autograd.grad(value, [*inputs, *learnable], upstream, retain_graph=True, allow_unused=True)
        results.append((value.detach(), gradients))
    (value, gradients), (ours, our_gradients) = results
    coarse = job.precision == "tf32"
    for what, a, b, limit in [
        ("values", value, ours, COARSE if coarse else VALUES),
        *(
            ("gradients", a, b, COARSE if coarse else GRADIENTS)
            for a, b in zip(gradients, our_gradients, strict=True)
            if a is not None and b is not None
        ),
    ]:
        apart = _apart(a, b)
        if not apart <= limit:
            return f"the self-check found {what} {apart:.1e} apart on {device}, and {limit:g} is allowed"
    return None


def _apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / a.abs().max().clamp_min(1e-30))


def _pairs(job: jobs.Job, device: torch.device) -> Pairs:
    """A small block of the same kind."""
    generator = torch.Generator().manual_seed(0)
    rows, columns = SIZES[device.type]
    if job.symmetric or job.mutual:
        columns = rows
    z = torch.nn.functional.normalize(torch.randn(rows + columns, job.width, generator=generator), dim=1).to(device)
    queries = z[:rows].clone().requires_grad_()
    candidates = None if job.symmetric else z[rows:].clone().requires_grad_()
    mask = _mask(job, rows, columns, device)
    return Pairs(queries, candidates, queries.new_zeros(rows, 1), mask, 1, mutual=job.mutual)


def _mask(job: jobs.Job, rows: int, columns: int, device: torch.device) -> Mask:
    row, column = (torch.arange(size, device=device) for size in (rows, columns))
    itself: Mask = Nothing()
    if job.hidden.period is not None:
        itself = Periodic(17)
    elif job.hidden.items is not None:
        itself = Same(row % 17, column % 17)
    return itself if job.hidden.labels is None else Unlike(Same(row % 3, column % 3), itself)
