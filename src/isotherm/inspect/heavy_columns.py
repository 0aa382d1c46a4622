"""A column or a few that outweigh all others: a price in a table of dimensions, an offset, a unit that ran away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

NEARLY_ALL = 0.9
"""Part of the squared length that a few columns must hold to be named."""
FEW = 3
"""Columns that are a few; and no more than an eighth of all."""


def heavy_columns(u: Tensor, names: Sequence[str] = ()) -> dict[str, float]:
    """The columns that hold nearly all of the squared length of unit rows, and the part of it that each holds.

    The fewest that do; none where it takes more than a few. `names` are the columns', where they have any.
    """
    parts = u.double().square().mean(0)
    largest = parts.sort(descending=True)
    held = largest.values.cumsum(0)
    count = int((held < NEARLY_ALL).sum()) + 1
    if count > min(FEW, u.shape[1] // 8):
        return {}
    which = largest.indices[:count].tolist()
    return {names[i] if names else str(i): float(parts[i]) for i in which}


def told(heavy: Mapping[str, float]) -> str:
    """Which columns these are and what they hold, as the beginning of a sentence."""
    names = [f"'{name}'" if not name.isdecimal() else name for name in heavy]
    total = sum(heavy.values())
    part = "nearly all" if total > 0.995 else f"{total:.0%}"
    if len(names) == 1:
        return f"column {names[0]} holds {part} of the squared length"
    return f"columns {', '.join(names[:-1])} and {names[-1]} hold {part} of the squared length"
