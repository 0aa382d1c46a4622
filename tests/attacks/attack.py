"""One attack: a folder with a valid file, damaged, read; what came of it is judged by `watch`."""

import os
import shutil
from pathlib import Path

from edits import Edit
from targets import Target
from watch import harmless

ROOT = "ISOTHERM_DATA"


def whole(target: Target, folder: Path) -> None:
    """The valid file is read: an attack on a file that is refused anyway would prove nothing."""
    code = attack(target, folder, None, [])
    if code != 0:
        raise AssertionError(f"{target.name}: the valid file was refused")


def attack(target: Target, folder: Path, way: int | None, changes: list[Edit]) -> int:
    """Write, damage in one of the target's ways, read; the exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    files = dict(target.files())
    name = next(iter(files))
    if way is not None:
        files[name] = target.ways[way % len(target.ways)](files[name], changes)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    before = os.environ.get(ROOT)
    os.environ[ROOT] = str(folder / "root")
    try:
        outputs = tuple(folder / out for out in target.outputs)
        return harmless(target.use(folder), folder, sum(map(len, files.values())), outputs)
    finally:
        if before is None:
            del os.environ[ROOT]
        else:
            os.environ[ROOT] = before
