"""The linear probe as the papers train it: their optimizer, learning rate, schedule and batch, as data.

`follow` trains on fixed features; `follow_augmented` sends freshly augmented images through the frozen encoder in
every epoch, as the papers do. `linear` finds the same kind of classifier in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotherm.checks import at_least, did_you_mean
from isotherm.data.images import Images
from isotherm.data.loaders.images import Loader
from isotherm.encoders.features import features
from isotherm.probes.extract import count_classes, features_of, home, label_column, parts, probed_layer
from isotherm.probes.scores import Score, ranks, score
from isotherm.views.recipes import Recipe

Batches = Callable[[int], Iterator[tuple[Tensor, Tensor]]]
"""The batches of an epoch: features and labels."""
START = 0.01
"""Standard deviation of the first weights; the first biases are 0. MoCo's, which CACR C.2 follows."""


@dataclass(frozen=True)
class Protocol:
    """How a paper trains its linear classifier."""

    name: str
    about: str
    optimizer: str
    """"sgd" or "adam"."""
    lr: float
    epochs: int
    batch: int
    decay: float = 1.0
    milestones: tuple[int, ...] = ()
    """The learning rate is multiplied by `decay` after so many epochs."""
    cosine: bool = False
    """Instead, it falls to 0 along half a cosine, step by step."""
    momentum: float = 0.0
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def make(self, module: nn.Module) -> torch.optim.Optimizer:
        """The optimizer for this module's parameters."""
        if self.optimizer == "sgd":
            settings = {"momentum": self.momentum, "nesterov": self.nesterov, "weight_decay": self.weight_decay}
            return torch.optim.SGD(module.parameters(), self.lr, **settings)  # type: ignore[arg-type]
        if self.optimizer == "adam":
            return torch.optim.Adam(module.parameters(), self.lr, self.betas, self.eps, self.weight_decay)
        raise ValueError(f"no optimizer '{self.optimizer}'{did_you_mean(self.optimizer, ('sgd', 'adam'))}")

    def rate(self, epoch: float) -> float:
        """The learning rate after so many epochs, whole or not."""
        if self.cosine:
            return self.lr * (1 + math.cos(math.pi * epoch / self.epochs)) / 2
        return self.lr * self.decay ** sum(epoch >= m for m in self.milestones)

    def shortened(self, epochs: int) -> Protocol:
        """The same in fewer epochs, or more, with the milestones moved in proportion: no longer the paper's."""
        at_least(1, epochs=epochs)
        moved = tuple(round(m * epochs / self.epochs) for m in self.milestones)
        return replace(self, name=f"{self.name}, {epochs} epochs", epochs=epochs, milestones=moved)


PROTOCOLS = {
    p.name: p
    for p in (
        Protocol(
            "wang-liu",
            "Wang & Liu 2021 (arXiv:2012.09740), §5.1. Momentum and batch are not stated there: those of its "
            "pretraining, 0.9 and 128",
            "sgd",
            lr=30.0,
            decay=0.2,
            milestones=(40, 60, 80),
            epochs=100,
            batch=128,
            momentum=0.9,
        ),
        Protocol(
            "cacr-small",
            "CACR (arXiv:2105.03746), C.1: CIFAR and STL-10, features of fc7",
            "adam",
            lr=1e-3,
            decay=0.2,
            milestones=(60, 80),
            epochs=100,
            batch=128,
            betas=(0.5, 0.999),
            eps=1e-8,
        ),
        Protocol(
            "cacr-large",
            "CACR (arXiv:2105.03746), C.2: ImageNet",
            "sgd",
            lr=30.0,
            decay=0.1,
            milestones=(60, 80),
            epochs=100,
            batch=256,
            momentum=0.9,
        ),
        Protocol(
            "simclr",
            "SimCLR (arXiv:2002.05709), B.6, whose linear evaluation Chen & Li follow: 90 epochs, Nesterov's momentum, "
            "batch 4096, rate 0.1 · batch/256, no decay of weights; that it falls along a cosine is its code's",
            "sgd",
            lr=1.6,
            epochs=90,
            batch=4096,
            cosine=True,
            momentum=0.9,
            nesterov=True,
        ),
        Protocol(
            "lightly",
            "lightly's ImageNet benchmark, which DySTreSS uses: SimCLR's with plain momentum, batch 256, rate 0.1",
            "sgd",
            lr=0.1,
            epochs=90,
            batch=256,
            cosine=True,
            momentum=0.9,
        ),
    )
}
"""By name. Wang & Liu state a weight decay of 0, SimCLR and lightly none, CACR nothing: 0 for all."""


