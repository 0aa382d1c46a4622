"""Arrays of numbers in a MATLAB 5 file, and nothing else of it. scipy's reader crashes on damaged files."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isotherm.data.declared import believable

HEAD = 128
"""Bytes before the first element."""
MATRIX, COMPRESSED = 14, 15
"""Types of elements."""
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""How numbers are stored, by the type of their element."""
MEANT = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""What they are, by the class of their array; MATLAB stores whole numbers in as few bytes as they need."""
COMPLEX = 0x0800
PEEK = 256
"""Bytes of a compressed element that tell how long it is."""


def arrays(path: Path, wanted: Collection[str]) -> dict[str, NDArray[np.generic]]:
    """The arrays of these names; a ValueError says what is wrong with the file."""
    size = path.stat().st_size
    if size <= HEAD:
        raise ValueError("it is too short")
    data = np.memmap(path, np.uint8, "r").data
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[HEAD - 2 : HEAD]))
    if order is None:
        raise ValueError("its head is not of MATLAB 5")
    found = {}
    for packed, content in _elements(data[HEAD:], order, padded=False):
        inside = _inflated(content, order, path, size) if packed == COMPRESSED else None
        for kind, plain in [(packed, content)] if inside is None else _elements(inside, order):
            name, array = _array(plain, order, path, size, wanted) if kind == MATRIX else ("", None)
            if array is not None:
                found[name] = array
    return found


def _elements(data: memoryview, order: str, padded: bool = True) -> Iterator[tuple[int, memoryview]]:
    """The type and content of one element after another; compressed ones are not filled up to eights."""
    while len(data) >= 8:
        kind, length = struct.unpack(f"{order}II", data[:8])
        if kind >> 16:  # a small one: four bytes beside its tag
            kind, length, start, step = kind & 0xFFFF, kind >> 16, 4, 8
        else:
            start = 8
            step = start + (length if kind == COMPRESSED or not padded else -(-length // 8) * 8)
        if start + length > len(data) or (start == 4 and length > 4):
            raise ValueError("it ends early")
        yield kind, data[start : start + length]
        data = data[step:]


def _inflated(content: memoryview, order: str, path: Path, size: int) -> memoryview:
    """An element that was compressed, no longer than it says that it is."""
    unpack = zlib.decompressobj()
    try:
        first = unpack.decompress(content, PEEK)
        if len(first) < 8:
            raise ValueError("it ends early")
        total = 8 + int(struct.unpack(f"{order}II", first[:8])[1])
        believable(path, total, size)
        rest = unpack.decompress(unpack.unconsumed_tail, total - len(first)) if total > len(first) else b""
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked ({error})") from error
    return memoryview(first[:total] + rest)


def _array(
    content: memoryview, order: str, path: Path, size: int, wanted: Collection[str]
) -> tuple[str, NDArray[np.generic] | None]:
    """The name of an array, and the array if it is wanted."""
    parts = _elements(content, order)
    try:
        (_, flags), (_, dimensions), (_, name) = next(parts), next(parts), next(parts)
        named = bytes(name).decode("ascii", "replace")
        if named not in wanted:
            return named, None
        kind, numbers = next(parts)
    except StopIteration as error:
        raise ValueError("an array of it ends early") from error
    if len(flags) < 4 or len(dimensions) % 4:
        raise ValueError(f"{named} is damaged")
    flag = int(struct.unpack(f"{order}I", flags[:4])[0])
    shape = tuple(int(n) for n in np.frombuffer(dimensions, f"{order}i4"))
    if flag & 0xFF not in MEANT or flag & COMPLEX or kind not in STORED or min(shape, default=-1) < 0:
        raise ValueError(f"{named} holds no real numbers")
    believable(path, math.prod(shape), size)
    stored = np.dtype(f"{order}{STORED[kind]}")
    if len(numbers) != math.prod(shape) * stored.itemsize:
        raise ValueError(f"{named} is {'×'.join(map(str, shape))}, and holds {len(numbers):,} bytes")
    flat = np.frombuffer(numbers, stored).astype(MEANT[flag & 0xFF], copy=False)
    return named, flat.reshape(shape, order="F")
