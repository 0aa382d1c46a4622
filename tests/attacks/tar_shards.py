"""Tar shards for attacks: of images with labels, of images with captions, and an index beside one."""

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch

import written
from isotherm.data.pairs import load_pairs
from isotherm.data.tar_index import scan, write_index


def images(label: str) -> Mapping[str, bytes]:
    """A shard of six images, whose labels are parts of this extension."""
    parts: dict[str, bytes] = {}
    for i, pixels in enumerate(written.noise(6, 8, 8, 3)):
        parts[f"{i:04d}.{'png' if i % 2 else 'jpg'}"] = written.encoded(pixels, "PNG" if i % 2 else "JPEG")
        parts[f"{i:04d}.{label}"] = json.dumps({"label": i % 3}).encode() if label == "json" else b"%d" % (i % 3)
    return {"s/train-000.tar": packed(parts)}


def indexed() -> Mapping[str, bytes]:
    """An index, and the shard it belongs to."""
    import tempfile  # noqa: PLC0415

    files = images("cls")
    with tempfile.TemporaryDirectory() as place:
        tar, index = Path(place) / "a.tar", Path(place) / "a.idx"
        tar.write_bytes(files["s/train-000.tar"])
        write_index(index, scan(tar))
        return {"s/train-000.idx": index.read_bytes(), **files}


def captioned() -> Mapping[str, bytes]:
    """A shard of images with captions, as text and as JSON."""
    parts: dict[str, bytes] = {}
    for i, pixels in enumerate(written.noise(6, 8, 8, 3)):
        parts[f"{i:04d}.jpg"] = written.encoded(pixels, "JPEG")
        said = f"a photograph of {i}"
        parts[f"{i:04d}.{'txt' if i % 2 else 'json'}"] = (
            said.encode() if i % 2 else json.dumps({"caption": said}).encode()
        )
    return {"s/train-000.tar": packed(parts)}


def packed(parts: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def taking_pairs(folder: Path) -> Callable[[], object]:
    """Every image and every caption of the shards."""

    def call() -> object:
        pairs = load_pairs(f"shards:{folder / 's'}", size=8)
        numbers, _ = pairs.numbers()
        return pairs.decoded(torch.from_numpy(np.arange(len(pairs)))), pairs.captions(numbers)

    return call
