"""Fine-tuning: the encoder itself, as a copy, trained on labelled images together with a linear classifier."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from isotherm.checks import at_least, not_negative, positive
from isotherm.data import fingerprints
from isotherm.data.images import Images
from isotherm.data.loaders.images import Loader
from isotherm.encoders.features import evaluating
from isotherm.probes.extract import features_of, home
from isotherm.probes.kept import Kept
from isotherm.probes.scores import MultiLabelScore, Score
from isotherm.probes.splits import held_out_split
from isotherm.probes.tasks import ClassWeights, Task, task_of
from isotherm.views.recipes import Recipe

EPOCHS, BATCH, MILESTONES, DECAY = 50, 128, (30, 40), 0.1
RATE, BINARY_RATE = 0.1, 1.0
SEARCHED = (0.1, 1.0, 10.0)
"""Rates that a search tries, in units of the paper's; a rate that diverges is the worst."""
HELD_OUT = 0.2
"""The share of every class of the training part that a search holds out."""
Note = Callable[[str], None]


@dataclass(frozen=True)
class Training:
    """How long, in which steps and with which random numbers a copy is trained."""

    epochs: int
    batch: int
    rate: float
    seed: int
    size: int | None
    weight_decay: float = 0.0

    @property
    def name(self) -> str:
        return f"rate {self.rate:g}, weight decay {self.weight_decay:g}"


class Diverged(ValueError):
    """A learning rate was too large."""


def finetune(
    encoder: nn.Module,
    train: Images,
    test: Images,
    recipe: Recipe,
    class_weights: ClassWeights = None,
    epochs: int = EPOCHS,
    batch: int = BATCH,
    lr: float | Literal["search"] | None = None,
    seed: int = 0,
    size: int | None = None,
    weight_decay: float | Sequence[float] = 0.0,
    keep: Path | None = None,
    note: Note = lambda stage: None,
) -> Score | MultiLabelScore:
    """How often the encoder is right after it was trained further, with a classifier, on labelled images.

    DySTreSS (arXiv:2308.01140), A.2: SGD, 50 epochs, batch 128, learning rate 0.1, or 1.0 with two classes, times 0.1
    after 30 and 40 epochs (in proportion if `epochs` says otherwise). Momentum and weight decay are not stated: none.

    `class_weights`: None, as the paper has it for natural images; or one number per class; or the name of one of its
    medical sets (`CLASS_WEIGHTS`); or "balanced", which gives each class the size of the largest one over its own, as
    the numbers for Chaoyang are. With two classes there is one logit, and class 1 weighs what `class_weights` says
    relative to class 0: the paper's positive class weight. Images that may show several classes at once (`tasks`) have
    a logit for each, at the rate of two classes.

    `lr="search"` tries `SEARCHED` times the paper's rate, and each of several `weight_decay`, on a held-out share of
    the training part; the test part is asked once, at the end.

    Works on a copy: the given encoder is not changed. Training images are the first view of `recipe`, test images
    are plain, of its size unless `size` is given. A last batch of a single image is left out, which batch
    normalization could not take. With a file to `keep` its state in, what was interrupted goes on after the last
    epoch, to the same numbers.
    """
    score, _ = finetuned(
        *(encoder, train, test, recipe, class_weights, epochs, batch, lr, seed, size, weight_decay, keep, note)
    )
    return score


def finetuned(
    encoder: nn.Module,
    train: Images,
    test: Images,
    recipe: Recipe,
    class_weights: ClassWeights = None,
    epochs: int = EPOCHS,
    batch: int = BATCH,
    lr: float | Literal["search"] | None = None,
    seed: int = 0,
    size: int | None = None,
    weight_decay: float | Sequence[float] = 0.0,
    keep: Path | None = None,
    note: Note = lambda stage: None,
) -> tuple[Score | MultiLabelScore, Tensor]:
    """`finetune`, and the logits of every class for the test images."""
    at_least(1, epochs=epochs)
    at_least(2, batch=batch)
    task = task_of(train, test, class_weights)
    usual = RATE if task.kind == "multi-class" else BINARY_RATE
    rates = [usual * factor for factor in SEARCHED] if lr == "search" else [positive("lr", usual if lr is None else lr)]
    given = [weight_decay] if isinstance(weight_decay, int | float) else list(weight_decay)
    decays = [not_negative("weight_decay", each) for each in given]
    tried = [
        Training(epochs, min(batch, len(train)), rate, seed, size, decay)
        for rate, decay in itertools.product(rates, decays)
    ]
    settings = {"epochs": epochs, "batch": tried[0].batch, "class_weights": task.weights.tolist(), "head": task.kind}
    data = None if keep is None else fingerprints.of_images(train)
    kept = Kept(keep, [settings, rates, decays, seed, size, data, repr(recipe), _sum(encoder)])
    how = tried[0] if len(tried) == 1 else _chosen(encoder, train, recipe, task, tried, kept, note)
    note(f"fine-tuning, {how.name}")
    logits = _logits(*_trained(encoder, train, recipe, task, how, kept), test, recipe, task, how)
    settings |= {"lr": how.rate, "weight_decay": how.weight_decay, "searched": len(tried)}
    score = task.score("finetune", logits, task.targets(test), seed, settings)
    kept.done()
    return score, logits


