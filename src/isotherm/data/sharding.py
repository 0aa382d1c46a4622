"""Tar shards made of a folder of images, for disks and file systems that do not like a million files.

Each shard is written beside its place and moved there whole, then its index: whoever stops it in between goes on with
the same command. The images lie in an order that is a function of their names, shuffled for those who read shards one
after another (WebDataset, DALI).
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from isotherm.checks import at_least, count
from isotherm.data.decoding.one_image import in_mode, must_not_be_huge, open_image, undecodable
from isotherm.data.images import Images
from isotherm.data.loaders.dealing import shuffled
from isotherm.data.sources import folder as folders
from isotherm.data.sources.shards import CLASSES
from isotherm.data.tar_index import read_index, scan, write_index
from isotherm.data.undecoded import InFolder, Undecoded
from isotherm.files import beside, write_text

SOURCE = ".source"
"""Beside the shards: a digest of what they were made of."""
Note = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Sharded:
    """What was made."""

    shards: int
    images: int
    size: int
    skipped: tuple[str, ...]
    """Images that are not in them, and why."""


def shard(
    folder: Path,
    out: Path,
    split: str = "train",
    megabytes: int = 256,
    check: bool = False,
    classes: str | None = None,
    listed: str | None = None,
    note: Note = lambda stage, done, total: None,
) -> Sharded:
    """Put a split of a folder of images into shards of about so many megabytes: ``out/SPLIT-000000.tar``, ….

    Files go in as they are, with their labels (.cls). With `check` every image is decoded first, and left out and named
    if that fails. What an interrupted call wrote is left; shards of other images, or of these before they changed, are
    refused.
    """
    at_least(1, megabytes=megabytes)
    images = folders.read(folder, split, lazy=True, classes=classes, list=listed)
    assert isinstance(images.pixels, Undecoded)
    files = images.pixels.files
    assert isinstance(files, InFolder)
    sizes = np.fromiter((os.stat(files.name(row)).st_size for row in range(len(files))), np.int64, len(files))
    _must_be_told_apart(files)
    order = shuffled(images.ids, 0, 0).numpy()
    parts = _parts(order, sizes, megabytes << 20)
    width = max(6, len(str(len(parts))))
    paths = [out / f"{split}-{number:0{width}d}.tar" for number in range(len(parts))]
    out.mkdir(parents=True, exist_ok=True)
    source = _source(files, sizes, images, parts, check)
    _must_be_ours(out, split, source, images.classes)
    _must_have_room(out, int(sizes.sum()) + 2048 * len(sizes) - sum(p.stat().st_size for p in paths if p.exists()))
    write_text(out / f"{split}{SOURCE}", source)
    write_text(out / CLASSES, "".join(f"{name}\n" for name in images.classes))
    skipped: list[str] = []
    done, total, written = 0, int(sizes.sum()), 0
    for path, rows in zip(paths, parts, strict=True):
        note(f"writing {split} shards", done, total)
        names = [_member(files.names[int(row)]) for row in rows]
        if not (path.is_file() and path.with_suffix(".idx").is_file()):
            skipped += _write(path, images, files, rows, names, check)
        written += len(read_index(path.with_suffix(".idx")))
        done += int(sizes[rows].sum())
    return Sharded(len(paths), written, sum(p.stat().st_size for p in paths), tuple(skipped))


def _parts(order: np.ndarray, sizes: np.ndarray, most: int) -> list[np.ndarray]:
    """The images of each shard, so that none is much larger than `most` bytes."""
    ends = np.cumsum(sizes[order] + 2048)  # with heads, label and padding
    number = (ends - 1) // most
    return np.split(order, np.flatnonzero(np.diff(number)) + 1)


def _member(name: str) -> str:
    """A path as a sample's name: no dot but before the extension, no spaces."""
    stem, ending = os.path.splitext(name)
    folder, slash, base = stem.rpartition("/")
    return f"{quote(folder, safe='/')}{slash}{quote(base, safe='').replace('.', '%2E')}{ending}"


def _write(
    path: Path, images: Images, files: InFolder, rows: np.ndarray, names: Sequence[str], check: bool
) -> list[str]:
    part, skipped = beside(path), []
    try:
        with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as tar:
            for row, name in zip(rows.tolist(), names, strict=True):
                content = Path(files.name(row)).read_bytes()
                why = _wrong(content) if check else None
                if why is not None:
                    skipped.append(f"{files.name(row)} {why}")
                    continue
                stem = os.path.splitext(name)[0]
                for member, data in ((name, content), (f"{stem}.cls", str(int(images.labels[row])).encode())):
                    info = tarfile.TarInfo(member)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        samples = list(scan(part))
        part.replace(path)
        write_index(path.with_suffix(".idx"), samples)
    finally:
        part.unlink(missing_ok=True)
    return skipped


def _wrong(content: bytes) -> str | None:
    try:
        with open_image(content) as image:
            must_not_be_huge(image)
            in_mode(image, "RGB").load()
    except Exception as error:  # Pillow's readers raise nearly anything on a broken image
        return undecodable(error)
    return None


def _must_be_told_apart(files: InFolder) -> None:
    """Refuse a.png beside a.jpg: a sample is known by its name without the ending."""
    known: dict[str, str] = {}
    for name in map(files.names.__getitem__, range(len(files))):
        other = known.setdefault(os.path.splitext(name)[0], name)
        if other != name:
            raise ValueError(f"{name} and {other} differ in their ending alone, and would be one sample. Rename one.")


def _source(files: InFolder, sizes: np.ndarray, images: Images, parts: Sequence[np.ndarray], check: bool) -> str:
    """What tells these shards from others: names, sizes and times of their images, their labels, which go where."""
    names = "\n".join(files.names[row] for row in range(len(files)))
    digest = hashlib.sha256(names.encode("utf-8", "surrogateescape"))
    times = [os.stat(files.name(row)).st_mtime_ns for row in range(len(files))]
    for part in (sizes, np.array(times), images.labels.numpy(), np.array([len(part) for part in parts])):
        digest.update(part.astype(np.int64).tobytes())
    return f"{digest.hexdigest()[:32]}{' checked' if check else ''}\n"


def _must_be_ours(out: Path, split: str, source: str, classes: Sequence[str]) -> None:
    there, named, of = sorted(out.glob(f"{split}-*.tar")), out / CLASSES, out / f"{split}{SOURCE}"
    if there and not (of.is_file() and of.read_text() == source):
        raise ValueError(
            f"{out} holds {there[0].name} of other images, of these before they changed, or made with other options. "
            "Name another folder, or delete its shards."
        )
    if named.is_file() and named.read_text("utf-8", "surrogateescape").split("\n")[:-1] != list(classes):
        raise ValueError(f"{out} holds {CLASSES} of other images. Name another folder.")


def _must_have_room(out: Path, needed: int) -> None:
    free = shutil.disk_usage(out).free
    if needed > free:
        raise OSError(
            f"{out} has no room for the shards: they take {needed / 2**30:,.1f} GiB, {free / 2**30:,.1f} are free."
        )


def told(made: Sharded, out: Path) -> list[str]:
    """What was made, in sentences."""
    lines = [f"{count(made.images, 'image')} in {count(made.shards, 'shard')} of {made.size / 2**20:,.0f} MB in {out}"]
    if made.skipped:
        more = ", …" if len(made.skipped) > 1 else ""
        lines.append(f"{count(len(made.skipped), 'image')} left out: {made.skipped[0]}{more}")
    return lines
