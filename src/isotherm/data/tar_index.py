"""Where the files in a tar shard lie: found in their heads, or read from the index that NVIDIA DALI reads too.

An index (``wds2idx``'s v1.2) is text: its version and how many samples there are, then a line for each sample, with
extension, start, size and name of each of its files.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from isotherm.files import write_bytes

BLOCK = 512
VERSION = "v1.2"


class Part(NamedTuple):
    """One file of a sample."""

    extension: str
    start: int
    size: int
    name: str
    """as the tar file has it"""


def write_index(path: Path, samples: Iterable[Sequence[Part]]) -> None:
    """Write the index of these samples. Names with spaces have no place in it."""
    lines = [" ".join(f"{p.extension} {p.start} {p.size} {p.name}" for p in parts) for parts in samples]
    text = "\n".join([f"{VERSION} {len(lines)}", *lines, ""]).encode("utf-8", "surrogateescape")
    write_bytes(path, text)


def scan(path: Path) -> Iterator[list[Part]]:
    """The samples of a tar file, from the heads in it; refused where it ends early."""
    samples: list[Part] = []
    key: str | None = None
    try:
        with tarfile.open(path, "r:") as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # else it keeps them all
                if not member.isreg():
                    continue
                its_key, extension = split_name(member.name)
                if not extension or its_key.rpartition("/")[2] == "":
                    continue  # a hidden file, or one without an extension: no part of a sample
                if its_key != key and samples:
                    yield samples
                    samples = []
                key = its_key
                samples.append(Part(extension, member.offset_data, member.size, member.name))
            stop = tar.offset
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{path} is damaged or ends early: {error}. Copy it again, or leave it out.") from error
    if samples:
        yield samples
    _must_end(path, stop)


def split_name(name: str) -> tuple[str, str]:
    """Key and extension of a file in a shard."""
    folder, slash, base = name.removeprefix("./").rpartition("/")
    stem, _, extension = base.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()


def read_index(path: Path) -> list[list[Part]]:
    """The samples that an index names."""
    try:
        head, *lines = path.read_bytes().decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
        version, count = head.split()
        if version != VERSION or int(count) != len(lines):
            raise ValueError(f"it begins with '{head}' and has {len(lines)} lines")
        samples = []
        for line in lines:
            words = line.split(" ")
            fours = zip(words[::4], words[1::4], words[2::4], words[3::4], strict=True)
            samples.append([Part(e.lower(), int(start), int(size), name) for e, start, size, name in fours])
        if any(part.start < BLOCK or part.size < 0 for parts in samples for part in parts):
            raise ValueError("no file can lie where it says")
    except ValueError as error:
        raise ValueError(f"{path} is no index of a shard ({error}). Remove it, it is not needed.") from error
    return samples


def _must_end(path: Path, stop: int) -> None:
    """After the last file a tar has empty blocks: a copy that was cut has none there, a damaged one something else."""
    with path.open("rb") as file:
        file.seek(stop)
        block = file.read(BLOCK)
    if len(block) < BLOCK:
        raise ends_early(path, path.stat().st_size)
    if any(block):
        raise ValueError(f"{path} is damaged at byte {stop:,}. Copy it again, or leave it out.")


def ends_early(path: Path, size: int) -> ValueError:
    """The error for a shard that was cut."""
    return ValueError(f"{path} ends early, at byte {size:,}. Copy it again, or leave it out.")
