"""Runs a study: what is not done yet, in local processes or on a Ray cluster; killed anywhere, it goes on.

A run is done when its folder says so, or, where that is not at hand, its record, and when it learnt from the data that
is there now; its key is that of its settings. A worker that dies takes nothing with it: its run is given to another,
which continues from the last checkpoint.
"""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from isotherm import files
from isotherm.experiments import pool, ray_pool
from isotherm.experiments.progress import Progress
from isotherm.experiments.records import FORMER, RECORDS, Record, Records, as_lines, stored
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
    recorded: str = ""
    """The day of its last record, where the folder was published: files that were copied do not know it."""
    design: str = ""
    """The commit at which its first run began, where its file is in a repository."""

    def as_dict(self) -> Mapping[str, str | int | None]:
        return asdict(self)

    def report_from(self, folder: str) -> str:
        """The command that judges its records again; code that is not ours runs only where the person says so."""
        trust = f" --trust-code    # runs {self.source.rpartition(':')[0]}" if self.source else ""
        return f"isotherm report {shlex.quote(folder)}{trust}"


@contextmanager
def begin(folder: Path, about: About) -> Iterator[None]:
    """Make a study's folder, or see that it is this study's, and have it alone until the last file is written."""
    _refuse_others(folder, about)
    folder.mkdir(parents=True, exist_ok=True)
    with runs.alone(folder):
        _refuse_others(folder, about)  # somebody may have been here meanwhile
        if (folder / ABOUT).exists():
            about = replace(about, design=_about(folder / ABOUT).design)
        files.write_json(folder / ABOUT, about.as_dict())
        yield


def _refuse_others(folder: Path, about: About) -> None:
    path = folder / ABOUT
    file = Path(about.source.rpartition(":")[0])
    own = {"runs", *([file.name, "__pycache__"] if file.parent == folder.resolve() else [])}
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; --out names a folder.")
    if path.exists():
        old = _about(path)
        for name in ("study", "scale", "data", "source"):
            before, now = getattr(old, name), getattr(about, name)
            if before != now and not (name == "source" and _moved_or_same(before, now)):
                raise ValueError(f"{folder} holds another study ({name}: {before}); choose another --out.")
    elif folder.exists() and any(p.name not in own and not p.name.startswith(".") for p in folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no study; choose another --out.")


def _moved_or_same(before: str, now: str) -> bool:
    """Whether the file that a study came from is no longer there, or is this one by a shorter name."""
    path, thing = (before.rpartition(":")[i] for i in (0, 2))
    return not Path(path).exists() or f"{Path(path).resolve()}:{thing}" == now


def about(folder: Path) -> About:
    """What a study's folder says of itself."""
    path = folder / ABOUT
    if not path.exists():
        raise ValueError(f"{folder} holds no study: it has no {ABOUT}. `isotherm study NAME --out {folder}` makes one.")
    return _about(path)


def _about(path: Path) -> About:
    try:
        stored = json.loads(files.text_of(path))
        known = {f.name: stored[f.name] for f in fields(About) if f.name in stored}
        for name, value in known.items():
            if not isinstance(value, int | None if name == "seeds" else str):
                raise TypeError(f"{name} is {value!r:.60}")
        return About(**known)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged; delete it, and `isotherm study NAME --out {path.parent}` writes it again."
        ) from error


Show = Callable[[Progress], None]


def run_points(
    points: Sequence[Point],
    folder: Path,
    workers: int = 2,
    ray: str | None = None,
    show: Show = lambda progress: None,
    until: float = math.inf,
) -> Records:
    """Carry out every run that is not done; records.jsonl is written whenever one ends.

    After `until` (by `time.monotonic`) no further run is begun.
    The folder must be the caller's alone (`begin`).
    """
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    _keep_damaged(folder / RECORDS)
    _keep_damaged(folder / FORMER)
    distinct = list({p.config.key: p for p in points}.values())  # a run may stand in two tables
    progress = Progress.of(distinct, folder)
    progress.until = until
    progress.compare_data()
    ledger = Ledger(points, progress)
    ledger.write()
    show(progress)
    todo = sorted(progress.todo, key=lambda point: point.seed)  # wherever this is stopped, what is compared is paired
    if todo:
        steps = (
            ray_pool.carry_out_all(todo, ray, progress)
            if ray is not None
            else pool.carry_out_all(todo, workers, progress)
        )
        for _ in steps:
            ledger.write()
            show(progress)
    show(progress)
    records = ledger.write()
    if progress.failed:
        key, why = next(iter(progress.failed.items()))
        name = next(p.name for p in points if p.config.key == key)
        raise RunFailed(f"{len(progress.failed)} of {len(distinct)} runs failed; the first, {name}: {why}")
    return records


class Ledger:
    """records.jsonl, which has every run of the grid, and is whole whenever the runner is killed."""

    def __init__(self, points: Sequence[Point], progress: Progress) -> None:
        self.points, self.progress = points, progress
        self._ended: dict[int, Record] = {}
        self._written = -1
        former = progress.former()
        if former:
            files.write_text(progress.folder / FORMER, as_lines(former))

    def write(self) -> Records:
        """Write what has changed since it was written last."""
        progress = self.progress
        records = [self._ended.get(i) or progress.record(point) for i, point in enumerate(self.points)]
        self._ended = {i: record for i, record in enumerate(records) if record.state != "planned"}
        if len(self._ended) != self._written:
            files.write_if_new(progress.folder / RECORDS, as_lines(records))
            self._written = len(self._ended)
        return Records(records)


def _keep_damaged(path: Path) -> None:
    """Put records that cannot be read beside, before they are written anew."""
    try:
        stored(path, path.parent)
    except ValueError:
        kept = (path.with_suffix(f".{number}.damaged" if number else ".damaged") for number in itertools.count())
        path.rename(next(place for place in kept if not place.exists()))
