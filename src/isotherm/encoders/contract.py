"""What every encoder promises, and the checks at its door."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from torch import Tensor, nn

from isotherm.checks import known_settings, parameters


class Encoder(nn.Module):
    """Images (N, C, H, W) in, features (N, width) out."""

    width: int
    """How many features per image gets."""
    channels: int
    size: int | None = None
    """The edge its images must have; None: any."""
    probed: ClassVar[str | None] = None
    """The layer whose features are probed; None: what it gives."""

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        known_settings(cls.__name__, settings, parameters(cls))
        return super().__new__(cls)

    def refuses(self, height: int, width: int) -> str | None:
        """What to do about images of this size, if it cannot take them."""
        return None if self.size is None or height == width == self.size else "Build it with their size"

    def check(self, x: Tensor) -> None:
        """Refuse what is not a float batch of this encoder's kind of images."""
        name = type(self).__name__
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} takes a tensor of images, got {type(x).__name__}.")
        if not x.is_floating_point():
            raise TypeError(
                f"{name} takes floating-point images, got {x.dtype}. A recipe of isotherm.views makes them."
            )
        wrong = None
        if x.ndim != 4:
            wrong = "Give a batch of them"
        elif x.shape[1] != self.channels:
            wrong = "Build it with their channels"
        else:
            wrong = self.refuses(*x.shape[2:])
        if wrong is not None:
            wanted = f"(N, {self.channels}, {self.size or 'H'}, {self.size or 'W'})"
            raise ValueError(f"{name} was built for images {wanted}, got {tuple(x.shape)}. {wrong}.")
