r"""What the embedding of a sentence knows about it: SentEval's seven transfer tasks by logistic regression.

.. math:: \min_{w, b} \; C \sum_i \log(1 + e^{-y_i (w \cdot z_i + b)}) + \frac{1}{2} \|w\|^2

:math:`y_i` is the class as ±1; TREC's six classes take the softmax instead. This is SentEval's protocol
(arXiv:1803.05449) with its scikit-learn classifier, :math:`C` its strength:

- MR, CR, SUBJ, MPQA: ten stratified folds. In the training part of each, ten inner ones choose C from `GRID`; the
  accuracy is the mean over the outer folds.
- SST-2: the dev part chooses C from `GRID`, the training part is fitted, the test part asked.
- TREC, MRPC: ten folds of the training part choose C from `GRID_TRAIN_TEST`; the test part is asked. The features of
  MRPC's pairs are abs(u − v) and u ∗ v.

As in SentEval, features are taken as they are (not standardised), the items are in the order of their length before the
folds are drawn, the accuracies that choose C are rounded to a hundredth of a percent, and of equally good C the first
wins: the strongest regularisation. Blank lines (4 in CR, 3 in MPQA) are sentences.

Differs from SentEval: its default classifier, which SimCSE reports, is a softmax trained by Adam with early stopping
and weight decays of its own; ours is solved to its optimum, draws no random numbers but the folds, and gives about the
same accuracies, not the same digits. Its scikit-learn classifier is whatever that library's default was: before 0.22
the bias was regularised too. Files that are UTF-8 are read as such, where SentEval takes Latin-1. The result is not
rounded.

The folds inside folds make 600 problems per task that differ in the rows they may see and in their strength only. They
are solved together: one matrix product gives the logits of all, one their gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.checks import at_least
from isotherm.data import senteval
from isotherm.data.senteval import Classified
from isotherm.files import Json
from isotherm.probes.logistic import MOST_STEPS, predicted_classes, solve
from isotherm.probes.scores import as_json
from isotherm.probes.splits import folds as stratified_folds
from isotherm.probes.sts import Embedded, Encode, suite_line, tasks_asked_for

ALL = senteval.TRANSFER
GRID = tuple(2.0**t for t in range(-2, 4))
"""Strengths (scikit-learn's C) to choose from, strong regularisation to weak; SentEval's for its scikit-learn
classifier …"""
GRID_TRAIN_TEST = tuple(2.0**t for t in range(-1, 6))
"""… and those it takes where there is a train and a test part, but no dev part: TREC and MRPC."""
LOGITS = 1 << 21
"""Logits at once (8 MB in float32): the 100 problems of one strength, 10,000 sentences each, are half of it."""
COARSE = 1e-4
"""A problem is solved when a step moves no sentence's logit by more than this: one of the choices, in float32 …"""
FINE = 1e-9
"""… and the final fit, in float64."""


@dataclass(frozen=True)
class Result:
    """How often logistic regression of the embeddings is right on one task. Shares lie between 0 and 1."""

    name: str
    accuracy: float
    """On the test part; where there is none, the mean over the outer folds."""
    n: int
    """Items it was asked about."""
    strengths: tuple[float, ...]
    """The chosen C, one for each outer fold, or the one."""
    validation: float
    """The accuracy they were chosen by: on the dev part, or cross-validated (and then the mean over outer folds)."""
    folds: tuple[float, ...] = ()
    """The accuracy on each outer fold; empty where there is a test part."""
    sd: float | None = None
    """Standard deviation of the `folds` (n − 1): they share training items, so it is no standard error."""
    f1: float | None = None
    """Of class 1, for MRPC."""


@dataclass(frozen=True)
class Transfer:
    """What `transfer` found."""

    tasks: Mapping[str, Result]
    """Those that were there."""
    missing: tuple[str, ...]
    """Those asked for that were not there, or not whole."""
    average: float
    """The mean of the `tasks`' accuracies. It is the published "Avg." only if `complete`."""
    complete: bool
    """Whether all seven tasks are there."""
    seed: int
    """Of the folds."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""

    def as_dict(self) -> Json:
        """Everything, ready for JSON."""
        return dict(as_json(self))

    def __str__(self) -> str:
        return suite_line({name: task.accuracy for name, task in self.tasks.items()}, self.average, self.complete)


@torch.no_grad()
def transfer(
    encode: Encode,
    folder: Path | str | None = None,
    tasks: Sequence[str] = ALL,
    seed: int = 1111,
    folds: int = 10,
    note: Callable[[str], None] = lambda name: None,
) -> Transfer:
    """How often logistic regression of frozen sentence embeddings is right, on SentEval's seven transfer tasks.

    The protocol is that of the head of this file, with `folds` folds drawn with `seed`. A task with a missing file is
    named and the rest is evaluated. `note` is told each task's name before it starts.
    """
    wanted = tasks_asked_for(tasks, ALL)
    at_least(2, folds=folds)
    at_least(0, seed=seed)
    root = senteval.folder(folder)
    there, notes = _tasks_there(root, wanted)
    for task, parts in there.items():
        _enough(task, parts, folds)
    results = {}
    for task, parts in there.items():
        note(task)
        results[task], solved = _task(task, parts, encode, seed, folds)
        if not solved:
            notes.append(f"{task}: a fit stopped after {MOST_STEPS} steps, short of its optimum.")
    missing = tuple(task for task in wanted if task not in results)
    average = float(np.mean([result.accuracy for result in results.values()]))
    return Transfer(results, missing, average, tuple(results) == ALL, seed, tuple(notes))


def _tasks_there(root: Path, wanted: Sequence[str]) -> tuple[dict[str, Mapping[str, Classified]], list[str]]:
    """The parts of the tasks whose files are all there, and a note about each of the others."""
    there: dict[str, Mapping[str, Classified]] = {}
    notes = []
    for task in wanted:
        parts, missing = senteval.classified(root, task)
        if missing:
            notes.append(f"{task} was left out: no {', '.join(missing)}.")
        else:
            there[task] = parts
    if not there:
        raise ValueError(
            f"{root} holds none of {', '.join(wanted)}. SentEval's layout is expected: MR/rt-polarity.pos, "
            "SST/binary/sentiment-train, TREC/train_5500.label, MRPC/msr_paraphrase_train.txt and so on."
        )
    return there, notes


def _enough(task: str, parts: Mapping[str, Classified], folds: int) -> None:
    """Refuse classes with fewer items than there are folds to spread them over, before anything is encoded."""
    labels = next(iter(parts.values())).labels
    for label in range(_classes(task)):
        count = labels.count(label)
        if not count:
            raise ValueError(f"{task} has nothing of class {label} to fit on. Get its files again.")
        left = count - math.ceil(count / folds) if "all" in parts else count
        if left < folds and task != "SST-2":
            raise ValueError(f"{task} has {count} items of class {label}, too few for {folds} folds. Use fewer folds.")


def _classes(task: str) -> int:
    return len(senteval.QUESTIONS) if task == "TREC" else 2


def _task(name: str, parts: Mapping[str, Classified], encode: Encode, seed: int, folds: int) -> tuple[Result, bool]:
    """The result, and whether every fit reached its optimum."""
    ordered = {part: _ordered(items) for part, items in parts.items()}
    labels = torch.tensor([label for items in ordered.values() for label in items.labels])
    problem = Problem(_features(encode, list(ordered.values())), labels, _classes(name))
    indices = _places(ordered)
    grid = GRID_TRAIN_TEST if set(parts) == {"train", "test"} else GRID
    whole = "all" in parts
    outer = stratified_folds(indices["all"], labels, folds, seed) if whole else [(indices["train"], indices["test"])]
    if "dev" in parts:
        inner = [(indices["train"], indices["dev"])]
    else:
        inner = [split for fit, _ in outer for split in stratified_folds(fit, labels, folds, seed)]
    validated, choices_solved = problem.validated(inner, grid)
    accuracy = validated.view(len(outer), -1, len(grid)).mean(1)
    best = [_first_best(row) for row in accuracy.tolist()]
    strengths = tuple(grid[i] for i in best)
    predicted, fits_solved = problem.predicted([fit for fit, _ in outer], strengths)
    solved = choices_solved and fits_solved
    right = [float((p[test] == labels[test]).double().mean()) for p, (_, test) in zip(predicted, outer, strict=True)]
    validation = float(np.mean([row[i] for row, i in zip(accuracy.tolist(), best, strict=True)]))
    asked = sum(len(test) for _, test in outer)
    if whole:
        sd = float(np.std(right, ddof=1))
        return Result(name, float(np.mean(right)), asked, strengths, validation, tuple(right), sd), solved
    test = indices["test"]
    f1 = _f1(predicted[0][test], labels[test]) if name == "MRPC" else None
    return Result(name, right[0], asked, strengths, validation, f1=f1), solved


def _ordered(items: Classified) -> Classified:
    """In the order of length and class, as SentEval sorts them to pad less: the folds depend on it."""
    words = [[len(s.split()) for s in side] for side in (items.first, items.second) if side]
    order = sorted(range(len(items.labels)), key=lambda i: (*(side[i] for side in words), items.labels[i]))
    return Classified(
        first=tuple(items.first[i] for i in order),
        labels=tuple(items.labels[i] for i in order),
        second=tuple(items.second[i] for i in order) if items.second else (),
    )


def _features(encode: Encode, parts: Sequence[Classified]) -> Tensor:
    """One row per item, float32: the embedding, or of a pair abs(u − v) and u ∗ v."""
    first = [s for part in parts for s in part.first]
    second = [s for part in parts for s in part.second]
    embedded = Embedded.of(encode, [*first, *second], torch.float32)
    u = embedded.rows(first)
    if not second:
        return u
    v = embedded.rows(second)
    return torch.cat([(u - v).abs(), u * v], 1)


def _places(parts: Mapping[str, Classified]) -> dict[str, Tensor]:
    """Which rows are of which part."""
    sizes = [len(items.labels) for items in parts.values()]
    return dict(zip(parts, torch.arange(sum(sizes)).split(sizes), strict=True))


def _first_best(accuracies: Sequence[float]) -> int:
    rounded = [round(100 * accuracy, 2) for accuracy in accuracies]
    return rounded.index(max(rounded))


def _f1(predicted: Tensor, labels: Tensor) -> float:
    """Of class 1: the harmonic mean of how many named so are, and how many that are so were named."""
    both = int(((predicted == 1) & (labels == 1)).sum())
    either = int((predicted == 1).sum() + (labels == 1).sum())
    return 2 * both / either if either else 0.0


class Problem:
    """Logistic regressions of the same rows that differ in which of them they see and in their strength.

    Two classes have one logit, more have one each. Weights are (logits, problems, D + 1), the last of them the bias.
    """

    def __init__(self, features: Tensor, labels: Tensor, classes: int) -> None:
        # The bias, not regularised, takes up any shift: about the mean, less is lost to rounding.
        self.x = F.pad(features - features.double().mean(0).to(features), (0, 1), value=1.0)
        self.labels = labels
        hot = F.one_hot(labels, classes).T
        self.truth = hot[1:] if classes == 2 else hot
        """(logits, N)"""

    def validated(self, splits: Sequence[tuple[Tensor, Tensor]], grid: Sequence[float]) -> tuple[Tensor, bool]:
        """The accuracy on the second rows of each split of the model fitted to the first, (splits, strengths).

        And whether all reached their optimum.
        """
        accuracies, all_solved = torch.empty(len(splits), len(grid), dtype=torch.float64), True
        at_once = max(1, LOGITS // self.truth.numel())
        for start in range(0, len(splits), at_once):
            some = splits[start : start + at_once]
            on, asked = (torch.stack([self._mask(split[i]) for split in some]) for i in (0, 1))
            weights = None
            for column, strength in enumerate(grid):  # each from the optimum of the one before
                weights, logits, solved = solve(self.x, self.truth, on, strength, COARSE, weights)
                all_solved = all_solved and solved
                right = (predicted_classes(logits) == self.labels) & asked
                accuracies[start : start + len(some), column] = right.sum(1).double() / asked.sum(1)
        return accuracies, all_solved

    def predicted(self, fits: Sequence[Tensor], strengths: Sequence[float]) -> tuple[Tensor, bool]:
        """What the model fitted to each of these rows says of all, (fits, N), and whether all reached their optimum."""
        predictions = torch.empty(len(fits), len(self.labels), dtype=torch.int64)
        x, all_solved = self.x.double(), True
        for strength in sorted(set(strengths)):
            same = [i for i, each in enumerate(strengths) if each == strength]
            on = torch.stack([self._mask(fits[i]) for i in same])
            _, logits, solved = solve(x, self.truth, on, strength, FINE)
            predictions[same] = predicted_classes(logits)
            all_solved = all_solved and solved
        return predictions, all_solved

    def _mask(self, rows: Tensor) -> Tensor:
        mask = torch.zeros(len(self.labels), dtype=torch.bool)
        mask[rows] = True
        return mask