def _sum(encoder: nn.Module) -> float:
    """What tells one encoder from another, for whoever goes on with what was kept."""
    return float(sum(p.double().abs().sum() for p in encoder.state_dict().values()))


def _chosen(
    encoder: nn.Module, train: Images, recipe: Recipe, task: Task, tried: Sequence[Training], kept: Kept, note: Note
) -> Training:
    """The way with the least loss on a held-out share of the training part.

    The loss and not the accuracy: of five images per class one is held out, and ten answers, right or wrong, cannot
    tell a rate that learns from one that does not.
    """
    if task.kind == "multi-label":
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(tried[0].seed))
        held = order[: max(1, round(HELD_OUT * len(train)))].sort().values
        fitted = order[len(held) :].sort().values
    else:
        fitted, held = held_out_split(task.targets(train), HELD_OUT, tried[0].seed)
    inside, outside = train.subset(fitted), train.subset(held)
    asked = task.targets(outside)
    worths: list[float] = []
    for how in tried:
        worth = kept.worth(how.name)
        if worth is None:
            note(f"trying {how.name}")
            some = replace(how, batch=min(how.batch, len(inside)))
            try:
                trained = _trained(encoder, inside, recipe, task, some, kept, f"search, {how.name}")
                logits = _logits(*trained, outside, recipe, task, some)
                worth = -float(task.loss(logits[:, 1:] if task.kind == "binary" else logits, asked))
            except Diverged:
                worth = -math.inf
            kept.put_worth(how.name, worth)
        worths.append(worth)
    best = max(range(len(tried)), key=lambda i: worths[i])
    if worths[best] == -math.inf:
        raise ValueError(f"fine-tuning diverged at every rate: {', '.join(f'{how.rate:g}' for how in tried)}.")
    return tried[best]


def _trained(
    encoder: nn.Module, train: Images, recipe: Recipe, task: Task, how: Training, kept: Kept, name: str = "final"
) -> tuple[nn.Module, nn.Linear]:
    """A copy of the encoder and its classifier (one logit for two classes), after training."""
    device, targets = home(encoder), task.targets(train)
    one_view = replace(recipe, views=recipe.views[:1], small=())
    drop_last = len(train) % how.batch == 1
    loader = Loader(train, one_view, how.batch, seed=how.seed, drop_last=drop_last, device=device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.enable_grad():
        torch.manual_seed(how.seed)  # the classifier's first weights, and whatever the encoder drops
        body = copy.deepcopy(encoder).requires_grad_(True)
        width = features_of(body, train.subset(torch.arange(2)), recipe, how.size).shape[1]
        head = nn.Linear(width, task.outputs).to(device)
        body.train()
        optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], how.rate, weight_decay=how.weight_decay)
        milestones = [round(m * how.epochs / EPOCHS) for m in MILESTONES]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, DECAY)
        parts = {"body": body, "head": head, "optimizer": optimizer, "schedule": schedule}
        for epoch in range(kept.load(name, parts), how.epochs):
            for views, _, indices in loader.epoch(epoch):
                optimizer.zero_grad()
                task.loss(head(body(views[0])), targets[indices.cpu()].to(device)).backward()
                optimizer.step()
            schedule.step()
            kept.save(name, parts, epoch + 1)
    return body, head


@torch.no_grad()
def _logits(body: nn.Module, head: nn.Linear, test: Images, recipe: Recipe, task: Task, how: Training) -> Tensor:
    """Of every class, for plain test images."""
    with evaluating(body):
        features = features_of(body, test, recipe, how.size)
        logits: Tensor = head(features.to(home(body))).cpu()
    if not bool(torch.isfinite(logits).all()):
        raise Diverged(f"fine-tuning with a learning rate of {how.rate:g} diverged; use a smaller one (lr=…).")
    return task.full(logits)
