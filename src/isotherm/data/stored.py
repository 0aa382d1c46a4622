"""Files that are read for as long as a run lasts: a change under the reader is a sentence, not wrong data or a crash.

Touching a mapped page that a file no longer has kills the process without a word (SIGBUS). Text is therefore read, not
mapped; arrays of images stay mapped, and whoever takes some of them looks at the file first.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import IO


class Watched:
    """A file as it was when it was opened. One put in its place, by renaming, is another and does not matter."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        file.flush()
        self.path = path
        self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)
        self._state = self._now()

    def check(self) -> None:
        """Refuse to go on with a file that was cut or written to."""
        if self._now() != self._state:
            raise ValueError(f"{self.path} was changed while it was in use. Start again with the file as it is now.")

    def _now(self) -> tuple[int, int]:
        now = os.fstat(self.descriptor)
        return now.st_size, now.st_mtime_ns


def watched(path: Path) -> Watched:
    """The file at a path."""
    with path.open("rb") as file:
        return Watched(file, path)


class Stored(Watched):
    """The bytes of a file, read when they are asked for; several threads may ask at once."""

    def __len__(self) -> int:
        return self._state[0]

    def read(self, start: int, length: int) -> bytes:
        """As many bytes from `start`; fewer only where the file ends."""
        piece = os.pread(self.descriptor, length, start)
        if len(piece) < length and start + len(piece) < len(self):
            self.check()  # cut, most likely; else a signal or a limit of the system came between
            piece += self.read(start + len(piece), length - len(piece)) if piece else b""
        return piece

    def find(self, wanted: bytes, start: int, step: int) -> int:
        """Where a single byte comes next, or the end; `step` bytes are in memory at a time."""
        for at in range(start, len(self), step):
            place = self.read(at, step).find(wanted)
            if place >= 0:
                return at + place
        return len(self)
