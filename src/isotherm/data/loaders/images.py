"""Deals images out: shuffled as a pure function of (seed, epoch), sharded exactly, resumed anywhere.

No hidden state. Batch b of epoch e is the same images and the same views in every run with the same seed, on any
number of processes, whether or not the run was interrupted before it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from isotherm.data.images import Images
from isotherm.data.probing import append_bits
from isotherm.streams import uniforms
from isotherm.types import Batch
from isotherm.views.recipes import Recipe


@dataclass(frozen=True, eq=False)
class Loader:
    """Batches of views of a set of images.

    `batch` counts images over all processes; this process, `rank` of `world`, gets its share of each batch, and the
    shares of all of them together are the batch of one process, in order.
    """

    images: Images
    recipe: Recipe
    batch: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = True
    device: torch.device | str = "cpu"
    prefetch: int = 2
    """Batches prepared ahead by a thread; 0: none."""
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a batch holds 1 image or more, got {self.batch}.")
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank {self.rank} is not one of {self.world} processes.")
        if self.drop_last and self.batch > len(self.images):
            raise ValueError(
                f"a batch of {self.batch} is larger than {self.images.name} with its {len(self.images)} images; "
                "use a smaller batch or keep the last, incomplete one (drop_last=False)."
            )
        if self.batch < self.world:
            raise ValueError(f"a batch of {self.batch} cannot be shared by {self.world} processes.")

    def __len__(self) -> int:
        """Batches in an epoch."""
        return batches_of(len(self.images), self.batch, self.drop_last)

    def order(self, epoch: int) -> Tensor:
        """The indices of the images in this epoch's order."""
        return shuffled(self.images.ids, self.seed, epoch) if self.shuffle else torch.arange(len(self.images))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on."""
        return dealt(self, self._batch, epoch, start)

    def _batch(self, indices: Tensor, epoch: int) -> Batch:
        pixels = self.images.pixels[indices].to(self.device, non_blocking=True)
        ids = self.images.ids[indices].to(self.device)
        views = self.recipe(pixels, ids, seed=self.seed, epoch=epoch)
        views = [append_bits(view, self.images, indices) for view in views]
        return Batch(views, self.images.labels[indices].to(self.device), indices.to(self.device))


class Dealer(Protocol):
    """What `dealt` needs to know of a loader."""

    @property
    def batch(self) -> int: ...
    @property
    def prefetch(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...
    def __len__(self) -> int: ...
    def order(self, epoch: int) -> Tensor: ...


def dealt(loader: Dealer, make: Callable[[Tensor, int], Batch], epoch: int, start: int) -> Iterator[Batch]:
    """The batches of an epoch from `start` on: of each, this process's share of the indices goes to `make`."""
    if not 0 <= start <= len(loader):
        raise ValueError(f"an epoch has {len(loader)} batches; cannot start at {start}.")
    order, size = loader.order(epoch), loader.batch

    def one(number: int) -> Batch:
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


def ahead(make: Callable[[int], Batch], numbers: range, depth: int) -> Iterator[Batch]:
    """make(number) for each number, prepared by a thread up to `depth` in advance; its errors come out here."""
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: Batch | BaseException | None) -> None:
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
