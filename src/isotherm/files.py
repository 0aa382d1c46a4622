"""Files that are whole or not there.

A file is written beside its place, brought to the disk, and renamed: whoever kills the process finds the old one or the
new one.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

Json = dict[str, Any]
"""An object as a file of JSON holds it."""


PART = ".isotherm-part"
"""How the names end of files that are being written: nobody else's do, so what was left behind can be thrown away."""
REASONS = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota of disk space is used up"}
MARK = "isotherm"
"""The first name in what `--json` writes, with the version: nothing else is replaced by numbers."""
MARKED = re.compile(rb'\s*\{\s*"isotherm"\s*:')
NOT_OURS = "{} is there and was not written by --json; write into another file."
STDOUT = Path("-")
"""What stands for standard output where a file is asked for."""


class DiskFull(OSError):
    """No room for a file; the one before it is untouched."""


class _Raw(io.FileIO):
    """A file that remembers why it could not be written: whoever writes through C++ reports something else."""

    problem: OSError | None = None

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            self.problem = error
            raise


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file so that it is either the old one or the new one, whatever happens.

    A link stays, and what it leads to is written; what is no file (a pipe, a device) is written into.
    """
    if path.is_symlink():
        path = path.resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            write(file)
        return
    part = beside(path)
    raw: _Raw | None = None
    try:
        raw = _Raw(part, "w")
        with io.BufferedWriter(raw) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync(path.parent)
    except (OSError, RuntimeError) as error:  # torch.save says RuntimeError when the disk is full
        kept = f" The {path.name} of before is untouched." if path.exists() else ""
        why = reason(raw.problem if raw is not None and raw.problem is not None else error)
        raise DiskFull(f"cannot write {path}: {why}.{kept}") from error
    finally:
        part.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def reason(error: Exception) -> str:
    """Why something could not be written, in the middle of a sentence."""
    if isinstance(error, OSError) and error.errno is not None:
        return REASONS.get(error.errno, error.strerror or type(error).__name__)
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def beside(path: Path) -> Path:
    """Where a file or folder is written before it gets its name."""
    return path.with_name(f".{path.name}.{os.getpid()}{PART}")


def sweep(folder: Path) -> None:
    """Throw away what processes that were killed while they wrote have left in a folder where nobody writes now."""
    for left in folder.glob(f".*{PART}"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """A file with this content, whole or not at all."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_whole(path, write)


def write_text(path: Path, text: str) -> None:
    """As UTF-8; half a character, as broken names have them, is written as its escape."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_if_new(path: Path, text: str) -> None:
    """As `write_text`, but a file that says the same already keeps its date."""
    content = text.encode(errors="backslashreplace")
    if not path.is_file() or path.read_bytes() != content:
        write_bytes(path, content)


def check_places(
    html: Path | None = None,
    json: Path | None = None,
    read: Sequence[Path] = (),
    out: Path | None = None,
    listing: bool = False,
) -> None:
    """Refuse before minutes of work what could not be written after them, or would replace something else.

    A page replaces a page and numbers replace numbers, whatever is `read`. Numbers may go to standard output, a dash.
    `out` is a file of another kind: it replaces what is there, but for what is read. A `listing` has no
    mark of ours: `put_json` looks at the list that it would replace.
    """
    if html == STDOUT:
        raise ValueError("a page goes into a file, not to standard output; name one.")
    json = None if json == STDOUT else json
    for path in (html, json, out):
        if path is not None and path.is_dir():
            raise ValueError(f"{path} cannot be written: it is a folder.")
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"no folder {path.parent} to write {path.name} into.")
        if path is not None and path.exists() and any(p.exists() and path.samefile(p) for p in read):
            raise ValueError(f"{path} is what is read; write into another file.")
    if html is not None and json is not None and html.resolve() == json.resolve():
        raise ValueError(f"the page and the numbers cannot both be {html}.")
    if html is not None and (there := _beginning(html)) and not there.lower().startswith(b"<!doctype html"):
        raise ValueError(f"{html} is there and is no page; write into another file.")
    there = b"" if json is None else _beginning(json)
    if there and not (there.startswith(b"[") if listing else MARKED.match(there)):
        raise ValueError(NOT_OURS.format(json))


def _beginning(path: Path) -> bytes:
    """How a file begins; nothing where there is nothing to lose: no file, an empty one, a device or a pipe."""
    if not path.is_file() or not path.stat().st_size:
        return b""
    with path.open("rb") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n") or b"blank"


def text_of(path: Path) -> str:
    """What a file says; of a pipe or a device, which might never end, an OSError."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file")
    return path.read_text(encoding="utf-8")


def lines(path: Path) -> list[str]:
    """The lines of a text. Only \\n ends one, where str.splitlines knows ten more signs; a byte order mark is none."""
    text = text_of(path).removeprefix("\ufeff")
    return text.removesuffix("\n").split("\n") if text else []


def put_json(path: Path, value: Json | list[Json]) -> None:
    """Into a file, or for a dash to standard output, in ASCII. A list replaces a list of the same kind of things."""
    if isinstance(value, dict):
        version: str = vars(sys.modules["isotherm"])["__version__"]  # which this lies below, so it cannot import it
        value = {MARK: version, **value}
    if path == STDOUT:
        print(json.dumps(value, indent=1))
        return
    if isinstance(value, list) and _beginning(path) and not _alike(path, value):
        raise ValueError(NOT_OURS.format(path))
    write_json(path, value)


def _alike(path: Path, value: list[Json]) -> bool:
    """Whether a file lists things of the same kind: with the same names for what is said of each."""
    try:
        there = json.loads(text_of(path))
    except (OSError, ValueError, RecursionError):
        return False
    first = there[0] if there else {}
    return isinstance(first, dict) and (not first or not value or first.keys() == value[0].keys())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
