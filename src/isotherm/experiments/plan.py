"""What a study would cost, before it starts: runs of one kind, and a few steps of each."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from isotherm.data.sentences import is_text
from isotherm.data.sets import there
from isotherm.evaluate.image_text import check_zero_shot
from isotherm.experiments.study import Point
from isotherm.experiments.trained import trained
from isotherm.experiments.trained.image_text import VALIDATION
from isotherm.measures.catalogue import in_groups
from isotherm.measures.measure import take
from isotherm.measures.pairs import zero_shot_sets
from isotherm.train import names
from isotherm.train.config import Config, Runtime
from isotherm.train.devices import fabric_for, keep_freed_memory
from isotherm.train.layers import Settings, flat
from isotherm.train.loop import Run, steps_of
from isotherm.train.modality import ImageTextModality, first_run, modality_of, sentences
from isotherm.train.modality.image_text import pairs_of, view_of
from isotherm.train.modality.images import images_of
from isotherm.types import Batch

STEPS = 10
"""Timed steps of each kind, after one that is not; their median counts."""
ENOUGH = 4.0
"""Seconds after which fewer do."""
FREE = (
    *("seed", "epochs", "steps", "lr", "milestones", "warmup", "warmup_part"),
    *("randbit", "digits"),
)
"""Settings that hardly change what a step costs."""
MEASURED_ALIKE = (
    "data",
    "data_options",
    "split",
    "test",
    "images",
    "imbalance",
    "encoder",
    "text_encoder",
    "head",
    "size",
    "monitor",
    "monitor_images",
)
"""Settings on which it depends what measuring a run costs."""


@dataclass
class Kind:
    """Runs whose steps cost the same."""

    name: str
    step: float
    """Seconds of a step on one core of this machine that does nothing else."""
    per_epoch: int
    """Steps."""
    views_per_step: int
    measuring: float = 0.0
    """Seconds that a run takes besides its steps: to open, to be looked at on the way, and to be measured."""
    runs: int = 0
    steps: int = 0
    """Of all its runs together."""

    @property
    def seconds(self) -> float:
        return self.steps * self.step + self.runs * self.measuring

    @property
    def views(self) -> int:
        return self.steps * self.views_per_step


def check_data(points: Sequence[Point]) -> None:
    """Refuse data that is not there, cannot be read or is too small, before anything runs."""
    seen = set()
    for point in points:
        config = point.config
        asked = (config.data, str(config.data_options), config.split, config.images, config.imbalance)
        if asked not in seen:
            seen.add(asked)
            if modality_of(config) is ImageTextModality:
                chosen_on = [VALIDATION] if VALIDATION in point.measure else []
                for split in dict.fromkeys((config.split, config.test, *chosen_on)):
                    pairs_of(config, split, view_of(config).views[0].size)
                for data in zero_shot_sets(in_groups(point.measure)):
                    check_zero_shot(data)
            elif is_text(config.data):
                sentences.read(config)
            else:
                there(config.data)
                images_of(config, config.split)


def kinds(points: Sequence[Point], note: Callable[[str], None] = lambda name: None) -> list[Kind]:
    """Every kind of run, with the cost of its steps."""
    by_cost: dict[str, Kind] = {}
    measuring: dict[str, float] = {}
    names = _names(points)
    for point in {p.config.key: p for p in [*_first(points), *points]}.values():
        key = _key(point.config)
        if key not in by_cost:
            name = names.get(key, point.arm)
            note(name)
            by_cost[key] = timed(name, point, measuring)
        by_cost[key].runs += 1
        by_cost[key].steps += steps_of(point.config, by_cost[key].per_epoch)
    return list(by_cost.values())


def _names(points: Sequence[Point]) -> dict[str, str]:
    """What each kind is called: its arm and batch, and what else tells it from others that are called so."""
    alike: dict[str, dict[str, Settings]] = {}
    for point in points:
        called = f"{point.arm}, batch {point.config.batch}"
        alike.setdefault(called, {})[_key(point.config)] = flat(json.loads(_key(point.config)))
    names: dict[str, str] = {}
    for called, kinds in alike.items():
        settings = dict.fromkeys(name for each in kinds.values() for name in each)
        telling = [name for name in settings if len({str(each.get(name)) for each in kinds.values()}) > 1]
        for key, each in kinds.items():
            said = [f"{name} {each[name]}" for name in telling if name in each and name != "loss"]
            names.setdefault(key, ", ".join([called, *said[:2]]))
    return names


def _first(points: Sequence[Point]) -> list[Point]:
    """The runs of masked words that some begin with and nobody has made yet; they are not measured."""
    found = {}
    for point in points:
        first, place = first_run.before(point.config), first_run.folder(point.config)
        if first is not None and place is not None and not (place / names.RESULT).exists():
            found[first.key] = Point("masked words first", {}, 0, first, ())
    return list(found.values())


def timed(name: str, point: Point, measuring: dict[str, float]) -> Kind:
    """The cost of a step, from a few of them, and of measuring a run; `measuring` keeps what is known of that."""
    config, threads = first_run.without(point.config), torch.get_num_threads()
    torch.set_num_threads(1)
    keep_freed_memory()
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Runtime(out=Path(folder), quiet=True, prefetch=0)
            opening = time.process_time()
            run = Run(fabric_for(config, place), config, place)
            opening = time.process_time() - opening
            with run.closing():
                run.state.method.train()
                now, times, views = _clock(run), [], 0
                for batch, began in _until_enough(run.loader.epoch(0), now):
                    views = len(batch.views) * len(batch.indices)
                    run.advance(batch)
                    times.append(now() - began)
                same = json.dumps([config.as_dict()[k] for k in MEASURED_ALIKE], sort_keys=True)
                if same not in measuring:
                    measuring[same] = opening + _measured(run, point.measure)
            return Kind(name, statistics.median(times[1:] or times), len(run.loader), views, measuring[same])
    finally:
        torch.set_num_threads(threads)


def _clock(run: Run) -> Callable[[], float]:
    """Processor time where the processor does the work: whatever else runs here does not count."""
    return time.process_time if run.fabric.device.type == "cpu" else time.perf_counter


def _until_enough(batches: Iterator[Batch], now: Callable[[], float]) -> Iterator[tuple[Batch, float]]:
    """Batches to be timed, each with the time at which it was asked for."""
    first = now()
    for _ in range(STEPS + 1):
        began = now()
        batch = next(batches, None)
        if batch is None or began - first > ENOUGH:
            return
        yield batch, began


def _measured(run: Run, groups: Sequence[str]) -> float:
    """Seconds that looks on the way, and measuring a run as it is now, take; what is read from its files takes none."""
    now, looks = _clock(run), run.config.monitor
    began = now()
    if looks:
        run.monitored(run.config.monitor_images)
    look = now() - began
    began = now()
    run.monitored()
    if groups:
        take([m for m in in_groups(groups) if "run" not in m.needs], trained(run.opened()))
    return looks * look + now() - began


def _key(config: Config) -> str:
    """The same for runs whose steps cost the same: a loss by its name, whatever its temperature."""
    plain = {k: v for k, v in config.as_dict().items() if k not in FREE}
    plain["loss"] = {k: v for k, v in plain["loss"].items() if isinstance(v, str)}
    plain["data_options"] = {k: v for k, v in plain["data_options"].items() if k != "bits"}
    return json.dumps(plain, sort_keys=True)
