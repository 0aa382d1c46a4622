"""How well scores rank: the area under the ROC curve, and the average precision of PASCAL VOC."""

from __future__ import annotations

import torch
from torch import Tensor


def roc_auc(scores: Tensor, positive: Tensor) -> float | None:
    r"""How often a positive item has the higher score than a negative one; ties count half.

    .. math:: \frac{1}{|P||N|} \sum_{p \in P, n \in N} [s_p > s_n] + \tfrac12 [s_p = s_n]

    The Mann-Whitney statistic over its maximum, by ranks. Fixed points: ½ when all scores are equal, 1 when every
    positive is above every negative. None where there are not both.
    """
    positives, n = int(positive.sum()), len(positive)
    if positives in (0, n):
        return None
    _, inverse, counts = torch.unique(scores.double(), return_inverse=True, return_counts=True)
    ends = counts.cumsum(0).double()
    middle = ends - (counts.double() - 1) / 2  # the mean rank, from 1, of equal scores
    ranks = middle[inverse][positive.bool()].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * (n - positives)))


def mean_auc(scores: Tensor, labels: Tensor) -> float | None:
    """The area under the ROC curve: of class 1 where there are two, else the mean over classes, each against the rest.

    `scores` are logits (N, classes). With two classes their difference ranks; with more, the probability of a class.
    Classes that nobody asked about are left out.
    """
    if scores.shape[1] == 2:
        return roc_auc(scores[:, 1].double() - scores[:, 0].double(), labels == 1)
    p = scores.double().softmax(1)
    areas = [roc_auc(p[:, c], labels == c) for c in range(scores.shape[1])]
    there = [area for area in areas if area is not None]
    return sum(there) / len(there) if there else None


def eleven_point(scores: Tensor, positive: Tensor) -> float | None:
    r"""The average precision of VOC 2007: the best precision at or beyond each of eleven recalls.

    .. math:: \frac{1}{11} \sum_{r \in \{0, 0.1, \dots, 1\}} \max_{r' \ge r} \mathrm{precision}(r')

    Everingham et al. 2010, §4.2. Equal scores come together: precision and recall are taken after each different score.
    Fixed points: 1 when every positive comes first. None without positives.
    """
    total = int(positive.sum())
    if total == 0:
        return None
    values, order = scores.double().sort(descending=True, stable=True)
    hits = positive[order].double().cumsum(0)
    last = torch.ones(len(values), dtype=torch.bool)
    last[:-1] = values[1:] != values[:-1]
    hits, taken = hits[last], (torch.nonzero(last)[:, 0] + 1).double()
    recall, precision = hits / total, hits / taken
    points = torch.arange(11, dtype=torch.float64) / 10
    best = [float(precision[recall >= r - 1e-12].max()) for r in points]
    return sum(best) / len(best)