class Diverged(ValueError):
    """The features are too long for a protocol's learning rate."""


def protocol(name: str | Protocol) -> Protocol:
    """A protocol by its name; one that is none yet comes back as it is."""
    if isinstance(name, Protocol):
        return name
    if name not in PROTOCOLS:
        raise ValueError(f"no protocol '{name}'{did_you_mean(name, PROTOCOLS)}")
    return PROTOCOLS[name]


def follow(
    how: str | Protocol,
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    seed: int = 0,
    classes: int | None = None,
) -> Score:
    """How often a linear classifier trained by a paper's protocol on these fixed features is right.

    The features are taken as they are: a learning rate of 30 means what it did in the papers for features of about
    unit length. `seed` draws the first weights and the order of the items.
    """
    how = protocol(how)
    given = parts(train, train_labels, test, test_labels, classes)
    draw = torch.Generator().manual_seed(seed)

    def epoch(_: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(given.train), generator=draw).to(given.train.device)
        for indices in order.split(how.batch):
            yield given.train[indices], given.train_labels[indices]

    classifier = _classifier(given.train, given.classes, seed)
    _train(classifier, how, epoch, len(given.train))
    with torch.no_grad():
        rank = ranks(classifier(given.test), given.test_labels)
    return score(how.name, rank, given.test_labels, given.classes, seed, {"epochs": how.epochs, "augmented": False})


def follow_augmented(
    how: str | Protocol,
    encoder: nn.Module,
    train: Images,
    test: Images,
    recipe: Recipe,
    seed: int = 0,
    size: int | None = None,
    layer: str | None = None,
) -> Score:
    """How often a linear classifier trained by a paper's protocol on augmented images is right on plain ones.

    Every epoch shows the frozen encoder another view of each image, the first that `recipe` makes; the encoder runs
    in eval mode without gradients and is left as it was found. `layer` is by default the one that is probed
    (`probed_layer`); the score says which. `size` is that of the test images (`features_of`).
    """
    how = protocol(how)
    labels = label_column(train.labels, len(train), f"{train.name}: labels")
    test_labels = label_column(test.labels, len(test), f"{test.name}: labels")
    classes = count_classes(labels, test_labels, len(train.classes) or None)
    layer = probed_layer(encoder) if layer is None else layer
    device = home(encoder)
    one_view = replace(recipe, views=recipe.views[:1], small=())
    loader = Loader(train, one_view, how.batch, seed=seed, drop_last=False, device=device)

    def epoch(number: int) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in loader.epoch(number):
            yield features(encoder, batch.views[0], layer).float(), batch.labels

    asked = features_of(encoder, test, recipe, size, layer=layer).to(device)
    classifier = _classifier(asked, classes, seed)
    _train(classifier, how, epoch, len(train))
    with torch.no_grad():
        rank = ranks(classifier(asked), test_labels.to(device)).cpu()
    settings = {"epochs": how.epochs, "augmented": True, "recipe": recipe.name, "layer": layer}
    return score(how.name, rank, test_labels, classes, seed, settings)


def _classifier(like: Tensor, classes: int, seed: int) -> nn.Linear:
    classifier: nn.Linear = nn.utils.skip_init(nn.Linear, like.shape[1], classes, dtype=like.dtype)
    with torch.no_grad():
        nn.init.normal_(classifier.weight, std=START, generator=torch.Generator().manual_seed(seed))
        nn.init.zeros_(classifier.bias)
    classifier.to(like.device)
    return classifier


def _train(classifier: nn.Linear, how: Protocol, epoch: Batches, items: int) -> None:
    optimizer = how.make(classifier)
    steps = math.ceil(items / how.batch)
    with torch.enable_grad():
        for number in range(how.epochs):
            for step, (x, labels) in enumerate(epoch(number)):
                for group in optimizer.param_groups:
                    group["lr"] = how.rate(number + step / steps)
                optimizer.zero_grad()
                F.cross_entropy(classifier(x), labels).backward()
                optimizer.step()
    if not all(bool(torch.isfinite(p).all()) for p in classifier.parameters()):
        raise Diverged(
            f"{how.name} diverged: its learning rate of {how.lr:g} is for features of about unit length. "
            "Scale them down, or use the exact linear probe."
        )
