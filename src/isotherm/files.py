"""Files that are whole or not there.

A file is written beside its place, brought to the disk, and renamed: whoever kills the process finds the old one or the
new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

Json = dict[str, Any]
"""An object as a file of JSON holds it."""


STDOUT = Path("-")
"""What stands for standard output where a file is asked for."""


class DiskFull(OSError):
    """No room for a file; the one before it is untouched."""


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file so that it is either the old one or the new one, whatever happens."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except (OSError, RuntimeError) as error:  # torch.save says RuntimeError when the disk is full
        kept = f" The {path.name} of before is untouched." if path.exists() else ""
        raise DiskFull(f"cannot write {path}: {str(error).splitlines()[0]}.{kept}") from error
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """As UTF-8; half a character, as broken names have them, is written as its escape."""
    write_whole(path, lambda file: (file.write(text.encode(errors="backslashreplace")), None)[1])


def check_places(html: Path | None = None, json: Path | None = None) -> None:
    """Refuse before minutes of work what could not be written after them. Numbers may go to standard output, a dash."""
    if html == STDOUT:
        raise ValueError("a page goes into a file, not to standard output; name one.")
    for path in (html, None if json == STDOUT else json):
        if path is not None and path.is_dir():
            raise ValueError(f"{path} cannot be written: it is a folder.")
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"no folder {path.parent} to write {path.name} into.")


def put_json(path: Path, value: Any) -> None:
    """Into a file, or for a dash to standard output, in ASCII."""
    if path == STDOUT:
        print(json.dumps(value, indent=1))
    else:
        write_json(path, value)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
