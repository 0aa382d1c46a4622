"""What every encoder promises, and the checks at its door."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Sequence
from typing import Any, Self

from torch import Tensor, nn


class Encoder(nn.Module):
    """Pictures (N, C, H, W) in, features (N, width) out."""

    width: int
    """How many features a picture gets."""
    channels: int
    size: int | None = None
    """The edge its pictures must have; None: any."""

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        known = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
        for name in settings:
            if name not in known:
                raise TypeError(f"{cls.__name__} has no setting '{name}'{suggest(name, known)}")
        return super().__new__(cls)

    def check(self, x: Tensor) -> None:
        """Refuse what is not a float batch of this encoder's kind of pictures."""
        name, edge = type(self).__name__, self.size
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} takes a tensor of pictures, got {type(x).__name__}.")
        wanted = f"(N, {self.channels}, {edge or 'H'}, {edge or 'W'})"
        if x.ndim != 4 or x.shape[1] != self.channels or (edge and tuple(x.shape[2:]) != (edge, edge)):
            what = "size" if x.ndim == 4 and x.shape[1] == self.channels else "channels"
            raise ValueError(
                f"{name} was built for pictures {wanted}, got {tuple(x.shape)}. Build it with their {what}."
                if x.ndim == 4
                else f"{name} takes pictures {wanted}, got {tuple(x.shape)}."
            )
        if not x.is_floating_point():
            raise TypeError(f"{name} takes floating-point pictures, got {x.dtype}. A recipe of isotherm.views makes them.")


def at_least(least: int, **counts: int) -> None:
    """Refuse counts that are not whole numbers of this much or more."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number, got {value!r}.")
        if value < least:
            raise ValueError(f"{name} must be {least} or more, got {value}.")


def suggest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; there is: {', '.join(known)}."
