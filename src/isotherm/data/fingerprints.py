"""What tells one set of data from another, in a few characters: a digest of a sample and a checksum of all of it.

Of images that stay encoded the checksum is of all sizes, and of all bytes where these are few; images with captions
have two, of their texts and of their sizes. An early fingerprint has the digest alone, and so has that of data which
would take too long to read: `same` compares what both have.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import zlib
from collections.abc import Callable, Iterable
from itertools import zip_longest

import numpy as np
import torch
from numpy.typing import NDArray

from isotherm.data.images import Images
from isotherm.data.undecoded import Undecoded

READABLE = 1 << 31
"""Bytes of data that are all read for a fingerprint: a second or two."""
PIECE = 1 << 22
FILES, SOON = 1 << 14, 1 << 28
"""Encoded images, and their bytes, that are all read: a second or two."""
MANY = 1 << 20
"""Sentences that are all read, and files whose sizes are."""


def checksum(pieces: Iterable[bytes | memoryview]) -> str:
    """Of all bytes of these, in order."""
    value = 0
    for piece in pieces:
        value = zlib.crc32(piece, value)
    return f"{value:08x}"


def of_images(images: Images) -> str:
    """What tells one set of images from another: ids, labels, 4 MB of their pixels, and a checksum of all."""
    digest = hashlib.sha256(repr((tuple(images.pixels.shape), images.bits)).encode())
    digest.update(images.ids.numpy().tobytes())
    digest.update(images.labels.numpy().tobytes())
    each = max(1, math.prod(images.shape))
    some = torch.linspace(0, len(images) - 1, min(len(images), max(1, PIECE // each))).long()
    digest.update(images.at(some).contiguous().numpy().tobytes())
    sample = digest.hexdigest()[:16]
    if isinstance(images.pixels, Undecoded):
        sizes = images.pixels.sizes() if len(images) <= MANY else None
        return sample if sizes is None else f"{sample}.{encoded(sizes, images.pixels.encoded)}"
    if len(images) * each > READABLE:
        return sample
    rows = max(1, PIECE // each)
    pixels = images.pixels
    pieces = (pixels[i : i + rows].contiguous().numpy().data for i in range(0, len(images), rows))
    return f"{sample}.{checksum(pieces)}"


def encoded(sizes: NDArray[np.int64], read: Callable[[int], bytes]) -> str:
    """Of encoded images: their sizes, and all their bytes where that is soon done."""
    few = len(sizes) <= FILES and int(sizes.sum()) <= SOON
    return checksum(itertools.chain([sizes.tobytes()], map(read, range(len(sizes))) if few else ()))


def same(one: str, other: str) -> bool:
    """Whether two fingerprints are of the same data, as far as both say."""
    return all(_same(a, b) for a, b in zip_longest(one.split("-"), other.split("-"), fillvalue=""))


def _same(one: str, other: str) -> bool:
    (sample, *sums), (other_sample, *other_sums) = one.split("."), other.split(".")
    return sample == other_sample and all(a == b for a, b in zip(sums, other_sums, strict=False) if a and b)
