"""`isotherm evaluate ENCODER --suite NAME`: every set of a suite that is here, with every probe and seed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from isotherm.data import fingerprints
from isotherm.data.images import Images
from isotherm.evaluate.assessment import Note
from isotherm.evaluate.measured import Measured, Suited
from isotherm.evaluate.models import Model
from isotherm.evaluate.suite import Entry, Suite
from isotherm.evaluate.targets import Target, open_target
from isotherm.files import write_json
from isotherm.probes.extract import count_classes
from isotherm.probes.finetune import SEARCHED, finetuned
from isotherm.probes.knn import knn_votes
from isotherm.probes.linear import chosen
from isotherm.probes.multi_label import multi_label_linear
from isotherm.probes.ranking import mean_auc
from isotherm.probes.scores import multi_label_score
from isotherm.probes.splits import few_shot_split

DECAYS = (0.0, 1e-3)
"""Weight decays that fine-tuning chooses from, beside its rates, on held-out shots."""
HELD_OUT, SINGLE = 0.25, 1e-2
"""As the few-shot probe: the share of the shots that chooses the regularisation, and what it is for a single shot."""
NEIGHBOURS = 20


def run_suite(suite: Suite, model: Model, out: Path | None = None, note: Note = lambda stage, detail: None) -> Suited:
    """Every set that is here; in a folder `out` what is finished is kept, and is not done again."""
    suite.check()
    measured: list[Measured] = []
    skipped: list[tuple[str, str]] = []
    for entry in suite.entries:
        if entry.missing:
            skipped.append((entry.name, entry.missing))
            continue
        try:
            job = Job(entry, suite, model, out, note)
            measured += [job.result(probe) for probe in suite.probes]
        except (ValueError, FileNotFoundError) as error:  # the others are worth having
            skipped.append((entry.name, str(error)))
    if not measured:
        first = f" ({skipped[0][0]}: {skipped[0][1]})" if skipped else ""
        raise ValueError(f"no set of the suite {suite.name} can be run here{first}")
    return Suited(suite.name, model.name, tuple(measured), tuple(skipped), model.unfinished, model.notes)


@dataclass(frozen=True, eq=False)
class Job:
    """One set for one model; what is needed is read and computed when it is asked for, once."""

    entry: Entry
    suite: Suite
    model: Model
    out: Path | None
    note: Note

    def result(self, probe: str) -> Measured:
        """A probe's, from the folder where it is finished already."""
        file = self._file(probe)
        if file is not None and file.exists():
            return _kept(file)
        result = self._measure(probe)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, result.as_dict())
        return result

    def _file(self, probe: str, ending: str = "json") -> Path | None:
        """Where a result lies: its name says all that it depends on."""
        if self.out is None:
            return None
        model = self.model
        total = sum(float(p.double().abs().sum()) for p in model.encoder.state_dict().values())
        how = [SEARCHED, DECAYS, HELD_OUT, NEIGHBOURS]
        told = [how, vars(self.entry), probe, self.suite.seeds, self.suite.epochs, model.size, model.recipe.mean, total]
        told += [model.recipe.std, self.data]
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
        name = "".join(c if c.isalnum() else "-" for c in self.entry.name)[-40:]
        return self.out / f"{name}-{probe}-{digest}.{ending}"

    @cached_property
    def target(self) -> Target:
        self.note(f"reading {self.entry.name}", "")
        target = open_target(self.entry.data, self.model)
        if target.several != (self.entry.metric == "11-point-map"):
            kind = "may show several classes: its metric is 11-point-map" if target.several else "shows one class"
            raise ValueError(f"an image of {self.entry.name} {kind}, got {self.entry.metric}.")
        return target

    @cached_property
    def data(self) -> list[str]:
        """What tells the images at hand from others of the same name."""
        return [fingerprints.of_images(part) for part in (self.target.train, self.target.test)]

    @cached_property
    def classes(self) -> int:
        train, test = self.target.train, self.target.test
        return count_classes(train.labels, test.labels, len(train.classes) or None)

    @cached_property
    def draws(self) -> dict[int, Tensor]:
        """Which training images each seed gives."""
        train, shots = self.target.train, self.entry.shots
        if shots is None:
            return dict.fromkeys(self.suite.seeds, torch.arange(len(train)))
        if self.target.several:
            return {seed: _several_shots(train, shots, seed) for seed in self.suite.seeds}
        return {seed: few_shot_split(train.labels, shots, seed)[0] for seed in self.suite.seeds}

    @cached_property
    def drawn(self) -> tuple[Tensor, Tensor]:
        """The training images that any seed gives, and their features."""
        union = torch.unique(torch.cat(list(self.draws.values())))
        return union, self.target.features(self.model, "train", union)

    @cached_property
    def asked(self) -> Tensor:
        """The features of the test images."""
        return self.target.features(self.model, "test")

    def _measure(self, probe: str) -> Measured:
        entry, test = self.entry, self.target.test
        several_seeds = entry.shots is not None or probe == "finetune"
        seeds = self.suite.seeds if several_seeds else self.suite.seeds[:1]
        values, right = [], []
        for seed in seeds:
            self.note(f"{entry.name}: {probe}", f"seed {seed}")
            logits = self._logits(probe, seed)
            values.append(value_of(entry.metric, logits, self.target))
            right.append(logits.argmax(1) == test.labels)
        by_item = entry.metric in ("accuracy", "mean-per-class")
        return Measured(
            entry.name,
            probe,
            entry.metric,
            tuple(values),
            tuple(seeds),
            self.target.items,
            Measured.packed(right) if by_item else (),
            Measured.weighed(_weights(test.labels)) if entry.metric == "mean-per-class" else "",
            len(test),
            self.target.notes,
            entry.shots,
            self.suite.epochs if probe == "finetune" else None,
        )

    def _logits(self, probe: str, seed: int) -> Tensor:
        """What a probe that learnt from a seed's images says about every class of the test images."""
        draw, target, shots = self.draws[seed], self.target, self.entry.shots
        if probe == "finetune":
            _, logits = finetuned(
                *(self.model.encoder, target.train.subset(draw), target.test, self.model.recipe),
                target.class_weights,
                self.suite.epochs,
                lr=None if shots == 1 else "search",  # a single shot leaves none to choose on
                weight_decay=0.0 if shots == 1 else DECAYS,
                seed=seed,
                size=self.model.size,
                keep=self._file(probe, f"{seed}.pt"),
            )
            return logits
        union, features = self.drawn
        x = features[torch.searchsorted(union, draw)]
        if target.several:
            return multi_label_linear(x, target.train.subset(draw), self.asked, target.test, seed, HELD_OUT)[1]
        labels = target.train.labels[draw]
        if probe == "knn":
            return knn_votes(x, labels, self.asked, min(NEIGHBOURS, len(draw)), self.classes)
        held_out = 0.1 if shots is None else HELD_OUT
        classifier, _ = chosen(x, labels, self.classes, SINGLE if shots == 1 else None, held_out, seed)
        with torch.no_grad():
            answers: Tensor = classifier(self.asked)
        return answers


