"""The measures of what features know: accuracies of probes that learn on the training part and are asked on the test.

How a probe is made is the subject's affair (`experiments.trained`): it has the features and the probes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isotherm.measures.measure import Measure, Need


def _accuracy(
    name: str, title: str, meaning: str, of: Callable[[Any], float | None], group: str, monitor: bool = False
) -> Measure:
    needs: tuple[Need, ...] = ("features",) if group == "competing" else ("features", "labels")
    return Measure(name, title, meaning, of, (group,), needs, unit="%", better="higher", monitor=monitor)


def _by_protocol(name: str) -> Measure:
    return _accuracy(
        f"linear_{name.replace('-', '_')}",
        f"linear accuracy, {name}",
        f"Accuracy of a linear classifier trained as {PROTOCOLS[name]} train it ({name}), on augmented images of every "
        "class, equally many whatever was learnt from.",
        lambda s: s.by_protocol(name),
        f"linear {name}",
    )


PROTOCOLS = {
    "wang-liu": "Wang & Liu",
    "cacr-small": "CACR's authors on small images",
    "cacr-large": "CACR's authors on ImageNet",
    "simclr": "SimCLR's authors",
    "lightly": "lightly's benchmarks",
}
"""Whose the protocols of `probes.protocols` are, by their names: a measure each, in a group of its own since each takes
as long as a training."""
LINEAR_WANG_LIU, LINEAR_CACR_SMALL, LINEAR_CACR_LARGE, LINEAR_SIMCLR, LINEAR_LIGHTLY = map(_by_protocol, PROTOCOLS)
KNN = _accuracy(
    "knn", "kNN accuracy", "kNN accuracy of the features (k = 20).", lambda s: s.knn, "probes", monitor=True
)
LINEAR = _accuracy(
    "linear", "linear accuracy", "Accuracy of the exact linear probe of the features.", lambda s: s.linear, "probes"
)
KNN200 = _accuracy(
    "knn200",
    "accuracy of 200 neighbours",
    "Accuracy of the 200 nearest neighbours of the features by cosine similarity s, weighted by exp(s/0.1).",
    lambda s: s.knn200,
    "200 neighbours",
)
KNN1 = _accuracy(
    "knn1",
    "accuracy of the nearest neighbour",
    "Accuracy of the nearest neighbour by L2 distance of the unit features.",
    lambda s: s.nearest[1],
    "nearest",
)
KNN10 = _accuracy(
    "knn10",
    "accuracy of ten neighbours",
    "Accuracy of the ten nearest neighbours by L2 distance of the unit features, weighted by its inverse.",
    lambda s: s.nearest[10],
    "nearest",
)
FEW_LABELS = _accuracy(
    "few_labels",
    "accuracy with 5 labels per class",
    "Accuracy of a logistic probe taught on 5 training images per class, mean over ten draws that are the same for "
    "every run of a data set.",
    lambda s: s.few_labels,
    "few labels",
)
LINEAR_WHOLE = _accuracy(
    "linear_whole",
    "linear accuracy, whole set",
    "The linear probe, taught with as many images of every class whatever was learnt from.",
    lambda s: s.linear_whole,
    "whole",
)
LINEAR_DIGIT = _accuracy(
    "linear_digit",
    "linear accuracy of the digit",
    "Linear probe of the digit that was pasted, taught on images with all digits.",
    lambda s: s.linear_digit,
    "competing",
)
LINEAR_OBJECT = _accuracy(
    "linear_object",
    "linear accuracy of the object",
    "Linear probe of the object behind the digits, taught on images with all digits, as it is asked. Taught with the "
    "few that a run learnt from, it would be worse for them alone.",
    lambda s: s.linear_object,
    "competing",
)
LINEAR_BITS = _accuracy(
    "linear_bits",
    "linear accuracy of a bit",
    "Linear probe of a bit that was added, mean over the first four.",
    lambda s: s.linear_bits,
    "competing",
)
