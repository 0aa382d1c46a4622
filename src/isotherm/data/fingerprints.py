"""What tells one set of data from another, in a few characters: a digest of a sample and a checksum of all of it.

An early fingerprint has the digest alone, and so has that of data which would take too long to read: `same` compares
what both have.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterable
from itertools import zip_longest

import torch

from isotherm.data.images import Images
from isotherm.data.undecoded import Undecoded

READABLE = 1 << 31
"""Bytes of data that are all read for a fingerprint: a second or two."""
PIECE = 1 << 22
MANY = 1 << 20
"""Sentences that are all read."""


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
    if isinstance(images.pixels, Undecoded) or len(images) * each > READABLE:
        return sample
    rows = max(1, PIECE // each)
    pixels = images.pixels
    pieces = (pixels[i : i + rows].contiguous().numpy().data for i in range(0, len(images), rows))
    return f"{sample}.{checksum(pieces)}"


def same(one: str, other: str) -> bool:
    """Whether two fingerprints are of the same data, as far as both say."""
    return all(_same(a, b) for a, b in zip_longest(one.split("-"), other.split("-"), fillvalue=""))


def _same(one: str, other: str) -> bool:
    (sample, _, whole), (other_sample, _, other_whole) = one.partition("."), other.partition(".")
    return sample == other_sample and (not whole or not other_whole or whole == other_whole)
