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
        lines = [json.loads(line) for line in files.lines(self.folder / names.METRICS)]
        losses = [line["loss_mean"] for line in lines if line.get("loss_mean") is not None]
        return losses[-1] if losses else None

    @property
    def step_seconds(self) -> float:
        return float(self.result.seconds / max(1, self.result.steps))
