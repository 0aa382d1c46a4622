"""The runs below a folder, for `isotherm runs`: what each was, how far it came, what it knows. Without torch."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotherm.files import text_of
from isotherm.train.layers import read_yaml
from isotherm.train.names import CONFIG, FAILURE, LOCK, METRICS, REPLAY, RESULT

FAILED = (REPLAY, FAILURE)
"""What a run leaves that ended by itself in an error: its last batch, in a study the error's text."""
TAIL = 65_536
"""Bytes of a metrics file that are read, from its end."""


@dataclass(frozen=True)
class Listed:
    """One run of a list."""

    run: str
    data: str
    method: str
    loss: str
    seed: int | None
    step: int
    knn: float | None
    state: str
    """finished, running, failed (it ended in an error), killed, or damaged."""
    age: float
    """Seconds since something of it was written."""


def runs_below(folder: Path) -> Iterator[Listed]:
    """Every run in a folder and in those below it, in the order of their paths; folders of a run are not entered."""
    if not folder.is_dir():
        raise ValueError(f"no folder {folder}.")
    now = time.time()
    for place, folders, names in os.walk(folder):
        folders.sort()
        if CONFIG in names and (METRICS in names or RESULT in names):
            folders.clear()
            yield _listed(Path(place), folder, now)


def _listed(run: Path, folder: Path, now: float) -> Listed:
    path = os.fspath(run.relative_to(folder)) if run != folder else os.fspath(run)
    age = now - max(p.stat().st_mtime for p in (run / CONFIG, run / METRICS, run / RESULT) if p.exists())
    try:
        config = read_yaml(run / CONFIG)
        last = _last(run / METRICS)
        result = json.loads(text_of(run / RESULT)) if (run / RESULT).exists() else {}
        knn = result.get("measures", {}).get("knn")
        state = "finished" if result else "running" if _held(run / LOCK) else _how_it_ended(run)
        method, loss = _name(config.get("method")), _name(config.get("loss"), first_setting=True)
        data, seed, step = str(config.get("data")), _seed(config), int(result.get("steps", last.get("step", 0)))
    except (ValueError, TypeError, AttributeError, OSError, RecursionError):
        return Listed(path, "", "", "", None, 0, None, "damaged", age)
    return Listed(path, data, method, loss, seed, step, knn if isinstance(knn, float) else None, state, age)


def _seed(config: dict[str, Any]) -> int | None:
    seed = config.get("seed")
    if seed is not None and not isinstance(seed, int):
        raise ValueError(f"a seed is a whole number, not {seed!r:.20}")
    return seed


def _name(part: Any, first_setting: bool = False) -> str:
    """What a part of the settings is called, and its temperature; without one perhaps its first setting, if a number.

    Which settings are at their defaults is known to the code alone, which a list does not run.
    """
    if not isinstance(part, dict):
        return "" if part is None else str(part)
    name, temperature = str(part.get("name", "")), part.get("temperature")
    if temperature is not None:
        return f"{name} τ {_short(temperature)}"
    settings = [(key, value) for key, value in part.items() if key not in ("name", "code")]
    if not first_setting or not settings or type(settings[0][1]) not in (int, float):
        return name
    return "{} {} {}".format(name, *settings[0])


def _short(temperature: Any) -> str:
    """A number as it is; of a function of its own its name, of a learnt one where it began."""
    if not isinstance(temperature, dict):
        return str(temperature)
    name = str(temperature.get("name", ""))
    if name.rpartition(".")[2] != "Learnable":
        return name
    return f"learnt from {temperature['initial']}" if "initial" in temperature else "learnt"


def _how_it_ended(run: Path) -> str:
    """Of a run without a result at which nobody is at work."""
    return "failed" if any((run / name).exists() for name in FAILED) else "killed"


def _last(metrics: Path) -> dict[str, Any]:
    """The last whole line of a file of metrics, however long it is."""
    if not metrics.is_file():
        return {}
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - TAIL))
        lines = file.read().split(b"\n")[:-1]
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "step" in entry:
            return entry
    return {}


def _held(lock: Path) -> bool:
    """Whether a process is at work in the run's folder: it holds the lock as long as it lives."""
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
