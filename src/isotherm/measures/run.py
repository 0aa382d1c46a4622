"""The measures of a run itself: its loss, its cost, and how its pairs moved."""

from __future__ import annotations

from isotherm.measures.measure import Measure

LOSS = Measure(
    "loss",
    "loss",
    "Mean of the loss over the last epoch.",
    lambda s: s.last_loss,
    ("objective",),
    needs=("run",),
    better="lower",
)
STEP_SECONDS = Measure(
    "step_seconds",
    "seconds per step",
    "Seconds per step, among the other runs of the study.",
    lambda s: s.step_seconds,
    ("cost",),
    needs=("run",),
    unit="s",
    better="lower",
)
PAIRS_BEFORE = Measure(
    "pairs_before",
    "similarity of pairs before training",
    "Histograms of the similarities of true positive, false negative and true negative pairs.",
    lambda s: s.pairs_before,
    ("pairs",),
    needs=("embeddings", "views", "labels"),
    curve=True,
)
PAIRS_AFTER = Measure(
    "pairs_after",
    "similarity of pairs after training",
    "The same after the last step.",
    lambda s: s.pairs_after,
    ("pairs",),
    needs=("embeddings", "views", "labels"),
    curve=True,
)
