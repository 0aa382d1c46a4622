"""What any finished run knows of itself, whatever it learnt from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from isotherm.train import runs


class TrainedRun:
    """A run's folder."""

    folder: Path

    @property
    def result(self) -> dict[str, Any]:
        return runs.read_result(self.folder)

    @property
    def last_loss(self) -> float | None:
        lines = [json.loads(line) for line in (self.folder / runs.METRICS).read_text().splitlines()]
        losses = [line["loss_mean"] for line in lines if line.get("loss_mean") is not None]
        return losses[-1] if losses else None

    @property
    def step_seconds(self) -> float:
        return float(self.result["seconds"] / max(1, self.result["steps"]))
