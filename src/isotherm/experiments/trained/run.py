"""What any finished run knows of itself, whatever it learnt from."""

from __future__ import annotations

import json
from pathlib import Path

from isotherm import files
from isotherm.train import names, runs
from isotherm.train.result import RunResult


class TrainedRun:
    """A run's folder."""

    folder: Path

    @property
    def result(self) -> RunResult:
        return runs.read_result(self.folder)

    @property
    def last_loss(self) -> float | None:
        """Over a part of the training that does not depend on the batch, as an epoch does."""
        ends = [json.loads(line) for line in files.lines(self.folder / names.METRICS) if "loss_last_tenth" in line]
        return ends[-1]["loss_last_tenth"] if ends else None

    @property
    def step_seconds(self) -> float:
        return float(self.result.seconds / max(1, self.result.steps))
