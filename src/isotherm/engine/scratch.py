"""Buffers that outlive their use: on a processor, the page faults of fresh memory took a third of an engine pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Scratch:
    """Buffers by name, allocated when first asked for and handed out again and again."""

    def __init__(self, like: Tensor) -> None:
        self._like = like.new_empty(0)
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """The buffer `name` in this shape; what it held before is lost."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            with torch.inference_mode(False):  # a buffer born in inference mode could not be written outside it
                buffer = self._buffers[name] = torch.empty(size, dtype=self._like.dtype, device=self._like.device)
        return buffer[:size].view(*shape)

    def fits(self, like: Tensor) -> bool:
        """Whether these buffers have its precision and device."""
        return (self._like.dtype, self._like.device) == (like.dtype, like.device)
