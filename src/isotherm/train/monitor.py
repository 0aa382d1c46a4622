"""What the network has learnt so far: kNN on its features, the geometry of its embeddings."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor, nn

from isotherm.data.images import Images
from isotherm.data.imbalance import fraction
from isotherm.data.loaders.images import Loader
from isotherm.encoders.features import features
from isotherm.measures.catalogue import measures
from isotherm.measures.measure import Measure, Need, take
from isotherm.measures.subject import Subject, healthy
from isotherm.methods import Network
from isotherm.probes.extract import features_of, home, probed_layer
from isotherm.probes.knn import Weights, knn
from isotherm.train.choice import Choice
from isotherm.views import Recipe

NEIGHBOURS = 20
AT_MOST = 10_000
"""Images whose geometry is measured."""


class Monitored(Subject):
    """A network in the middle or at the end of training: its embeddings of images as they are, and kNN if it may."""

    def __init__(self, network: Network, images: Images, recipe: Recipe, seed: int = 0) -> None:
        super().__init__(features_of(network, images, recipe), images.labels if labelled(images) else None, seed=seed)
        self.network, self.images, self.recipe = network, images, recipe
        self.knn: float | None = None

    @property
    def has(self) -> frozenset[Need]:
        parts = set(super().has)
        sizes = [view.size for view in self.recipe.views[:2]]
        if self.healthy and len(sizes) > 1 and sizes[0] == sizes[1]:
            parts.add("views")
        if self.knn is not None:
            parts |= {"features", "labels"}
        return frozenset(parts)

    @cached_property
    def views(self) -> tuple[Tensor, Tensor]:
        return two_views(self.network, self.images, self.recipe, self.seed)


def monitor(
    network: Network,
    train: Images,
    test: Images | None,
    recipe: Recipe,
    at_most: int | None = None,
    seed: int = 0,
    loss: Choice = Choice(),  # noqa: B008 - frozen
) -> dict[str, float]:
    """Every measure that is taken on the way (`Measure.monitor`), on the CPU.

    `knn` is the accuracy of the features on `test` (or, without labels there, absent); the others describe the
    embeddings of `test`. `loss` is the run's.
    """
    judged, train = train if test is None else test, with_labels(train)
    if at_most is not None:
        train, judged = some(train, at_most, seed), some(judged, at_most, seed)
    subject = Monitored(network, some(judged, AT_MOST, seed), recipe, seed)
    subject.t_neg = t_neg_of(loss)
    if test is not None:
        subject.knn = knn_of(network.encoder, train, judged, recipe)
    return take(monitored(), subject)


def t_neg_of(loss: Choice) -> float:
    """CACR's t⁻, by which conditional entropy is measured: the loss's own where it has one."""
    return float(loss.settings.get("t_neg", Subject.t_neg))


def knn_of(encoder: nn.Module, train: Images, test: Images, recipe: Recipe) -> float | None:
    """The kNN accuracy of an encoder's features; None where there are no labels, or no features to speak of."""
    if not (labelled(train) and labelled(test)):
        return None
    layer = probed_layer(encoder)
    bank, queries = (features_of(encoder, images, recipe, layer=layer) for images in (train, test))
    if not (healthy(bank) and healthy(queries) and len(train.labels.unique()) > 1):
        return None
    return neighbours(bank, train.labels, queries, test.labels)


def monitored() -> list[Measure]:
    """The measures that are taken on the way."""
    return [m for m in measures().values() if m.monitor]


def neighbours(
    bank: Tensor,
    bank_labels: Tensor,
    queries: Tensor,
    labels: Tensor,
    k: int = NEIGHBOURS,
    weights: Weights = "cosine",
    temperature: float = 0.07,
) -> float:
    """kNN accuracy; a class that is nowhere in the bank (an exponential imbalance empties some) is never found."""
    known = torch.isin(labels, bank_labels)
    if not known.any():
        return 0.0
    k = min(k, len(bank))
    score = knn(bank, bank_labels, queries[known], labels[known], (k,), weights, temperature)[k]
    return score.accuracy * float(known.float().mean())


def two_views(
    network: nn.Module, images: Images, recipe: Recipe, seed: int = 0, layer: str | None = None
) -> tuple[Tensor, Tensor]:
    """What a network, or a layer of it, gives for two views of every image."""
    device = home(network)
    recipe = replace(recipe, small=())
    loader = Loader(images, recipe, min(512, len(images)), seed, shuffle=False, drop_last=False, device=device)
    parts: list[list[Tensor]] = [[], []]
    for views, _, _ in loader.epoch(0):
        for part, view in zip(parts, views[:2], strict=True):
            part.append(features(network, view, layer).float().cpu())
    a, b = (torch.cat(part) for part in parts)
    return a, b


def some(images: Images, at_most: int, seed: int) -> Images:
    return images if len(images) <= at_most else fraction(images, at_most, seed)


def with_labels(images: Images) -> Images:
    """Those whose label is known, where it is of some only (STL-10's train+unlabeled); else all."""
    known = images.labels >= 0
    return images.subset(known.nonzero()[:, 0]) if bool(known.any()) and not bool(known.all()) else images


def labelled(images: Images) -> bool:
    return bool(images.classes) and int(images.labels.min()) >= 0
