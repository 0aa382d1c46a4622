"""What every loader does alike: shuffled as a pure function of (seed, epoch), sharded exactly, resumed anywhere.

Batch b of epoch e is the same in every run with the same seed, on any number of processes, whether or not the run was
interrupted before it. ``for batch in loader`` is one epoch, and the next time the next one.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from isotherm.streams import uniforms
from isotherm.types import Batch

T = TypeVar("T")


@dataclass(frozen=True, eq=False, kw_only=True)
class Dealing(ABC):
    """How batches are dealt out, whatever is in them."""

    shuffle: bool = True
    drop_last: bool = True
    device: torch.device | str = "cpu"
    prefetch: int = 2
    """Batches prepared ahead by a thread; 0: none."""
    rank: int = 0
    world: int = 1
    passes: Iterator[int] = field(default_factory=itertools.count, init=False, repr=False)
    """The epochs of ``for batch in loader``, one after the other; `epoch` asks for one by its number."""

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch(next(self.passes))

    @abstractmethod
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on."""


class Dealer(Protocol):
    """What `dealt` and `check` need to know of a loader."""

    @property
    def batch(self) -> int: ...
    @property
    def drop_last(self) -> bool: ...
    @property
    def prefetch(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...
    def __len__(self) -> int: ...
    def order(self, epoch: int) -> Tensor: ...


def check(loader: Dealer, items: int, name: str, noun: str, advice: str) -> None:
    """Refuse what cannot be dealt out; `advice` says what to do about a batch larger than all there is."""
    if loader.batch < 1:
        raise ValueError(f"a batch holds 1 {noun} or more, got {loader.batch}.")
    if not 0 <= loader.rank < loader.world:
        raise ValueError(f"rank {loader.rank} is not one of {loader.world} processes.")
    if loader.drop_last and loader.batch > items:
        raise ValueError(f"a batch of {loader.batch} is larger than {name} with its {items} {noun}s; {advice}")
    if loader.batch < loader.world:
        raise ValueError(f"a batch of {loader.batch} cannot be shared by {loader.world} processes.")


def dealt(loader: Dealer, make: Callable[[Tensor, int], T], epoch: int, start: int) -> Iterator[T]:
    """The batches of an epoch from `start` on: of each, this process's share of the indices goes to `make`."""
    if not 0 <= start <= len(loader):
        raise ValueError(f"an epoch has {len(loader)} batches; cannot start at {start}.")
    order, size = loader.order(epoch), loader.batch

    def one(number: int) -> T:
        return make(order[number * size : (number + 1) * size].tensor_split(loader.world)[loader.rank], epoch)

    numbers = range(start, len(loader))
    return ahead(one, numbers, loader.prefetch) if loader.prefetch else map(one, numbers)


def batches_of(items: int, batch: int, drop_last: bool) -> int:
    """Batches in an epoch."""
    return items // batch if drop_last else -(-items // batch)


def shuffled(ids: Tensor, seed: int, epoch: int, view: int = -1) -> Tensor:
    """The indices of these ids in an order that belongs to the seed and the epoch."""
    keys = uniforms(ids, 2, seed=seed, epoch=epoch, view=view).double()
    return torch.argsort(keys[:, 0] + keys[:, 1] * 2.0**-24, stable=True)


def ahead(make: Callable[[int], T], numbers: range, depth: int) -> Iterator[T]:
    """make(number) for each number, prepared by a thread up to `depth` in advance; its errors come out here."""
    ready: queue.Queue[T | BaseException | None] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: T | BaseException | None) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def work() -> None:
        try:
            for number in numbers:
                if stop.is_set():
                    return
                put(make(number))
            put(None)
        except BaseException as error:  # handed to the reader, who raises it
            put(error)

    thread = threading.Thread(target=work, daemon=True, name="isotherm-loader")
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