def _kept(file: Path) -> Measured:
    try:
        return Measured.from_dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} is damaged; delete it, and it is measured again.") from error


def _several_shots(train: Images, shots: int, seed: int) -> Tensor:
    """So many images that show a class, for every class; an image that shows several counts for each."""
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
    taken = []
    for name in train.classes:
        shown = order[train.more_labels[name][order] == 1]
        if len(shown) < shots:
            raise ValueError(f"class {name} is shown by {len(shown)} training images, cannot draw {shots}.")
        taken.append(shown[:shots])
    together: Tensor = torch.unique(torch.cat(taken))
    return together


def value_of(metric: str, logits: Tensor, target: Target) -> float:
    """The number of a set's metric."""
    if metric == "11-point-map":
        truth = torch.stack([target.test.more_labels[name] for name in target.test.classes], 1)
        return multi_label_score("", logits, truth, None).mean_ap
    labels = target.test.labels
    if metric == "roc-auc":
        area = mean_auc(logits, labels)
        if area is None:
            raise ValueError(f"{target.name} has one class in its test part; its ROC needs two.")
        return area
    right = (logits.argmax(1) == labels).double()
    return float((right * _weights(labels)).mean()) if metric == "mean-per-class" else float(right.mean())


def _weights(labels: Tensor) -> Tensor:
    """What makes the mean over items the mean over classes."""
    counts = torch.bincount(labels).double()
    return len(labels) / (int((counts > 0).sum()) * counts[labels])
