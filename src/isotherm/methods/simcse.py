"""Sentences: the encoder's dropout makes the views, or somebody wrote pairs down; one asks, the others answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from torch import Tensor

from isotherm.checks import one_of
from isotherm.losses.columns import Pairing, contrast
from isotherm.losses.loss import Loss
from isotherm.methods.in_batch import InBatch
from isotherm.methods.method import Given, Network
from isotherm.types import Batch


class SimCSE(InBatch):
    """A sentence in its first view looks for itself among all sentences of the other views.

    Gao et al. 2021 (SimCSE, arXiv:2104.08821), eq. 1, 4 and 5. The views are passes of the same sentence with other
    dropout, or the columns of pairs; of triples the third holds hard negatives, of everyone. Any loss that takes its
    negatives from pairs can judge them, CACR with K positives from K + 1 passes. `symmetric` lets every view ask;
    pairing "own" compares as the loss itself does (NT-Xent: all views of all others are negatives; InfoNCE: as its own
    `symmetric` says).
    """

    takes_hard_negatives = True
    without_small_crops = "reads sentences"

    def __init__(
        self,
        network: Network,
        loss: Loss,
        given: Given,
        symmetric: bool = False,
        pairing: Pairing = "cross_view",
    ) -> None:
        super().__init__(network, loss)
        hard_negatives = given.hard_negatives
        self.pairing = one_of("pairing", pairing, get_args(Pairing))
        self.hard_negatives, self.symmetric = hard_negatives, symmetric
        if loss.takes_labels:
            raise ValueError(f"{type(loss).__name__} needs labels, which sentences do not have.")
        if symmetric and pairing == "own":
            raise ValueError("symmetric belongs to the cross_view pairing; with its own the loss decides who asks.")
        if hard_negatives and (loss.without_negatives or pairing == "own"):
            why = loss.without_negatives or "pairs the columns in its own way"
            raise ValueError(f"{type(loss).__name__} {why} and can use no hard negatives. Give it pairs, not triples.")

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        assert self.loss is not None
        views = len(embedded) - self.hard_negatives
        return contrast(self.loss, embedded[:views], embedded[views:], self.pairing, self.symmetric)
