"""A finished run that learnt from images: its features, embeddings and views, and the probes that measures ask for."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from isotherm.data.images import Images
from isotherm.data.probing import DIGIT, RANDBIT
from isotherm.data.sets import load
from isotherm.experiments.trained.run import TrainedRun
from isotherm.measures.measure import Need
from isotherm.measures.subject import Subject
from isotherm.probes.extract import features_of, probed_layer
from isotherm.probes.linear import linear
from isotherm.probes.protocols import Diverged, follow_augmented
from isotherm.probes.splits import few_shot_split
from isotherm.train import networks
from isotherm.train.modality.images import ImageModality, OpenedImages, images_of
from isotherm.train.monitor import labelled, neighbours, some, t_neg_of, two_views

SAMPLE = 2000
"""Test images whose geometry is measured."""
EDGES = np.linspace(-1, 1, 81)
"""Bins of similarity."""
FEW, DRAWS, FEW_REGULARISATION = 5, 10, 1e-2
"""Labelled images per class of the probe with few labels, how often they are drawn, and the λ of its fit: so few leave
none to choose it on."""
PROBED_BITS = 4
"""Of the bits that were added, so many are probed."""


class TrainedImages(TrainedRun, Subject):
    """A finished run, and what several measures need of it, made once."""

    noun = "images"

    def __init__(self, run: OpenedImages) -> None:
        self.folder, self.run, self.seed = run.out, run, 0
        self.test: Images = self.run.images if self.run.test is None else self.run.test
        self.t_neg = t_neg_of(run.config.loss)
        self.layer = probed_layer(run.network.encoder)
        both = labelled(self.run.images) and labelled(self.test)
        self.probed = self.run.test is not None and both and len(self.run.images.labels.unique()) > 1

    @property
    def could_have(self) -> frozenset[Need]:
        return frozenset(("embeddings", "labels", "views", "features", "run"))

    @property
    def has(self) -> frozenset[Need]:
        parts: list[Need] = ["run", "features"]
        if self.healthy:
            parts += ["embeddings", "views"]
        if self.probed or labelled(self.sample):
            parts.append("labels")
        return frozenset(parts)

    @cached_property
    def bank(self) -> Tensor:
        """Features of what was learnt from."""
        return self._features(self.run.images)

    @cached_property
    def queries(self) -> Tensor:
        """Features of the test images."""
        return self._features(self.test)

    def _features(self, images: Images) -> Tensor:
        return features_of(self.run.network.encoder, images, self.run.recipe, layer=self.layer)

    @cached_property
    def sample(self) -> Images:
        return some(self.test, SAMPLE, 0)

    @property
    def labels(self) -> Tensor:
        """Of the sample."""
        return self.sample.labels

    @cached_property
    def embeddings(self) -> Tensor:
        """Of the sample as it is."""
        return features_of(self.run.network, self.sample, self.run.recipe)

    @cached_property
    def views(self) -> tuple[Tensor, Tensor]:
        """Embeddings of two views of the sample."""
        return self._views_by(self.run.network)

    @cached_property
    def backbone(self) -> Subject:
        """The features of the sample, measured as if they were its embeddings."""
        labels = self.labels if labelled(self.sample) else None
        views = self._views_by(self.run.network.encoder, self.layer)
        return Subject(self._features(self.sample), labels, views)

    def _views_by(self, network: nn.Module, layer: str | None = None) -> tuple[Tensor, Tensor]:
        recipe = self.run.recipe
        if len(recipe.views) == 1:  # a bank compares one view; alignment and local separation need two
            recipe = replace(recipe, views=recipe.views * 2)
        return two_views(network, self.sample, recipe, layer=layer)

    @cached_property
    def _known(self) -> Tensor:
        """Test images of a class that was learnt from: an imbalance may have emptied one, which is never found."""
        return torch.isin(self.test.labels, self.run.images.labels)

    @property
    def knn(self) -> float | None:
        if not self.probed:
            return None
        return neighbours(self.bank, self.run.images.labels, self.queries, self.test.labels)

    @property
    def knn200(self) -> float | None:
        """DySTreSS (arXiv:2308.01140), A.1, cosine weights; exp(s/0.1), not stated there, is lightly's default."""
        if not self.probed:
            return None
        given = (self.bank, self.run.images.labels, self.queries, self.test.labels)
        return neighbours(*given, k=200, temperature=0.1)

    @property
    def linear(self) -> float | None:
        if not self.probed:
            return None
        known = self._known
        score = linear(self.bank, self.run.images.labels, self.queries[known], self.test.labels[known], seed=0)
        return score.accuracy * float(known.float().mean())

    @cached_property
    def nearest(self) -> dict[int, float | None]:
        """Accuracy of the nearest and of the ten nearest neighbours by L2 distance, weighted by its inverse.

        DySTreSS (arXiv:2308.01140), A.1, on long tails. Of unit features: so its rival there, Kukleva et al. 2023
        (arXiv:2303.13664), measures, in a notebook of the authors' (and gives ten neighbours one vote each).
        """
        if not self.probed:
            return {1: None, 10: None}
        bank, queries = (normalize(features, dim=1) for features in (self.bank, self.queries))
        given = (bank, self.run.images.labels, queries, self.test.labels)
        return {k: neighbours(*given, k=k, weights="l2") for k in (1, 10)}

    @property
    def few_labels(self) -> float | None:
        """None where a class has fewer images than a draw takes."""
        if not self.probed:
            return None
        config = self.run.config
        whole = images_of(replace(config, imbalance="none", images=None), config.split)
        counts, asked = torch.bincount(whole.labels, minlength=len(self.test.classes)), self.test.labels.unique()
        if int(counts[counts > 0].min()) < FEW or not counts[asked].all():
            return None
        draws = torch.stack([few_shot_split(whole.labels, FEW, seed)[0] for seed in range(DRAWS)])
        drawn, places = draws.unique(return_inverse=True)
        bank, labels = self._features(whole.subset(drawn)), whole.labels[drawn]
        each = [
            linear(bank[at], labels[at], self.queries, self.test.labels, regularisation=FEW_REGULARISATION).accuracy
            for at in places
        ]
        return float(np.mean(each))

    @property
    def linear_whole(self) -> float | None:
        if not self.probed:
            return None
        bank = self.bank if self.run.config.imbalance == "none" else self._features(self._even)
        return linear(bank, self._even.labels, self.queries, self.test.labels, seed=0).accuracy

    @cached_property
    def _even(self) -> Images:
        """What would have been learnt from, had the classes been equal."""
        config = self.run.config
        return images_of(replace(config, imbalance="none"), config.split)

    def by_protocol(self, name: str) -> float | None:
        """By a paper's own linear protocol; None where its learning rate is too large for these features."""
        if not self.probed:
            return None
        try:
            return follow_augmented(name, self.run.network.encoder, self._even, self.test, self.run.recipe).accuracy
        except Diverged:
            return None

    @cached_property
    def _with_all_digits(self) -> tuple[Images, Tensor] | None:
        """What was learnt from with all digits of their source, however few there were then; and its features."""
        mine, config = self.run.images.more_labels, self.run.config
        if DIGIT not in mine or int(mine[DIGIT].min()) < 0:
            return None
        taught = images_of(replace(config, digits=len(load(config.digit_source))), config.split)
        return taught, self._features(taught)

    @property
    def linear_digit(self) -> float | None:
        if self._with_all_digits is None:
            return None
        taught, bank = self._with_all_digits
        return linear(bank, taught.more_labels[DIGIT], self.queries, self.test.more_labels[DIGIT], seed=0).accuracy

    @property
    def linear_object(self) -> float | None:
        if self._with_all_digits is None or not self.probed:
            return None
        taught, bank = self._with_all_digits
        return linear(bank, taught.labels, self.queries, self.test.labels, seed=0).accuracy

    @property
    def linear_bits(self) -> float | None:
        bits = self.run.images.bits
        if not bits:
            return None
        mine, theirs = self.run.images.more_labels[RANDBIT], self.test.more_labels[RANDBIT]
        each = [
            linear(self.bank, (mine >> b) & 1, self.queries, (theirs >> b) & 1, seed=0).accuracy
            for b in range(min(PROBED_BITS, bits))
        ]
        return float(np.mean(each))

    @property
    def pairs_before(self) -> dict[str, list[float]]:
        torch.manual_seed(self.run.config.seed)
        modality = ImageModality(self.run.config, self.run.images, self.run.recipe)
        untrained, _ = networks.networks(self.run.config, modality.encoder())
        return _histograms(*self._views_by(untrained), self.sample.labels)

    @property
    def pairs_after(self) -> dict[str, list[float]]:
        return _histograms(*self.views, self.sample.labels)

    def kept(self, most: int) -> tuple[Tensor, Tensor]:
        """Some embeddings and their labels, for maps and histograms."""
        part = some(self.sample, most, 0)
        return features_of(self.run.network, part, self.run.recipe), part.labels


def _histograms(a: Tensor, b: Tensor, labels: Tensor) -> dict[str, list[float]]:
    return {
        kind: [float(v) for v in np.histogram(s, bins=EDGES, density=True)[0]]
        for kind, s in similarities_by_kind(a, b, labels).items()
    }


def similarities_by_kind(a: Tensor, b: Tensor, labels: Tensor) -> dict[str, np.ndarray]:
    """Two views of one item; two items of one class; two items of two classes (DySTreSS, fig. 1)."""
    a, b = (torch.nn.functional.normalize(z.double(), dim=1) for z in (a, b))
    s = a @ b.T
    alike = labels[:, None] == labels[None]
    itself = torch.eye(len(s), dtype=torch.bool)
    kinds = {"true positive": itself, "false negative": alike & ~itself, "true negative": ~alike}
    return {name: s[mask].clamp(-1, 1).numpy() for name, mask in kinds.items() if mask.any()}
