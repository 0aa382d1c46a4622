"""Gradients that have no gradient of their own, and say so.

`torch.autograd.function.once_differentiable` says so only where the upstream gradient is differentiated; the way
through what the forward pass saved is cut in silence, and a second derivative comes out as None.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


def once_differentiable(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """For the `backward` of an autograd function: differentiating its result raises an error."""

    @functools.wraps(backward)
    def once(ctx: Any, *upstream: Tensor) -> Gradients:
        with torch.no_grad():
            gradients = backward(ctx, *upstream)
        if not torch.is_grad_enabled():  # nobody asked for a graph of the gradient
            return gradients
        reached = [t for t in (*upstream, *ctx.saved_tensors) if t is not None and t.requires_grad]
        given = [g for g in gradients if g is not None]
        closed = iter(_End.apply(len(given), *given, *reached))  # type: ignore[no-untyped-call]
        return tuple(None if g is None else next(closed) for g in gradients)

    return once


class _End(torch.autograd.Function):
    """The gradients as they are; nothing leads from them to what they were computed from."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Gradients:
        raise RuntimeError(
            "second derivatives of isotherm's losses are not available: backward computes similarities again and keeps "
            "no graph of them. Write the loss as a dense expression where you need one."
        )
