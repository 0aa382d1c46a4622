"""`isotherm detect`: encoders fine-tuned as detectors on the same scenes with the same seeds, side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

import torch

from isotherm.checks import one_of
from isotherm.data.scenes import coco, drawn, voc
from isotherm.data.scenes.scene import Scenes
from isotherm.encoders.build import needed
from isotherm.evaluate.assessment import Note, Table
from isotherm.evaluate.detection.detector import detector, library
from isotherm.evaluate.detection.fit import fit, judged, weight_sum
from isotherm.evaluate.detection.schedules import SCHEDULES, Schedule
from isotherm.evaluate.models import RANDOM, Model, Wanted, open_model
from isotherm.evaluate.paired import Difference, paired
from isotherm.evaluate.targets import part_of
from isotherm.files import Json, write_json

Metrics = dict[str, dict[str, float | None]]
SHOWN = ("AP50", "AP", "AP75")
"""In the order of CACR's Table 7."""


@dataclass(frozen=True)
class Plan:
    """What is asked."""

    encoders: tuple[str, ...]
    on: str
    """scenes, scenes:DATA, voc:PATH or coco:PATH"""
    schedule: Schedule
    seeds: tuple[int, ...] = (0,)
    images: int | None = None
    """Training images, at most; of drawn scenes, how many."""
    tested: int | None = None
    out: Path | None = None


@dataclass(frozen=True, eq=False)
class Detection:
    """What came out, by encoder and seed."""

    plan: Plan
    train: Scenes
    test: Scenes
    metrics: dict[str, tuple[Metrics, ...]]
    notes: tuple[str, ...] = ()

    def values(self, encoder: str, kind: str, name: str) -> list[float]:
        """One per seed; nothing to ask counts as nothing right."""
        return [m[kind][name] or 0.0 for m in self.metrics[encoder]]

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("box", "mask") if self.plan.schedule.masks else ("box",)

    def difference(self, other: str, kind: str, name: str) -> Difference | None:
        """How much better the first encoder is than another, paired by seed."""
        first = self.values(next(iter(self.metrics)), kind, name)
        pairs = zip(first, self.values(other, kind, name), strict=True)
        return paired([a - b for a, b in pairs])

    def _as_dict(self, other: str, kind: str, name: str) -> Json | None:
        difference = self.difference(other, kind, name)
        return None if difference is None else difference.as_dict()

    def tables(self) -> list[Table]:
        columns = [(kind, name) for kind in self.kinds for name in SHOWN]
        heads = ("encoder", *(name if kind == "box" else f"mask {name}" for kind, name in columns), "seeds")
        rows = [
            (encoder, *(_mean(self.values(encoder, *column)) for column in columns), str(len(self.plan.seeds)))
            for encoder in self.metrics
        ]
        first, *others = self.metrics
        tables = [Table(heads, tuple(rows))]
        if others and len(self.plan.seeds) > 1:
            differences = [
                (f"{first} − {other}", *(str(self.difference(other, *column)) for column in columns))
                for other in others
            ]
            tables.append(Table(("difference (95 % over seeds)", *heads[1:-1]), tuple(differences)))
        return tables

    def lines(self) -> list[str]:
        how = self.plan.schedule
        kind = "Mask R-CNN" if how.masks else "Faster R-CNN"
        first = (
            f"{kind}, {how.shape.upper()}, {how.steps:,} steps of {min(how.batch, len(self.train))} images at "
            f"{how.rate:g}: {self.train.name} ({len(self.train):,} images), {self.test.name} ({len(self.test):,}); "
            "COCO's metrics in percent."
        )
        notes = [f"{part.name}: {note}" for part in (self.train, self.test) for note in part.notes]
        return [first, *self.notes, *notes]

    def as_dict(self) -> Json:
        first, *others = self.metrics
        return {
            "on": self.plan.on,
            "schedule": asdict(self.plan.schedule),
            "seeds": list(self.plan.seeds),
            "train": {"images": len(self.train), "notes": list(self.train.notes)},
            "test": {"images": len(self.test), "notes": list(self.test.notes)},
            "notes": list(self.notes),
            "encoders": {name: list(metrics) for name, metrics in self.metrics.items()},
            "differences": {
                other: {kind: {name: self._as_dict(other, kind, name) for name in SHOWN} for kind in self.kinds}
                for other in others
            },
            "first": first,
        }


