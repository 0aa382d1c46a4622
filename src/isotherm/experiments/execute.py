"""Runs a study: what is not done yet, in local processes or on a Ray cluster; killed anywhere, it goes on.

A run is done when its folder says so; its key is that of its settings. A worker that dies takes nothing with it: its
run is given to another, which continues from the last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from isotherm import files
from isotherm.experiments import pool, ray_pool
from isotherm.experiments.measuring import done
from isotherm.experiments.progress import Board
from isotherm.experiments.records import Record, Records
from isotherm.experiments.study import Point
from isotherm.train import runs

ABOUT = "study.json"


class RunFailed(RuntimeError):
    """A run that cannot be carried out; the others are."""


def begin(folder: Path, about: Mapping[str, Any]) -> None:
    """Make a study's folder, or see that it is this study's."""
    path = folder / ABOUT
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; --out names a folder.")
    if path.exists():
        old = _about(path)
        for name in ("study", "scale", "data"):
            if old.get(name) != about[name]:
                raise ValueError(f"{folder} holds another study ({name}: {old.get(name)}); choose another --out.")
    elif folder.exists() and any(p.name != "runs" and not p.name.startswith(".") for p in folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no study; choose another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    files.write_json(path, dict(about))


def about(folder: Path) -> dict[str, Any]:
    """What a study's folder says of itself."""
    path = folder / ABOUT
    if not path.exists():
        raise ValueError(f"{folder} holds no study: it has no {ABOUT}. `isotherm study NAME --out {folder}` makes one.")
    return _about(path)


def _about(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        if isinstance(found, dict) and {"study", "scale", "data", "command"} <= found.keys():
            return found
    except ValueError:
        pass
    raise ValueError(f"{path} is damaged; delete it, and `isotherm study NAME --out {path.parent}` writes it again.")


Show = Callable[[Board], None]


def run_points(
    points: Sequence[Point], folder: Path, workers: int = 2, ray: str | None = None, show: Show = lambda board: None
) -> Records:
    """Carry out every run that is not done, and write records.jsonl."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    distinct = list({p.config.key: p for p in points}.values())  # a run may stand in two tables
    board = Board(distinct, folder)
    todo = []
    for point in distinct:
        found = done(folder / "runs" / point.config.key, point.measure)
        if found is None:
            todo.append(point)
        else:
            board.finished[point.config.key] = found
    board.before = len(board.finished)
    show(board)
    if todo:
        steps = (
            ray_pool.carry_out_all(todo, folder, ray, board)
            if ray is not None
            else pool.carry_out_all(todo, folder, workers, board)
        )
        with runs.alone(folder):
            for _ in steps:
                show(board)
    show(board)
    records = Records(
        _record(p, board.finished[p.config.key], folder) for p in points if p.config.key in board.finished
    )
    lines = "".join(json.dumps(r.as_dict()) + "\n" for r in records)
    files.write_text(folder / "records.jsonl", lines)
    if board.failed:
        key, why = next(iter(board.failed.items()))
        name = next(p.name for p in points if p.config.key == key)
        raise RunFailed(f"{len(board.failed)} of {len(distinct)} runs failed; the first, {name}: {why}")
    return records


def _record(point: Point, found: dict[str, Any], folder: Path) -> Record:
    key = point.config.key
    return Record(
        point.arm,
        point.varied,
        point.seed,
        key,
        found["measures"],
        found["seconds"],
        point.config.as_dict(),
        folder / "runs" / key,
    )
