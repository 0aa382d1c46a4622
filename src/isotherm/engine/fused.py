"""Whether fused kernels compute the sums: on a GPU, for functions and masks they know, once they have proved exact.

``ISOTHERM_KERNELS`` says otherwise: ``plain`` never; ``triton`` also raises where they ought to work and do not, and
takes them on a processor when triton interprets (``TRITON_INTERPRET=1``), for tests; ``auto`` is the default.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings

import numpy as np
import torch
from torch import Tensor

from isotherm import extras
from isotherm.checks import one_of
from isotherm.engine.reductions import Reduction
from isotherm.engine.visits import visited
from isotherm.types import Pairs

CHOICES = ("auto", "plain", "triton")
_said: list[str] = []
WIDEST = 256  # beyond, a row's gradient does not fit the registers


def fused(pairs: Pairs, reductions: tuple[Reduction, ...], top_k: int | None) -> tuple[Tensor, ...] | None:
    """The sums by kernels; None: by the plain path."""
    queries = pairs.queries
    choice = one_of("ISOTHERM_KERNELS", os.environ.get("ISOTHERM_KERNELS", "auto").lower(), CHOICES)
    interpreted = choice == "triton" and os.environ.get("TRITON_INTERPRET") == "1"
    if choice == "plain" or not (queries.device.type == "cuda" or interpreted):
        return None
    if queries.dtype != torch.float32 or queries.shape[1] > WIDEST:
        return None
    if top_k is not None and pairs.visitors is not None:
        return None
    if _unavailable():
        if choice == "triton":
            raise RuntimeError(f"ISOTHERM_KERNELS=triton needs triton: {_unavailable()}. {extras.command('kernels')}.")
        _warn(_unavailable())
        return None
    from isotherm.engine.device import check, jobs, launch, visits  # noqa: PLC0415 - triton takes most of a second

    try:
        wanted = []
        for reduction in reductions:
            if pairs.visitors is not None:
                both = visits.planned(pairs, reduction)
            else:
                job = jobs.plan(pairs, reduction, top_k)
                both = None if job is None else [job]
            if both is None or not all(check.passes(job, queries.device) for job in both):
                return None
            wanted.append(both[0])
    except Exception as error:  # a compiler, a driver, a device: whatever it is, the plain path is there
        if choice == "triton":
            raise
        _warn(f"{type(error).__name__}: {error}")
        return None
    if pairs.visitors is not None:
        return visited(pairs, visits.Kernels(pairs, wanted))
    return tuple(launch.run(job, pairs) for job in wanted)


@functools.cache
def _unavailable() -> str:
    """Why there are no kernels at all; empty if there are."""
    try:
        triton = importlib.import_module("triton")
        why = unsuitable(triton.__version__, np.__version__, os.environ.get("TRITON_INTERPRET") == "1")
        if not why:
            importlib.import_module("isotherm.engine.device.launch")
        return why
    except ImportError as error:
        return str(error)


def unsuitable(triton: str, numpy: str, interpreted: bool) -> str:
    """Why the kernels do not run with these versions; empty if they should.

    3.2 brought the products of three TF32; 3.9 is what our tests run. The interpreter of 3.5 fails under numpy 2.4,
    that of 3.9 does not; what lies between has not been tried.
    """
    if _version(triton) < (3, 2):
        return f"triton {triton} is installed, and 3.2 or later is needed"
    if interpreted and _version(triton) < (3, 9) and _version(numpy) >= (2, 4):
        return (
            f"the interpreter of triton {triton} does not run under numpy {numpy}: take triton 3.9 or numpy below 2.4"
        )
    return ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def _warn(why: str) -> None:
    """Say once why the kernels are not used."""
    if _said:
        return
    _said.append(why)
    warnings.warn(
        f"isotherm's fused kernels are not used, the plain path is ({why}). "
        "ISOTHERM_KERNELS=plain silences this, ISOTHERM_KERNELS=triton makes it an error.",
        RuntimeWarning,
        stacklevel=2,
    )
