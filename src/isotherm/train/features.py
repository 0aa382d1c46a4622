"""Features of a locked tower: made once, kept on disk by what they were made of, and mapped into memory from there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isotherm import files, world
from isotherm.data import roots

ROWS = 512
"""Rows made at a time."""


def kept(
    what: tuple[object, ...], rows: int, width: int, make: Callable[[Tensor], Tensor], everyone: bool = False
) -> Tensor:
    """float32 (rows, width): what `make` gives for indices, from disk if it was made before of the same.

    `what` says of what: the data's fingerprint, the digest of the weights, and how the items are shown. Where
    `everyone` asks, as all processes do before training, the first makes them and the others wait.
    """
    key = hashlib.sha256(repr((what, rows, width)).encode()).hexdigest()[:24]
    path = roots.features() / f"{key}.npy"
    if everyone:
        if world.rank() == 0 and _mapped(path, rows, width) is None:
            _write(path, rows, width, make)
        world.wait()
    features = _mapped(path, rows, width)
    if features is None:  # nobody made them, or on another machine, whose disk is its own
        _write(path, rows, width, make)
        features = _mapped(path, rows, width)
    assert features is not None
    return features


def _mapped(path: Path, rows: int, width: int) -> Tensor | None:
    """The features of a file; None where there is none, or one that is not whole."""
    try:
        array = np.load(path, mmap_mode="c")
    except (OSError, ValueError, EOFError):
        return None
    return torch.from_numpy(array) if array.shape == (rows, width) and array.dtype == np.float32 else None


def _write(path: Path, rows: int, width: int, make: Callable[[Tensor], Tensor]) -> None:
    part = files.beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        array = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=(rows, width))
        for indices in torch.arange(rows).split(ROWS):
            array[indices.numpy()] = make(indices).float().cpu().numpy()
        array.flush()
        del array
        os.replace(part, path)
    except OSError as error:
        raise files.DiskFull(
            f"cannot keep the features of a locked tower in {path.parent}: {files.reason(error)}. Set XDG_CACHE_HOME "
            "to a folder with room."
        ) from error
    finally:
        part.unlink(missing_ok=True)
