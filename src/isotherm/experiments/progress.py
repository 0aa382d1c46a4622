"""How the grid of a study stands, for whoever shows it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from isotherm.experiments.measuring import done
from isotherm.experiments.records import Measured
from isotherm.experiments.study import Point
from isotherm.train import runs


@dataclass
class Progress:
    """Which runs of the grid are done, running or failed."""

    points: Sequence[Point]
    folder: Path
    finished: dict[str, Measured] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    """Key and when it began."""
    failed: dict[str, str] = field(default_factory=dict)
    retried: int = 0
    began: float = field(default_factory=time.monotonic)
    before: int = 0
    """How many were done when this began."""

    @classmethod
    def of(cls, points: Sequence[Point], folder: Path) -> Progress:
        """With what the folder has of these runs."""
        progress = cls(points, folder)
        for point in points:
            measured = done(folder / "runs" / point.config.key, point.measure)
            if measured is not None:
                progress.finished[point.config.key] = measured
        progress.before = len(progress.finished)
        return progress

    def latest(self, key: str) -> str:
        """The last line that a run has written about itself."""
        path = self.folder / "runs" / key / runs.METRICS
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
        todo = len(self.points) - len(self.finished) - len(self.failed)
        return (time.monotonic() - self.began) / new * todo
