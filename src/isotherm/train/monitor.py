"""What the network has learnt so far: kNN on its features, the geometry of its embeddings."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from isotherm import measures
from isotherm.data.images import Images
from isotherm.data.imbalance import fraction
from isotherm.data.loaders.images import Loader
from isotherm.encoders.features import evaluating
from isotherm.methods import Network
from isotherm.probes.extract import features_of, home
from isotherm.probes.knn import knn
from isotherm.views import Recipe

NEIGHBOURS = 20
AT_MOST = 10_000
"""Images whose geometry is measured."""
ENTROPY_OF = 2_000
"""Images whose conditional entropy is measured; its maximum is the logarithm of their number."""


def monitor(
    network: Network, train: Images, test: Images | None, recipe: Recipe, at_most: int | None = None, seed: int = 0
) -> dict[str, float]:
    """Measures of a network in the middle or at the end of training, on the CPU.

    `knn` is the accuracy of its features on `test` (or, without labels there, absent); the others describe its
    embeddings of `test`: uniformity, tolerance, effective rank, conditional entropy, and alignment of two views.
    """
    judged = train if test is None else test
    if at_most is not None:
        train, judged = some(train, at_most, seed), some(judged, at_most, seed)
    values: dict[str, float] = {}
    if test is not None and labelled(train) and labelled(judged):
        bank = features_of(network.encoder, train, recipe)
        queries = features_of(network.encoder, judged, recipe)
        if healthy(bank) and healthy(queries) and len(train.labels.unique()) > 1:
            values["knn"] = neighbours(bank, train.labels, queries, judged.labels)
    values |= geometry(network, some(judged, AT_MOST, seed), recipe, seed)
    return values


def neighbours(bank: Tensor, bank_labels: Tensor, queries: Tensor, labels: Tensor) -> float:
    """kNN accuracy; a class that is nowhere in the bank (an exponential imbalance empties some) is never found."""
    known = torch.isin(labels, bank_labels)
    if not known.any():
        return 0.0
    k = min(NEIGHBOURS, len(bank))
    score = knn(bank, bank_labels, queries[known], labels[known], ks=(k,))[k]
    return score.accuracy * float(known.float().mean())


def geometry(network: nn.Module, images: Images, recipe: Recipe, seed: int = 0) -> dict[str, float]:
    """Uniformity, tolerance, rank, entropy of the embeddings of images as they are; alignment of two views."""
    z = features_of(network, images, recipe)
    if len(z) < 2 or not healthy(z):
        return {}
    values = {"uniformity": measures.uniformity(z), "effective_rank": measures.effective_rank(z)}
    values["conditional_entropy"] = measures.conditional_entropy(z[:ENTROPY_OF])
    if labelled(images) and int(torch.bincount(images.labels).max()) > 1:
        values["tolerance"] = measures.tolerance(z, images.labels)
    if len(recipe.views) > 1 and recipe.views[0].size == recipe.views[1].size:
        a, b = two_views(network, images, recipe, seed)
        values["alignment"] = measures.alignment(a, b)
    return {name: value for name, value in values.items() if math.isfinite(value)}


def two_views(network: nn.Module, images: Images, recipe: Recipe, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The embeddings of two views of every image."""
    device = home(network)
    loader = Loader(images, recipe, min(512, len(images)), seed, shuffle=False, drop_last=False, device=device)
    parts: list[list[Tensor]] = [[], []]
    with evaluating(network):
        for views, _, _ in loader.epoch(0):
            for part, view in zip(parts, views[:2], strict=True):
                part.append(network(view).float().cpu())
    a, b = (torch.cat(part) for part in parts)
    return a, b


def healthy(z: Tensor) -> bool:
    """Whether every row is finite and has a direction; after a divergence they do not."""
    return bool(torch.isfinite(z).all()) and float(z.abs().amax(1).min()) > 0


def some(images: Images, at_most: int, seed: int) -> Images:
    return images if len(images) <= at_most else fraction(images, at_most, seed)


def labelled(images: Images) -> bool:
    return bool(images.classes) and int(images.labels.min()) >= 0
