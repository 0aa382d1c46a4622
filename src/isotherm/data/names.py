"""Many names in one piece of memory: a million Python strings would take ten times theirs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class Names:
    """A sequence of strings that is never changed: their bytes one after another, and where each ends."""

    def __init__(self, names: Iterable[str]) -> None:
        parts = [name.encode("utf-8", "surrogateescape") for name in names]
        self._bytes = b"".join(parts)
        self._ends: NDArray[np.int64] = np.cumsum([len(part) for part in parts], dtype=np.int64)

    @classmethod
    def join(cls, parts: Iterable[Names]) -> Names:
        """All of these, one after another."""
        every = list(parts)
        joined = cls(())
        joined._bytes = b"".join(part._bytes for part in every)
        starts = np.cumsum([0, *(len(part._bytes) for part in every)])
        ends = [part._ends + start for part, start in zip(every, starts[:-1], strict=True)]
        joined._ends = np.concatenate(ends) if ends else joined._ends
        return joined

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(f"there are {len(self)} names, no row {row}")
        start = int(self._ends[row - 1]) if row else 0
        return self._bytes[start : int(self._ends[row])].decode("utf-8", "surrogateescape")
