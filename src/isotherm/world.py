"""This process among its peers. The only module that knows `torch.distributed`.

Every process holds its own queries and sees everyone's candidates, with gradient: gathered, or visiting block by
block around a ring (`exchange`), which needs memory for a few blocks and not for the batch. Losses are scaled so that
averaging gradients over processes, as DDP does, gives the gradient of one process holding the whole batch, also when
the local batches differ in size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from isotherm.checks import one_of

Exchange = Literal["gather", "ring"]
"""How candidates come to the processes: all at once, or one process's after another's."""
_exchange: ContextVar[Exchange] = ContextVar("exchange", default="gather")
LOST = ("gloo", "Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL")
"""Words of the errors of a lost connection."""
SAID = "isotherm: said last by"
"""Under this name a process that fails leaves why, for the others to tell."""
ANSWERS = 10.0
"""Seconds that the processes' store has to answer."""
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
    waiting: Callable[[], object] = work.wait
    return waiting


def largest(values: Tensor) -> Tensor:
    """The largest of everyone's numbers, entry by entry. No gradient."""
    if size() > 1:
        values = values.clone()
        dist.all_reduce(values, dist.ReduceOp.MAX)
    return values


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether the flag is up on any process."""
    if size() == 1:
        return flag
    up = torch.tensor([float(flag)], device=device)
    dist.all_reduce(up, dist.ReduceOp.MAX)
    return bool(up.item())


def wait() -> None:
    """Until everyone is here."""
    if size() > 1:
        dist.barrier()


def join(rank: int, size: int, meeting: Path, backend: str = "gloo") -> None:
    """This process becomes one of several on this machine, which meet in a file."""
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=size)


def join_again(restarts: int, backend: str, timeout: timedelta) -> None:
    """This process becomes one of those that torchrun has started anew.

    They meet where those before them did, and must not read the addresses that these left: torch gives them no other
    place (`torch.distributed.rendezvous`), so that whoever is first would call the dead.
    """
    store, rank, size = next(dist.rendezvous("env://", timeout=timeout))  # type: ignore[attr-defined]
    place = dist.PrefixStore(f"restart {restarts}", store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=place, rank=rank, world_size=size, timeout=timeout)


def leave() -> None:
    """This process takes part no longer."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


class Lost(RuntimeError):
    """Another process has gone, or does not answer."""


@contextmanager
def company(timeout: float) -> Iterator[None]:
    """Whatever torch says when another process is lost, said in one sentence, with what that one said last."""
    try:
        yield
    except Exception as error:
        lost = isinstance(error, dist.DistError) or any(word in str(error) for word in LOST)
        if size() == 1 or not (isinstance(error, RuntimeError) and lost):
            if size() > 1:
                last = _first_line(error)
                _in_time(lambda store: store.set(f"{SAID} {rank()}", last))
            raise
        said = _in_time(_said_by_others)
        why = said or f"another process has ended or has not answered for {timeout:g} seconds"
        advice = "With that mended," if said else "Look at what the others said last;"
        raise Lost(
            f"process {rank()} of {size()}: {why}. {advice} the same command with --resume goes on from the last "
            "checkpoint."
        ) from error


def _in_time(act: Callable[[Any], Any]) -> Any:
    """What this gives of the store that the processes share; None if that does not answer in seconds."""
    answers: list[Any] = []

    def ask() -> None:
        with suppress(Exception):  # whoever kept the store is the one that has gone
            answers.append(act(dist.distributed_c10d._get_default_store()))

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWERS)
    return answers[0] if answers else None


def _said_by_others(store: Any) -> str:
    """Which process said why it ended, if one did."""
    for other in range(size()):
        if other != rank() and store.check([f"{SAID} {other}"]):
            return f"process {other} has ended, and said: {store.get(f'{SAID} {other}').decode(errors='replace')}"
    return ""


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [""])[0].rstrip(".")
    return line if isinstance(error, ValueError) else f"{type(error).__name__}: {line}"


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
        result = number.detach().clone()
        dist.all_reduce(result, dist.ReduceOp.MAX)
        return result

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
        for work in self._work:
            work.wait()
        return self.block


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        everyone = rows.contiguous().clone()
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
        dist.all_gather(everyone, padded)
        return torch.cat([part[:n] for part, n in zip(everyone, ctx.counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        start = sum(ctx.counts[: rank()])
        return total(grad)[start : start + ctx.counts[rank()]]
