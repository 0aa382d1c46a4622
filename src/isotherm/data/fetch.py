"""Brings a named set to the data root, by the first of its ways that leads there. Whole or not at all.

Everything happens in a hidden folder beside the set's place, which is renamed at the end.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from isotherm.data.sets import named
from isotherm.data.ways import Failed, Way, emptied
from isotherm.data.ways import Note as Note


def get(name: str, root: Path | str | None, note: Note, ways: Sequence[Way] | None = None) -> Path | None:
    """Fetch a set and return its folder (none for one that needs no files); nothing happens if it is there."""
    wanted = named(name)
    place = wanted.place(root)
    if place is None:
        return None
    if wanted.there(root):
        _clear(place)
        return place
    ways = wanted.ways if ways is None else ways
    if not ways:
        raise ValueError(f"{name} cannot be fetched; it belongs in {place}. {wanted.advice}")
    if place.exists() and any(place.iterdir()):
        raise ValueError(f"{place} holds something else than a whole {name}. Move it away, then fetch again.")
    why = []
    with _workshop(place) as (folder, aside):
        for way in ways:
            try:
                emptied(folder)
                way.into(folder, aside, note)
            except Failed as failed:
                why.append(str(failed))
                note(f"{failed}")
                continue
            note(f"placing {place}")
            _settle(folder)
            folder.replace(place)
            _sync(place.parent)
            return place
    raise ValueError(f"{name} could not be fetched: {'; '.join(why)}. It belongs in {place}: put {wanted.missing}")


@contextmanager
def _workshop(place: Path) -> Iterator[tuple[Path, Path]]:
    """A folder for what will become `place`, and one for what is needed on the way.

    Both go when the work is done or fails. They stay when the process is killed or interrupted; the next one continues.
    """
    workshop = _beside(place)
    folder, aside = workshop / "new", workshop / "aside"
    aside.mkdir(parents=True, exist_ok=True)
    with open(workshop / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{place} is being fetched by another process. Wait for it.") from None
        try:
            yield folder, aside
        except Exception:
            shutil.rmtree(workshop)
            raise
        shutil.rmtree(workshop)


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.getting")


def _clear(place: Path) -> None:
    """Throw away the workshop of a process that was killed when all was done: its archives are as large as the set."""
    with suppress(OSError), open(_beside(place) / "lock", "r+") as lock:  # there is none, or it is somebody else's
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(_beside(place))


def _settle(folder: Path) -> None:
    """Have the disk keep every file, so that the renamed folder is whole even after a power cut."""
    for path in (*folder.rglob("*"), folder):
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
