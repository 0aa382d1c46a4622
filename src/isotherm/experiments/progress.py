"""How the grid of a study stands, for whoever shows it."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from isotherm.data.fingerprints import same
from isotherm.experiments.data_at_hand import fingerprints
from isotherm.experiments.measuring import ASIDE, done, put_aside
from isotherm.experiments.records import FORMER, RECORDS, Measured, Record, stored, training_of
from isotherm.experiments.study import Point
from isotherm.train import names
from isotherm.train.config import Config

Task = tuple[Config, Path, Sequence[str], str]
"""What a worker is given: a run's settings, its folder, the groups of measures to take, the data's fingerprint."""


@dataclass
class Progress:
    """Which runs of the grid are done, running or failed."""

    points: Sequence[Point]
    folder: Path
    finished: dict[str, Measured] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    """Key and when it began."""
    failed: dict[str, str] = field(default_factory=dict)
    """Key and why, in a sentence."""
    until: float = math.inf
    """When (by `time.monotonic`) no further run is begun."""
    retried: int = 0
    began: float = field(default_factory=time.monotonic)
    before: int = 0
    """How many were done when this began."""
    notes: list[str] = field(default_factory=list)
    """What the person should know of the runs that were done before."""
    data: dict[str, str] = field(default_factory=dict)
    """The fingerprint of each run's data as it is now."""
    _stored: dict[str, Record] = field(default_factory=dict)
    """What earlier records say of finished runs."""
    _all: dict[tuple[str, str], Record] = field(default_factory=dict)
    """The same on every data that they were made on, by key and fingerprint."""

    @classmethod
    def of(cls, points: Sequence[Point], folder: Path) -> Progress:
        """With what the folder has of these runs; where a run's own folder is not at hand, its record counts."""
        progress = cls(points, folder)
        for name in (FORMER, RECORDS):
            with contextlib.suppress(ValueError):  # damaged: what the runs' folders have counts
                for record in stored(folder / name, folder / "runs"):
                    if record.finished:
                        progress._stored[record.key] = progress._all[record.key, record.fingerprint] = record
        for point in points:
            key = point.config.key
            measured = done(progress.place(key), point.measure)
            if measured is None and key in progress._stored and not progress.place(key).exists():
                known = progress._stored[key].measured
                measured = known if known.has(point.measure) else None
            if measured is not None:
                progress.finished[key] = measured
        progress.before = len(progress.finished)
        return progress

    @property
    def todo(self) -> list[Point]:
        """Runs that are neither done nor given up."""
        return [p for p in self.points if p.config.key not in self.finished and p.config.key not in self.failed]

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() >= self.until

    def place(self, key: str) -> Path:
        """A run's folder."""
        return self.folder / "runs" / key

    def task(self, point: Point) -> Task:
        key = point.config.key
        return point.config, self.place(key).resolve(), tuple(point.measure), self.data.get(key, "")

    def hear(self, key: str, answer: Measured | str) -> None:
        """Take what came of a run: its measures, or why it failed."""
        self.running.pop(key, None)
        if isinstance(answer, Measured):
            self.finished[key] = answer
        else:
            self.failed[key] = answer

    def compare_data(self) -> None:
        """Runs on other data than is there now are not done: their folders are put aside, and they are made again."""
        self.data = fingerprints(point.config for point in self.points)
        known = {key: measured.fingerprint for key, measured in self.finished.items()}
        other = [key for key, data in known.items() if data and self.data[key] and not same(data, self.data[key])]
        for key in other:
            del self.finished[key]
            if self.place(key).exists():
                put_aside(self.place(key))
        self.before = len(self.finished)
        not_here = sum(bool(data) and not self.data[key] for key, data in known.items())
        says = {
            f"are made again: the data behind the name has changed since (former folders: runs/{ASIDE})": len(other),
            "are taken as they are: the data that they would be compared with is not here": not_here,
        }
        self.notes += [f"Runs that were done before, {count}, {what}." for what, count in says.items() if count]

    def record(self, point: Point) -> Record:
        """A run as it stands."""
        key, settings = point.config.key, point.config.as_dict()
        place = self.place(key)
        names = (point.arm, point.varied, point.seed, key)
        measured = self.finished.get(key)
        if measured is None:
            why = self.failed.get(key, "")
            return Record(*names, {}, 0.0, settings, place, "failed" if why else "planned", why)
        before = self._stored.get(key)
        training = training_of(place) if place.exists() or before is None else before.training
        return Record(
            *names,
            measured.measures,
            measured.seconds,
            settings,
            place,
            groups=measured.groups,
            versions=measured.versions,
            fingerprint=measured.fingerprint,
            warnings=measured.warnings,
            training=training,
        )

    def former(self) -> list[Record]:
        """Records of finished runs that are made again, or not asked for now: other data or seeds, arms that are gone.

        What was once in `FORMER` stays there, unless it is asked for again.
        """
        now = {(key, measured.fingerprint) for key, measured in self.finished.items()}
        return [record for each, record in self._all.items() if each not in now]

    def latest(self, key: str) -> str:
        """The last line that a run has written about itself."""
        path = self.place(key) / names.METRICS
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 2000))
                lines = file.read().splitlines()
            line = json.loads(lines[-1])
        except (OSError, IndexError, ValueError):
            return "starting"
        loss = line.get("loss", line.get("loss_mean"))
        epoch = f"epoch {line['epoch']}" if "epoch" in line else f"step {line.get('step')}"
        return f"{epoch}, loss {loss:.3f}" if isinstance(loss, float) else epoch

    def seconds_left(self) -> float | None:
        """Seconds until all is done, if that can be said."""
        new = len(self.finished) - self.before
        if new < 1:
            return None
        return (time.monotonic() - self.began) / new * len(self.todo)
