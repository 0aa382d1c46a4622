"""A finished run that learnt from image–text pairs: retrieval on its test part and its validation part, zero-shot."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from isotherm.evaluate.image_text import zero_shot_on
from isotherm.experiments.trained.run import TrainedRun
from isotherm.measures.measure import Need
from isotherm.measures.pairs import PairSubject
from isotherm.train.modality.image_text import OpenedPairs, pairs_of
from isotherm.train.pair_embeddings import pair_subject

VALIDATION = "validation"
"""The split on which settings are chosen, and the group of measures that are taken there."""


class TrainedPairs(TrainedRun, PairSubject):
    """A finished run, and what several measures need of it, made once."""

    noun = "pairs"

    def __init__(self, run: OpenedPairs) -> None:
        self.folder, self.run = run.out, run
        judged = pair_subject(run.network, run.pairs if run.test is None else run.test, run.recipe)
        PairSubject.__init__(self, judged.images, judged.texts, judged.owner)

    @property
    def could_have(self) -> frozenset[Need]:
        return frozenset(("embeddings", "pairs", "towers", "run"))

    @property
    def has(self) -> frozenset[Need]:
        whole = super().has
        return whole | {"towers", "run"} if whole else frozenset(("run",))

    @cached_property
    def validation_recall(self) -> float:
        """Where the run is judged on this very part, as where a set has no other, it is that."""
        run = self.run
        if run.config.test == VALIDATION:
            return self.retrieval.mean_recall
        part = pairs_of(run.config, VALIDATION, run.recipe.views[0].size)
        return pair_subject(run.network, part, run.recipe).retrieval.mean_recall

    def zero_shot(self, data: str) -> float:
        score, _ = zero_shot_on(self.run, data)
        return score.accuracy

    def kept(self, most: int) -> tuple[Tensor, Tensor]:
        """Embeddings of half as many images, then of a caption of each: label 0, label 1."""
        first = torch.arange(min(len(self.images), most // 2))
        of = torch.tensor([int((self.owner == i).nonzero()[0, 0]) for i in first])
        return torch.cat([self.images[first], self.texts[of]]), torch.arange(2).repeat_interleave(len(first))