def _mean(values: Sequence[float]) -> str:
    numbers = torch.tensor(values, dtype=torch.float64) * 100
    spread = f" ± {float(numbers.std()):.2f}" if len(values) > 1 else ""
    return f"{float(numbers.mean()):.2f}{spread}"


def kind_of(on: str) -> str:
    """Which schedule a set has: scenes, voc or coco."""
    return one_of("--on", on.partition(":")[0], list(SCHEDULES))


def open_scenes(on: str, masks: bool, images: int | None = None, tested: int | None = None) -> tuple[Scenes, Scenes]:
    """What is learnt from and what is asked."""
    kind, rest = kind_of(on), on.partition(":")[2]
    if kind == "scenes":
        behind = part_of(rest, ("train",), drawn.EDGE) if rest else None
        return drawn.read("train", images, backgrounds=behind), drawn.read("test", tested, backgrounds=behind)
    if not rest:
        raise ValueError(f"say where it is: --on {kind}:PATH.")
    folder = Path(rest).expanduser()
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; --on {kind}:PATH names one in {kind.upper()}'s layout.")
    read = voc.read if kind == "voc" else coco.read
    train, test = (read(folder, split, masks) for split in ("train", "test"))
    return train.with_objects().first(images), test.first(tested)


def detect(plan: Plan, wanted: Wanted = Wanted(), note: Note = lambda stage, detail: None) -> Detection:  # noqa: B008
    """Fine-tune every encoder with every seed, and judge it on the test part."""
    if not plan.encoders or not plan.seeds:
        raise ValueError("at least one encoder and one seed are wanted.")
    library()
    needed("pycocotools", "COCO's metrics")
    note("reading", plan.on)
    train, test = open_scenes(plan.on, plan.schedule.masks, plan.images, plan.tested)
    if train.classes != test.classes:
        raise ValueError(f"{plan.on}: the training part has other classes than the test part.")
    models = {source: open_model(source, wanted) for source in dict.fromkeys(plan.encoders)}
    for model in models.values():
        detector(model, len(train.classes), plan.schedule)  # refuses what is no ResNet before anything is trained
    metrics = {
        source: tuple(
            _one(source, _drawn(source, model, wanted, seed), train, test, plan, seed, note) for seed in plan.seeds
        )
        for source, model in models.items()
    }
    notes = tuple(f"{source}: {n}" for source, m in models.items() for n in (*m.notes, m.unfinished) if n)
    return Detection(plan, train, test, metrics, notes)


def _drawn(source: str, model: Model, wanted: Wanted, seed: int) -> Model:
    """Random weights are others with every seed."""
    return open_model(source, replace(wanted, seed=seed)) if source.startswith(RANDOM) else model


def _one(source: str, model: Model, train: Scenes, test: Scenes, plan: Plan, seed: int, note: Note) -> Metrics:
    """One fine-tuning, or what is kept of it."""
    name = "".join(c if c.isalnum() else "-" for c in source)[-60:]
    done = None if plan.out is None else plan.out / f"detect-{name}-{seed}.json"
    key = [asdict(plan.schedule), train.fingerprint(), test.fingerprint(), weight_sum(model.encoder), seed]
    key += [model.size, model.recipe.mean, model.recipe.std]
    key = json.loads(json.dumps(key))
    if done is not None and done.exists():
        try:
            held = json.loads(done.read_text())
            known, kept = held["key"], held["metrics"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{done} is damaged; delete it, and the fine-tuning is done anew.") from error
        if known != key:
            raise ValueError(f"{done} is of other settings or data; delete it or name another folder.")
        return cast(Metrics, kept)
    keep = None if plan.out is None else plan.out / f"detect-{name}-{seed}.pt"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = fit(model, train, plan.schedule, seed, device, keep, lambda stage: note(f"{source}, seed {seed}", stage))
    note(f"{source}, seed {seed}", "asking about the test part")
    metrics = judged(network, model, test, plan.schedule.masks)
    if done is not None:
        done.parent.mkdir(parents=True, exist_ok=True)
        write_json(done, {"key": key, "metrics": metrics})
    if keep is not None:
        keep.unlink(missing_ok=True)
    return metrics
