"""A process that decodes: it is asked on its standard input and puts crops into memory that it shares with who asks.

It knows nothing but places of files and numbers, imports no torch, and ends when its input does: whoever started it may
be killed at any moment. `decoders` starts it, as ``python -m isotherm.data.decoding.decoder DESCRIPTOR``.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotherm.data.decoding.crops import Crop, take_crops
from isotherm.data.decoding.one_image import undecodable
from isotherm.data.shards import Shard, read_part


class Place(NamedTuple):
    """Where the bytes of an image are: a file, or a part of a shard."""

    file: Path | Shard
    start: int = 0
    size: int = 0

    def read(self) -> bytes:
        return self.file.read_bytes() if isinstance(self.file, Path) else read_part(self.file, self.start, self.size)


class Task(NamedTuple):
    """Some images to be decoded, and where their crops go."""

    crops: tuple[Crop, ...]
    places: list[Place]
    draws: NDArray[np.float32]
    """(images, crops, numbers)"""
    starts: list[int]
    """of the memory that is shared: where the crops of one kind begin"""
    first: int
    """of these images, in each"""


Failures = list[tuple[int, str]]
"""Which images of a task could not be decoded, and what is wrong with them."""


def decode(task: Task, memory: NDArray[np.uint8]) -> Failures:
    """Put the crops of a task's images into the memory."""
    failures: Failures = []
    for number, (place, draws) in enumerate(zip(task.places, task.draws, strict=True)):
        try:
            views = take_crops(place.read(), task.crops, draws)
        except Exception as error:  # Pillow's readers raise nearly anything on a broken image
            failures.append((number, undecodable(error)))
            continue
        for crop, start, view in zip(task.crops, task.starts, views, strict=True):
            at = start + (task.first + number) * view.size
            memory[at : at + view.size].reshape(3, crop.size, crop.size)[:] = view
    return failures


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks is interrupted, and closes the input
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nobody else writes among the answers
    memory = np.frombuffer(mmap.mmap(int(sys.argv[1]), 0), np.uint8)
    with answers:
        while True:
            try:
                task: Task = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            pickle.dump(decode(task, memory), answers)
            answers.flush()


if __name__ == "__main__":
    main()
