"""Runs a study: what is not done yet, in local processes or on a Ray cluster; killed anywhere, it goes on.

A run is done when its folder says so; its key is that of its settings. A worker that dies takes nothing with it: its
run is given to another, which continues from the last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from isotherm import files
from isotherm.experiments import pool, ray_pool
from isotherm.experiments.progress import Progress
from isotherm.experiments.records import RECORDS, Measured, Record, Records
from isotherm.experiments.study import Point
from isotherm.train import runs

ABOUT = "study.json"


class RunFailed(RuntimeError):
    """A run that cannot be carried out; the others are."""


@dataclass(frozen=True)
class About:
    """What a study's folder says of itself."""

    study: str
    scale: str
    data: str
    command: str
    seeds: int | None = None
    """Of every run, where that was asked for."""
    source: str = ""
    """The file or module outside this package that the study came from."""

    def as_dict(self) -> Mapping[str, str | int | None]:
        return asdict(self)


def begin(folder: Path, about: About) -> None:
    """Make a study's folder, or see that it is this study's."""
    path = folder / ABOUT
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; --out names a folder.")
    if path.exists():
        old = _about(path)
        for name in ("study", "scale", "data", "source"):
            before, now = getattr(old, name), getattr(about, name)
            moved = name == "source" and not Path(before.rpartition(":")[0]).exists()
            if before != now and not moved:
                raise ValueError(f"{folder} holds another study ({name}: {before}); choose another --out.")
    elif folder.exists() and any(p.name != "runs" and not p.name.startswith(".") for p in folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no study; choose another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    files.write_json(path, about.as_dict())


def about(folder: Path) -> About:
    """What a study's folder says of itself."""
    path = folder / ABOUT
    if not path.exists():
        raise ValueError(f"{folder} holds no study: it has no {ABOUT}. `isotherm study NAME --out {folder}` makes one.")
    return _about(path)


def _about(path: Path) -> About:
    try:
        stored = json.loads(path.read_text())
        return About(**{f.name: stored[f.name] for f in fields(About) if f.name in stored})
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged; delete it, and `isotherm study NAME --out {path.parent}` writes it again."
        ) from error


Show = Callable[[Progress], None]


def run_points(
    points: Sequence[Point], folder: Path, workers: int = 2, ray: str | None = None, show: Show = lambda progress: None
) -> Records:
    """Carry out every run that is not done, and write records.jsonl."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    distinct = list({p.config.key: p for p in points}.values())  # a run may stand in two tables
    progress = Progress.of(distinct, folder)
    show(progress)
    todo = [p for p in distinct if p.config.key not in progress.finished]
    if todo:
        steps = (
            ray_pool.carry_out_all(todo, folder, ray, progress)
            if ray is not None
            else pool.carry_out_all(todo, folder, workers, progress)
        )
        with runs.alone(folder):
            for _ in steps:
                show(progress)
    show(progress)
    records = Records(
        _record(p, progress.finished[p.config.key], folder) for p in points if p.config.key in progress.finished
    )
    files.write_text(folder / RECORDS, "".join(f"{r.as_json()}\n" for r in records))
    if progress.failed:
        key, why = next(iter(progress.failed.items()))
        name = next(p.name for p in points if p.config.key == key)
        raise RunFailed(f"{len(progress.failed)} of {len(distinct)} runs failed; the first, {name}: {why}")
    return records


def _record(point: Point, measured: Measured, folder: Path) -> Record:
    key = point.config.key
    settings = point.config.as_dict()
    place = folder / "runs" / key
    return Record(point.arm, point.varied, point.seed, key, measured.measures, measured.seconds, settings, place)
