"""An array in a file that has not been read yet, and the names by which arrays are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
LABEL_KEYS = ("labels", "label", "y", "targets", "target", "class")
FLOATS = "its float columns"
"""The key of an embedding that has a column a dimension."""


@dataclass(frozen=True)
class Column:
    """An array in a file that has not been read yet."""

    shape: tuple[int, ...]
    take: Callable[[Array | None], Any]
    """The given rows (all of them for None), as an array or a tensor."""
    refusal: str | None = None
    """Why it cannot be taken."""
    dimensions: tuple[str, ...] = ()
    """Of a table with a column a dimension: their names."""

    def without(self, name: str) -> Column:
        """The same but for one dimension, which turned out to be something else."""
        if name not in self.dimensions:
            return self
        kept = [i for i, dimension in enumerate(self.dimensions) if dimension != name]
        shape, names = (self.shape[0], len(kept)), tuple(self.dimensions[i] for i in kept)
        return Column(shape, lambda rows: self.take(rows)[:, kept], self.refusal, names)


def at_hand(values: Any) -> Column:
    """A column that is in memory, or mapped into it."""
    return Column(tuple(values.shape), lambda rows: values if rows is None else values[rows])
