"""What the processes share: rows, sums, the largest of numbers; with gradient where a loss needs it.

Losses are scaled so that averaging gradients over processes, as DDP does, gives the gradient of one process holding the
whole batch, also when the local batches differ in size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from isotherm.world.presence import waiting


def size() -> int:
    """How many processes train together (1 outside `torch.distributed`)."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is."""
    return dist.get_rank() if size() > 1 else 0


_EQUAL = ContextVar("equal shares", default=False)


@contextmanager
def equal_shares(known: bool = True) -> Iterator[None]:
    """Inside, if that is `known`, everybody brings as many rows as this process, and nobody is asked how many."""
    before = _EQUAL.set(known)
    try:
        yield
    finally:
        _EQUAL.reset(before)


def everyone(numbers: Sequence[int], device: torch.device) -> list[list[int]]:
    """What each process brings, given that this one brings these whole numbers."""
    if size() == 1 or _EQUAL.get():
        return [list(numbers)] * size()
    mine = torch.tensor(list(numbers), device=device)
    result = [torch.zeros_like(mine) for _ in range(size())]
    with waiting:
        dist.all_gather(result, mine)
    return [each.tolist() for each in result]


def counts(n: int, device: torch.device) -> list[int]:
    """How many rows each process holds, given that this one holds `n`."""
    return [each[0] for each in everyone([n], device)]


def gather(rows: Tensor) -> Tensor:
    """Everyone's rows in the order of ranks; the gradient of each row flows back to its owner."""
    return rows if size() == 1 else _Gather.apply(rows)  # type: ignore[no-untyped-call]


def broadcast(tensor: Tensor) -> Tensor:
    """The first process's tensor, on every process. No gradient."""
    if size() > 1:
        tensor = tensor.contiguous()
        with waiting:
            dist.broadcast(tensor, src=0)
    return tensor


def mean(values: Tensor) -> Tensor:
    """The mean over everyone's values: the same number on every process, exact under gradient averaging.

    The gradient on process r is that of (W / N)·Σ local values, with N values on W processes in all, so that
    the average over processes is the gradient of the global mean.
    """
    if size() == 1:
        return values.mean()
    total = sum(counts(len(values), values.device))
    local = values.sum() * (size() / total)
    shared = local.detach().clone()
    with waiting:
        dist.all_reduce(shared)
    return local + (shared / size() - local.detach())


def total(rows: Tensor) -> Tensor:
    """The sum of everyone's tensors; the gradient flows back to all of them."""
    return rows if size() == 1 else _Total.apply(rows)  # type: ignore[no-untyped-call]


def begin_sum(tensor: Tensor) -> Callable[[], object]:
    """Begin to replace a tensor by the sum of everyone's; it is there after the result is called."""
    if size() == 1:
        return lambda: None
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None

    def arrived() -> object:
        with waiting:
            return work.wait()

    return arrived


def largest(values: Tensor) -> Tensor:
    """The largest of everyone's numbers, entry by entry. No gradient."""
    if size() > 1:
        values = values.clone()
        with waiting:
            dist.all_reduce(values, dist.ReduceOp.MAX)
    return values


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether the flag is up on any process."""
    if size() == 1:
        return flag
    up = torch.tensor([float(flag)], device=device)
    with waiting:
        dist.all_reduce(up, dist.ReduceOp.MAX)
        return bool(up.item())


def wait() -> None:
    """Until everyone is here."""
    if size() > 1:
        with waiting:
            dist.barrier()


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        everyone = rows.contiguous().clone()
        with waiting:
            dist.all_reduce(everyone)
        return everyone

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return total(grad)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        ctx.counts = counts(len(rows), rows.device)
        longest = max(ctx.counts)
        padded = rows.new_zeros(longest, *rows.shape[1:])
        padded[: len(rows)] = rows
        everyone = [torch.empty_like(padded) for _ in ctx.counts]
        with waiting:
            dist.all_gather(everyone, padded)
        return torch.cat([part[:n] for part, n in zip(everyone, ctx.counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        start = sum(ctx.counts[: rank()])
        return total(grad)[start : start + ctx.counts[rank()]]
