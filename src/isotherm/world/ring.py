"""Candidates that visit: one process's rows after another's, around a ring, instead of everyone's at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from isotherm.checks import one_of
from isotherm.world.collectives import counts, largest, rank, size, total
from isotherm.world.presence import waiting

Exchange = Literal["gather", "ring"]
"""How candidates come to the processes: all at once, or one process's after another's."""
_exchange: ContextVar[Exchange] = ContextVar("exchange", default="gather")
GRADIENTS = 1  # the tag of the messages that carry them around a ring


@contextmanager
def exchange(how: Exchange) -> Iterator[None]:
    """How the losses evaluated inside see the candidates of other processes (their backward pass keeps it).

    Results do not depend on it beyond rounding. ``ring`` needs memory for one's own rows and two visiting blocks of
    them, where ``gather`` needs it for everyone's rows.
    """
    token = _exchange.set(one_of("exchange", how, get_args(Exchange)))
    try:
        yield
    finally:
        _exchange.reset(token)


def by_ring() -> bool:
    """Whether candidates visit instead of being gathered."""
    return size() > 1 and _exchange.get() == "ring"


class Ring:
    """This process's rows on their way around all processes; each block meets everyone's queries, and comes home.

    At step t process r is visited by the rows of process r − t. They are passed on to r + 1 while they are worked on,
    so that at most two blocks of others are here. In the backward pass a block's gradient follows it, one step behind;
    the last process it visits is the one before its home.
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.counts = counts(len(rows), rows.device)

    def visit(self, rows: Tensor, see: Callable[[int, Tensor], None]) -> None:
        """Show this process the rows of every other one: `see(rank, rows)`."""
        coming = self._start(1, rows)
        for step in range(1, size()):
            block = coming.arrived()
            if step + 1 < size():
                coming = self._start(step + 1, block)
            see(self._guest(step), block)

    def carry(self, rows: Tensor, see: Callable[[int, Tensor, Tensor], None]) -> Tensor:
        """The same with a gradient for each block, to which `see(rank, rows, gradient)` adds; returns one's own."""
        coming = self._start(1, rows)
        gradient = torch.zeros_like(coming.block)
        for step in range(1, size()):
            block = coming.arrived()
            if step + 1 < size():
                coming = self._start(step + 1, block)
            see(self._guest(step), block, gradient)
            gradient = self._start(step + 1, gradient, GRADIENTS).arrived()
        return gradient

    def total(self, rows: Tensor) -> Tensor:
        """The sum of everyone's tensors, with gradient."""
        return total(rows)

    def largest(self, number: Tensor) -> Tensor:
        """The largest of everyone's numbers."""
        return largest(number.detach())

    def _guest(self, step: int) -> int:
        """Whose rows are here at this step; after the last one, one's own are."""
        return (rank() - step) % size()

    def _start(self, step: int, block: Tensor, tag: int = 0) -> _Coming:
        """Pass a block on, and receive the one of this step."""
        return _Coming(block, block.new_empty(self.counts[self._guest(step)], *block.shape[1:]), tag)


class _Coming:
    """A block on its way here, while another one leaves."""

    def __init__(self, leaving: Tensor, block: Tensor, tag: int) -> None:
        self.block, self._leaving = block, leaving.contiguous()
        after, before = (rank() + 1) % size(), (rank() - 1) % size()
        self._work = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, self._leaving, after, tag=tag), dist.P2POp(dist.irecv, block, before, tag=tag)]
        )

    def arrived(self) -> Tensor:
        with waiting:
            for work in self._work:
                work.wait()
        return self.block
