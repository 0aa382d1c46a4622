"""`isotherm study --until-decided`: the grid of a study, then more seeds where they decide most, until all is said."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from isotherm.experiments.execute import Show, run_points
from isotherm.experiments.judging import judge
from isotherm.experiments.looks import Looks, next_step
from isotherm.experiments.points import at_scale, expand, instead_at
from isotherm.experiments.records import Records
from isotherm.experiments.study import Study


@dataclass(frozen=True)
class Asked:
    """Which runs of a study, and where they run."""

    study: Study
    scale: str
    data: str | None
    seeds: int | None
    folder: Path
    workers: int
    ray: str | None = None


def run_until_decided(
    asked: Asked, budget: float = math.inf, show: Show = lambda progress: None, say: Callable[[str], None] = print
) -> Records:
    """Run the grid, look, add the seeds that decide the most claims per second, look again.

    Ends when every claim is decided, when no seeds would help, or when `budget` seconds are spent: no run is begun
    after that. What was added is in the folder (`looks`), so that any later call goes on from there.
    """
    end = time.monotonic() + budget
    looks = Looks.of(asked.folder)
    while True:
        points = expand(asked.study, asked.scale, asked.data, asked.seeds, looks.seeds)
        records = run_points(points, asked.folder, asked.workers, asked.ray, show, until=end)
        left = end - time.monotonic()
        if left <= 0:
            looks.keep_only(records)
            points = expand(asked.study, asked.scale, asked.data, asked.seeds, looks.seeds)
            records = run_points(points, asked.folder, asked.workers, asked.ray, show, until=end)
        judged = judge(at_scale(asked.study, asked.scale), records.reading(instead_at(asked.study, asked.scale)))
        step = next_step(judged, records, left * asked.workers) if left > 0 else None
        open_claims = sum(each.verdict.outcome == "undecided" for each in judged)
        if step is not None:
            said = f"{open_claims} claims undecided; {step.why} (about {step.seconds / asked.workers / 60:.0f} min)"
        elif not open_claims:
            said = "every claim is decided"
        elif left <= 0:
            said = f"{open_claims} claims undecided, and the budget is spent"
        elif (dearer := next_step(judged, records)) is not None:
            said = (
                f"{open_claims} claims undecided; the next step, {dearer.why}, takes about "
                f"{dearer.seconds / asked.workers / 60:.0f} min, and the budget leaves {left / 60:.0f}"
            )
        else:
            said = f"{open_claims} claims undecided, which more seeds would not decide"
        looks.add(records, judged, step, said)
        say(said)
        if step is None:
            return records
