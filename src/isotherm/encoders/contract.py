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
        name = type(self).__name__
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} takes a tensor of pictures, got {type(x).__name__}.")
        if not x.is_floating_point():
            raise TypeError(
                f"{name} takes floating-point pictures, got {x.dtype}. A recipe of isotherm.views makes them."
            )
        wrong = None
        if x.ndim != 4:
            wrong = "Give a batch of them"
        elif x.shape[1] != self.channels:
            wrong = "Build it with their channels"
        elif self.size is not None and tuple(x.shape[2:]) != (self.size, self.size):
            wrong = "Build it with their size"
        if wrong is not None:
            wanted = f"(N, {self.channels}, {self.size or 'H'}, {self.size or 'W'})"
            raise ValueError(f"{name} was built for pictures {wanted}, got {tuple(x.shape)}. {wrong}.")


def at_least(least: int, **counts: int) -> None:
    """Refuse counts that are not whole numbers of this much or more."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number, got {value!r}.")
        if value < least:
            raise ValueError(f"{name} must be {least} or more, got {value}.")


def suggest(name: str, known: Sequence[str], listed: Sequence[str] | None = None) -> str:
    """The end of a sentence about an unknown name: the nearest known one, else all of them, or those to be `listed`."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    listed = known if listed is None else listed
    return f"; there is: {', '.join(listed)}." if listed else "."
