"""The measures of a run itself: its loss, its cost, and how its pairs moved."""

from __future__ import annotations

from typing import Any

from isotherm.measures.measure import as_measure


@as_measure("loss", ("objective",), needs=("run",), better="lower")
def loss(subject: Any) -> Any:
    """Mean of the loss over the last tenth of the steps; of runs made before 2026-11-19 there is none."""
    return subject.last_loss


@as_measure("seconds per step", ("cost",), needs=("run",), unit="s", better="lower")
def step_seconds(subject: Any) -> Any:
    """Seconds per step, among the other runs of the study."""
    return subject.step_seconds


@as_measure("similarity of pairs before training", ("pairs",), needs=("embeddings", "views", "labels"), curve=True)
def pairs_before(subject: Any) -> Any:
    """Histograms of the similarities of true positive, false negative and true negative pairs."""
    return subject.pairs_before


@as_measure("similarity of pairs after training", ("pairs",), needs=("embeddings", "views", "labels"), curve=True)
def pairs_after(subject: Any) -> Any:
    """The same after the last step."""
    return subject.pairs_after
