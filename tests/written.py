"""Small files in the formats of the sets, as the tests write them."""

import io
import struct

import numpy as np
import torch
from PIL import Image


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def same(images, pixels, labels, first_id=0):
    assert images.pixels.dtype == torch.uint8
    assert np.array_equal(images.pixels.numpy(), pixels)
    assert images.labels.tolist() == list(labels)
    assert images.ids.tolist() == list(range(first_id, first_id + len(pixels)))


def encoded(pixels, form="PNG"):
    """(H, W, C) or (H, W) as the bytes of an image file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()
