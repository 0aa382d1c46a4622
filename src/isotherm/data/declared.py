"""What a file says it holds, against what it can hold and what the memory can: asked before anything is taken.

A few bytes may declare terabytes, and a packed file may hold a thousand times its size of nothing.
"""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

SMALL = 1 << 28
"""Bytes that nobody minds."""
PACKED = 100
"""Numbers and images are packed to a hundredth at the very best; more is a file made to fill the memory."""


def believable(path: Path | str, size: int, stored: int) -> None:
    """Refuse `size` bytes out of a file, or a part of one, that takes `stored` on the disk."""
    if size > max(SMALL, PACKED * stored):
        raise ValueError(
            f"{path} declares {_gib(size)} and takes {stored:,} bytes on the disk: it is damaged, or made to fill the "
            "memory. It was not read."
        )


def fits(path: Path | str, size: int, advice: str) -> None:
    """Refuse what the free memory cannot hold."""
    free = free_memory()
    if size > max(SMALL, free):
        raise ValueError(f"{path} would take {_gib(size)} of memory, {_gib(free)} are free. {advice}")


def free_memory() -> int:
    """Bytes that can be had without swapping; where nobody knows, all there are."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            told = dict(line.split(":", 1) for line in file)
        return int(told["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def npz_arrays(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and type of each array in a .npz, by name, from their heads; each must be what is in the file."""
    result = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                read = np.lib.format
                first = read.read_magic(file) == (1, 0)
                shape, _, dtype = (read.read_array_header_1_0 if first else read.read_array_header_2_0)(file)
                rest = member.file_size - file.tell()
            name = member.filename.removesuffix(".npy")
            size = math.prod(shape) * dtype.itemsize
            if not dtype.hasobject and (min(shape, default=0) < 0 or size != rest):
                raise ValueError(f"{path} is damaged: '{name}' declares {size:,} bytes, {rest:,} follow. Replace it.")
            believable(path, member.file_size, member.compress_size)
            result[name] = shape, dtype
    return result


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
