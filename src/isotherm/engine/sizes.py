"""How large a tile is, by device: on a processor it fits the cache, on a GPU it outlasts its launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

TILE = 512  # rows and columns; 1 MB of float32 stays in the second-level cache (docs/benchmarks.md)
STRIP = 1 << 20  # entries of a strip of whole rows, where a row's k-th largest is needed …
ROWS = 32  # … but at least this many rows, below which the matrix product is slow
GPU_TILE, GPU_LARGE_TILE = 2048, 4096  # a launch takes some 8 µs, as long as a product of 512 × 512 (docs/gpu.md)
GPU_LARGE = 16_384  # rows from which on the larger tile keeps the launches few
GPU_STRIP = 1 << 25
BUFFERS = 8  # tiles that exist at once, at most
SHARE = 8  # … in this part of the memory that is free

_edge: ContextVar[int | None] = ContextVar("edge", default=None)


@contextmanager
def tile_size(edge: int) -> Iterator[None]:
    """Set the edge of the tiles for the losses evaluated inside (their backward pass keeps it).

    Results do not depend on it beyond rounding; memory is a few times edge² numbers.
    """
    if edge < 1:
        raise ValueError(f"a tile's edge is 1 or more, got {edge}.")
    token = _edge.set(edge)
    try:
        yield
    finally:
        _edge.reset(token)


def tile_edge(device: torch.device, rows: int) -> int:
    """Rows and columns of a tile, for a matrix of so many rows."""
    return _edge.get() or (TILE if device.type == "cpu" else gpu_tile(rows, _free_memory(device)))


def strip_height(device: torch.device, columns: int) -> int:
    """Rows of a strip of whole rows."""
    return _edge.get() or max(ROWS, (STRIP if device.type == "cpu" else GPU_STRIP) // columns)


def gpu_tile(rows: int, free: int | None) -> int:
    """The edge for a device with so many free bytes (None: nobody knows)."""
    edge = GPU_TILE if rows <= GPU_LARGE else GPU_LARGE_TILE
    while free is not None and edge > TILE and BUFFERS * 4 * edge**2 * SHARE > free:
        edge //= 2
    return edge


def blocks(size: int, step: int) -> list[slice]:
    return [slice(i, min(i + step, size)) for i in range(0, size, step)]


def _free_memory(device: torch.device) -> int | None:
    """What the device has left, with what torch keeps for itself and does not use."""
    if device.type != "cuda":
        return None
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept
