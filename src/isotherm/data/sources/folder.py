"""Images in folders, the ImageNet way: SPLIT/CLASS/*.jpg, or as a list says.

A set that is small enough is decoded and resized once, then memory-mapped; a larger one stays in its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch

from isotherm.data import roots
from isotherm.data.images import Images
from isotherm.data.names import Names
from isotherm.data.parts import NoSplit
from isotherm.data.sources import lists
from isotherm.data.sources.decode import Tally, fill, pool
from isotherm.data.sources.lists import Listing
from isotherm.data.sources.reading import Array, count, make_images, stable_id
from isotherm.data.undecoded import Bad, InFolder, Undecodable, Undecoded

IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
LARGE = 1 << 33
"""Bytes of decoded images beyond which a set stays in its files: 57,000 images of 224×224. It depends on the set alone,
not on the machine: what is cropped from whole images is not what is cropped from their middle squares."""
FIRST = ("train", "val", "validation", "test")
SPLITS = set(FIRST)
SPLITS_OF_ONE_MEANING = {"val": "validation", "validation": "val"}


def read(
    path: Path,
    split: str = "train",
    size: int = 224,
    bad: Bad = "skip",
    classes: Sequence[str] | str | None = None,
    name: str | None = None,
    cache: Path | str | None = None,
    lazy: bool | None = None,
    list: str | None = None,
) -> Images:
    """The images of a split: the middle square of each, size×size, RGB.

    `bad` files, which are no images, are skipped and counted, or an error. `classes` takes a few class folders only;
    they may be the lines of a file. `list` is a file of lines ``path label`` or ``path``, below `path` as paths are;
    "{split}" in it is the split, without that it is of `train` only (`lists`).
    The result is kept under `cache` (the data root's by default) until a file is added, removed or changed. An id
    depends on the path below `path` alone, so it outlives all of that. With `lazy`, or if decoded they took more than
    `LARGE`, images stay in their files: what is learnt from is cropped from the whole of them.
    """
    if bad not in {"skip", "error"}:
        raise ValueError(f"bad must be 'skip' or 'error', got {bad!r}.")
    if size < 1:
        raise ValueError(f"size must be 1 or more, got {size}.")
    listed = lists.find(path, split, list)
    given = _in_folders(path, split, classes, list) if listed is None else listed.images(bad)
    folder, names, strangers, links = given.folder, given.classes, given.strangers, given.links
    if strangers and bad == "error":
        raise ValueError(
            f"{strangers[0]} is not an image ({count(len(strangers), 'such file')}). Remove it or say bad='skip'."
        )
    if lazy or (lazy is None and len(given.files) * 3 * size * size > LARGE):
        return _undecoded(given, size, bad, name or path.name)
    files = [given.files[row] for row in range(len(given.files))]
    kept, tally, pixels, file = decoded(folder, files, size, cache)
    if tally.failed and bad == "error":
        row, why = tally.failed[0]
        raise ValueError(f"{folder / files[row]} {why}. Remove it or say bad='skip'.")
    lost = {row for row, _ in tally.failed}
    labels = given.labels[[row for row in range(len(files)) if row not in lost]]
    lacking = np.setdiff1d(given.labels, labels).tolist() if listed is None else []
    for c in lacking:
        raise ValueError(f"{folder / names[c]} holds no image that can be decoded. Fill it or remove it.")
    ids = np.array([stable_id(f"{given.prefix}{file}") for file in kept], dtype=np.int64)
    notes = tally.notes("RGB")
    if skipped := len(strangers) + len(tally.failed):
        example = strangers[0] if strangers else folder / files[tally.failed[0][0]]
        notes.append(f"{count(skipped, 'file')} skipped, no image: {example}" + (", …" if skipped > 1 else ""))
    if links:
        notes.append(_not_followed(links))
    return make_images(name or path.name, pixels, labels, ids, names, notes=notes, file=file)


def decoded(
    folder: Path, files: Sequence[str], size: int, cache: Path | str | None = None
) -> tuple[list[str], Tally, Array, Path]:
    """Files below a folder as size×size pixels: those that are images, what happened to them, and the mapped file."""
    place = (Path(cache) if cache else roots.cache()) / _key(folder, files, size)
    kept, tally, pixels = _cached(folder, files, size, place)
    return kept, tally, pixels, place / "pixels.npy"


def _undecoded(given: Listing, size: int, bad: Bad, name: str) -> Images:
    """The images as they lie in their files: none is opened."""
    n = len(given.files)
    ids = np.fromiter((stable_id(f"{given.prefix}{given.files[row]}") for row in range(n)), np.int64, n)
    notes = [f"decoded when they are taken, from {given.folder}"]
    if given.strangers:
        more = ", …" if len(given.strangers) > 1 else ""
        notes.append(f"{count(len(given.strangers), 'file')} skipped, no image: {given.strangers[0]}{more}")
    if given.links:
        notes.append(_not_followed(given.links))
    rows = torch.arange(n)
    pixels = Undecoded(InFolder(given.folder, given.files), rows, size, Undecodable(n, bad))
    labels = torch.from_numpy(given.labels)
    return Images(name, pixels, labels, torch.from_numpy(ids), tuple(given.classes), notes=tuple(notes))


def _not_followed(links: Sequence[Path]) -> str:
    return f"{count(len(links), 'link')} to a folder not followed: {links[0]}" + (", …" if len(links) > 1 else "")


def _in_folders(path: Path, split: str, wanted: Sequence[str] | str | None, given: str | None = None) -> Listing:
    folder = _split_folder(path, split)
    there = _classes(folder, wanted)
    files, strangers, links = [], [], []
    for c in there:
        if folder.resolve().is_relative_to((folder / c).resolve()):
            raise ValueError(f"{folder / c} is a link to the folder of all classes, or above it. Remove it.")
        own, its_strangers, its_links = _list(folder, c)
        if not len(own):
            but = " but links to folders, which are not followed" if its_links else ""
            raise ValueError(f"{folder / c} holds no images{but}. Fill it or remove it.")
        files.append(own)
        strangers += its_strangers
        links += its_links
    names = there if wanted is not None else numbered(there, _first_classes(path, given))
    numbers = np.array([names.index(c) for c in there], dtype=np.int64)
    labels = np.repeat(numbers, [len(own) for own in files])
    return Listing(folder, f"{folder.name}/", Names.join(files), labels, names, strangers, links)


def numbered(names: Sequence[str], first: Sequence[str]) -> Sequence[str]:
    """The classes of a part in the order of their numbers: those of the set's first part, then what it lacks.

    A class has one number in all parts, also where one part lacks some.
    """
    return [*first, *sorted(set(names) - set(first))]


def _first_classes(path: Path, given: str | None) -> Sequence[str]:
    """The classes of the first part that there is, by which the others are numbered: of its list, or its folders."""
    listed = lists.find(path, "train", given) if given is not None else None
    if listed is not None:
        listing = listed.images("skip")
        own = [PurePosixPath(listing.files[row]).parent.name for row in range(len(listing.files))]
        if any(listing.classes[label] != name for label, name in zip(listing.labels.tolist(), own, strict=True)):
            raise ValueError(
                f"{given} gives images of one folder other classes than the folder's, and only 'train' has a list; "
                "give the other parts one, too: {split} in its name stands for the part."
            )
        return listing.classes
    folder = next((path / part for part in FIRST if (path / part).is_dir()), None)
    return () if folder is None else sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] != ".")


def _split_folder(path: Path, split: str) -> Path:
    for folder in (path / split, path / SPLITS_OF_ONE_MEANING.get(split, split)):
        if folder.is_dir():
            return folder
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {path}")
    there = sorted(p.name for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    if split == "train" and there and not SPLITS.intersection(there) and _holds_images(path / there[0]):
        return path  # class folders and no splits, as ImageNet-22K unpacks
    raise NoSplit(f"{path} holds no folder '{split}'; it holds: {', '.join(there[:10]) or 'no folders'}")


def _holds_images(folder: Path) -> bool:
    return any(file.suffix.lower() in IMAGES for file in folder.iterdir())


def _classes(folder: Path, wanted: Sequence[str] | str | None) -> Sequence[str]:
    there = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if wanted is not None:
        wanted = lists.lines(Path(wanted)) if isinstance(wanted, str) else wanted
        if missing := [c for c in wanted if c not in set(there)]:
            raise FileNotFoundError(
                f"{folder} lacks {len(missing)} of {len(wanted)} class folders, such as {missing[0]}"
            )
        return tuple(wanted)
    if not there:
        raise ValueError(f"{folder} holds no class folders. Its images belong in {folder}/CLASS/.")
    return there


def _list(folder: Path, name: str) -> tuple[Names, list[Path], list[Path]]:
    """Of a class folder: images relative to `folder`, files that are none by their names, and links to folders.

    It may itself be a link. One below it is not followed: it leads to images of this class, which are listed where they
    lie, or out of it, to images that are of another.
    """
    files: list[str] = []
    strangers: list[Path] = []
    links: list[Path] = []
    places = [name]
    while places:
        place = places.pop()
        with os.scandir(folder / place) as entries:
            there = sorted(entries, key=lambda entry: entry.name)
        below = []
        for entry in there:
            whole = f"{place}/{entry.name}"
            if entry.is_dir():
                (links.append(folder / whole) if entry.is_symlink() else below.append(whole))
            elif not entry.name.startswith("."):
                is_image = os.path.splitext(entry.name)[1].lower() in IMAGES and entry.is_file()  # no link to nowhere
                (files.append(whole) if is_image else strangers.append(folder / whole))
        places += reversed(below)
    return Names(files), strangers, links


def _cached(folder: Path, files: Sequence[str], size: int, place: Path) -> tuple[list[str], Tally, Array]:
    """The files that could be decoded, what happened to them, and their pixels, memory-mapped."""
    if not place.is_dir():
        _decode(folder, files, size, place)
    try:
        told = json.loads((place / "index.json").read_text())
        tally = Tally(told["converted"], told["resized"], [(row, why) for row, why in told["failed"]])
        # Mode "c" is private and writable in memory only: torch warns about arrays that cannot be written.
        pixels = np.load(place / "pixels.npy", mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{place} is damaged: {error}. Remove it, it is made again.") from error
    lost = {row for row, _ in tally.failed}
    return [file for row, file in enumerate(files) if row not in lost], tally, pixels


def _key(folder: Path, files: Sequence[str], size: int) -> str:
    digest = hashlib.blake2b(f"1 {folder.resolve()} {size}".encode("utf-8", "surrogateescape"), digest_size=16)
    for file in files:
        stat = (folder / file).stat()
        digest.update(f"\0{file}\0{stat.st_size}\0{stat.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    return f"{folder.parent.name}-{folder.name}-{size}-{digest.hexdigest()}"


def _room(file: Path, images: int, size: int) -> np.memmap[Any, Any]:
    """A mapped array on disk, with the room for it taken: a mapped page that the disk has no room for kills."""
    needed, there = images * 3 * size * size, shutil.disk_usage(file.parent).free
    if needed > there:
        raise OSError(
            f"{file.parent.parent} has no room for {count(images, 'image')} of {size}×{size}: they take "
            f"{needed / 2**30:,.1f} GiB, {there / 2**30:,.1f} are free. Say a smaller size, or another cache."
        )
    array = np.lib.format.open_memmap(file, "w+", np.uint8, (images, 3, size, size))
    with file.open("r+b") as held:
        os.posix_fallocate(held.fileno(), 0, file.stat().st_size)
    return array


def _decode(folder: Path, files: Sequence[str], size: int, place: Path) -> None:
    """Make the cache beside its place, then move it there: nobody ever sees half of it."""
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    beside.mkdir(parents=True)
    try:
        tally, step = Tally(), 4096
        out = _room(beside / "all.npy", len(files), size)
        with pool() as threads:
            for start in range(0, len(files), step):
                tally.add(fill(out, start, [folder / f for f in files[start : start + step]], True, threads))
        if lost := {row for row, _ in tally.failed}:
            rows = [row for row in range(len(files)) if row not in lost]
            kept = _room(beside / "pixels.npy", len(rows), size)
            for at, row in enumerate(rows):
                kept[at] = out[row]
            kept.flush()
            (beside / "all.npy").unlink()
        else:
            out.flush()
            (beside / "all.npy").rename(beside / "pixels.npy")
        told = {"converted": tally.converted, "resized": tally.resized, "failed": tally.failed, "folder": str(folder)}
        (beside / "index.json").write_text(json.dumps(told))
        try:
            beside.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was faster, with the same result
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
