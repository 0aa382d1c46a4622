"""Random numbers that belong to an image: a pure function of (seed, epoch, view, id, draw).

No generator state to save: a resumed run, another batch size or another number of processes sees the same views. The
mixer is SplitMix64 (Steele et al. 2014) in wrapping 64-bit integers, which every device has.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def uniforms(ids: Tensor, draws: int, *, seed: int, epoch: int, view: int) -> Tensor:
    """(N, draws) numbers in [0, 1): float32, the same for the same image, epoch and view, whoever asks."""
    state = _mix(ids.to(torch.int64) + _signed(_key(seed, epoch, view)))
    steps = torch.arange(1, draws + 1, device=ids.device) * _signed(_GOLDEN)
    return _logical_shift(_mix(state[:, None] + steps), 40).to(torch.float32) * 2.0**-24


def permutation(n: int, *, seed: int, epoch: int, view: int) -> list[int]:
    """An order of n things for a whole epoch and view."""
    key = _key(seed, epoch, view, n)
    return sorted(range(n), key=lambda i: _mix_int((key + (i + 1) * _GOLDEN) & _MASK))


def _key(*parts: int) -> int:
    """One 64-bit number for several."""
    key = 0
    for part in parts:
        key = _mix_int((key + part + _GOLDEN) & _MASK)
    return key


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _logical_shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _logical_shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _logical_shift(x, 31)


def _logical_shift(x: Tensor, by: int) -> Tensor:
    """Shift right and fill with zeros: int64 has no unsigned brother here."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix_int(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _signed(x: int) -> int:
    """The int64 with the bits of an unsigned 64-bit number."""
    return x - (1 << 64) if x >= 1 << 63 else x
