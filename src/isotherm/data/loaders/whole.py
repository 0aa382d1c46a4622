"""Crops from whole images that are still in their files: batch after batch in order, decoded ahead by processes.

Memory holds the crops of a few batches, whatever the size of the set. Everything drawn is a function of (seed, epoch,
id), and every image has its own place in its batch: how many processes there are changes nothing but the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import NamedTuple, Self

import torch
from torch import Tensor

from isotherm.data.decoding.crops import TRIES, Crop
from isotherm.data.decoding.decoder import Failures, Task
from isotherm.data.decoding.decoders import Decoders, processes
from isotherm.data.images import Images
from isotherm.data.undecoded import Undecoded
from isotherm.streams import uniforms
from isotherm.views.recipes import Recipe

AT_ONCE = 8
"""Images in a task: few enough that the processes end a batch together."""
STAND_INS = 10
"""Images tried in place of one that cannot be decoded."""


class _Started(NamedTuple):
    """A batch that is being decoded."""

    indices: Tensor
    memory: int
    """which part of it"""
    tasks: list[tuple[int, Future[Failures]]]
    """with the first row of each"""


class WholeImages:
    """The processes that decode an epoch's images, and the memory of the batches that are under way."""

    def __init__(self, images: Images, recipe: Recipe, seed: int, epoch: int, most: int, ahead: int) -> None:
        """`most` images make a batch; `ahead` batches are decoded before they are asked for."""
        assert isinstance(images.pixels, Undecoded)
        self._images, self._files, self._recipe = images, images.pixels, recipe
        self._seed, self._epoch = seed, epoch
        every = (*recipe.views, *recipe.small)
        self._crops = tuple(Crop(v.size or images.shape[1], v.scale, v.ratio, v.flip) for v in every if v.scale)
        self._most, self._parts = most, ahead + 1
        self._room = most * sum(3 * crop.size**2 for crop in self._crops)
        self._decoders = Decoders(processes(), self._parts * self._room)

    @staticmethod
    def suit(images: Images, recipe: Recipe) -> bool:
        """Whether the images are in their files, and their views are crops of nothing but them."""
        every = (*recipe.views, *recipe.small)
        return isinstance(images.pixels, Undecoded) and images.overlay is None and all(v.scale for v in every)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._decoders.__exit__(kind, error, at)

    @property
    def pids(self) -> list[int]:
        """Of the processes that decode."""
        return self._decoders.pids

    def batches(self, shares: Iterator[Tensor]) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """For each share of indices: the indices, stand-ins among them, and the crops, uint8 (N, 3, size, size) each.

        The crops lie in shared memory and are overwritten once the next but so many batches are asked for.
        """
        under_way: deque[_Started] = deque()
        number = 0
        while True:
            while len(under_way) < self._parts:
                indices = next(shares, None)
                if indices is None:
                    break
                under_way.append(self._start(indices, number % self._parts))
                number += 1
            if not under_way:
                return
            started = under_way[0]
            yield self._ended(started)
            under_way.popleft()

    def _start(self, indices: Tensor, memory: int) -> _Started:
        step = max(1, min(AT_ONCE, -(-len(indices) // processes())))
        rows = range(0, len(indices), step)
        tasks = [(first, self._submit(indices[first : first + step], memory, first)) for first in rows]
        return _Started(indices, memory, tasks)

    def _submit(self, indices: Tensor, memory: int, first: int) -> Future[Failures]:
        ids = self._images.ids[indices]
        numbers = self._recipe.crop_numbers(ids, TRIES, seed=self._seed, epoch=self._epoch)
        places = [self._files.place(i) for i in indices.tolist()]
        return self._decoders.submit(Task(self._crops, places, numbers.numpy(), self._starts(memory), first))

    def _starts(self, memory: int) -> list[int]:
        starts, at = [], memory * self._room
        for crop in self._crops:
            starts.append(at)
            at += self._most * 3 * crop.size**2
        return starts

    def _ended(self, started: _Started) -> tuple[Tensor, list[Tensor]]:
        indices = started.indices
        for first, task in started.tasks:
            for number, why in task.result():
                indices = indices.clone()
                indices[first + number] = self._stand_in(int(indices[first + number]), why, started, first + number)
        n, crops = len(indices), []
        for crop, start in zip(self._crops, self._starts(started.memory), strict=True):
            piece = self._decoders.memory[start : start + n * 3 * crop.size**2]
            crops.append(torch.from_numpy(piece).view(n, 3, crop.size, crop.size))
        return indices, crops

    def _stand_in(self, index: int, why: str, started: _Started, row: int) -> int:
        """Another image in the place of one that cannot be decoded: a batch keeps its size on every process."""
        damaged, name = self._files.damaged, self._name(index)
        for attempt in range(STAND_INS):
            damaged.tell(name, why, "others stand in for it")
            u = uniforms(self._images.ids[[index]], 2, seed=self._seed, epoch=self._epoch, view=-9 - attempt).double()
            other = int((u[0, 0] + u[0, 1] * 2.0**-24) * len(self._images))
            failures = self._submit(torch.tensor([other]), started.memory, row).result()
            if not failures:
                return other
            name, why = self._name(other), failures[0][1]
        raise ValueError(f"{name} {why}, and so {STAND_INS} others in its place. Look at the files.")

    def _name(self, index: int) -> str:
        return self._files.files.name(int(self._files.rows[index]))
