"""What a probe found: how often it is right, in all, class by class, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from isotherm.files import Json
from isotherm.probes.ranking import eleven_point, mean_auc, roc_auc

NORMAL_QUANTILE = 1.959963984540054
"""Between minus this and this lies 95 % of a normal distribution."""
TOP = 5


@dataclass(frozen=True)
class Score:
    """How well a probe names the class of items it has not seen. Shares lie between 0 and 1."""

    probe: str
    accuracy: float
    n: int
    """Items it was asked about."""
    seed: int | None
    """None: the probe draws no random numbers."""
    interval: tuple[float, float]
    """95 % confidence interval of the accuracy (Wilson), over other items to ask about; not over other seeds."""
    balanced: float
    """The mean over the classes that were asked about: what an imbalanced test cannot flatter."""
    per_class: tuple[float | None, ...]
    """The accuracy on each class; None where there was nothing to ask."""
    top5: float | None = None
    """How often the true class is among the first five; None where there are no more than five."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    auc: float | None = None
    """Area under the ROC curve (`ranking.mean_auc`); None where the probe only votes."""

    def as_dict(self) -> Json:
        """Everything, ready for JSON."""
        return dict(as_json(self))

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.probe}: {100 * self.accuracy:.2f} % (95 %: {100 * low:.2f} to {100 * high:.2f}; n = {self.n})"


@dataclass(frozen=True)
class MultiLabelScore:
    """How well a probe says which classes an item shows, of which it may show several."""

    probe: str
    mean_ap: float
    """The mean over the classes of VOC's eleven-point average precision."""
    auc: float | None
    """The mean over the classes of the area under the ROC curve."""
    accuracy: float
    """The share of all (item, class) that is decided rightly."""
    balanced: float
    """The mean over the classes of how often it is right on items that show them and on items that do not."""
    n: int
    seed: int | None
    per_class: tuple[float | None, ...]
    """The average precision of each class; None where no item shows it."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> Json:
        """Everything, ready for JSON."""
        return dict(as_json(self))

    def __str__(self) -> str:
        return f"{self.probe}: mean AP {100 * self.mean_ap:.2f} % (n = {self.n})"


@dataclass(frozen=True)
class Spread:
    """The same probe with several seeds."""

    probe: str
    mean: float
    sd: float
    """Standard deviation of the accuracies over the seeds (n − 1)."""
    n: int
    """How many seeds."""
    seeds: tuple[int, ...]
    interval: tuple[float, float]
    """95 % confidence interval of the mean over other seeds (Student's t), cut to [0, 1]."""
    scores: tuple[Score, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> Json:
        """Everything, ready for JSON."""
        return dict(as_json(self))

    def __str__(self) -> str:
        return f"{self.probe}: {100 * self.mean:.2f} ± {100 * self.sd:.2f} % ({self.n} seeds)"


def as_json(result: Any) -> Any:
    """A result ready for JSON: dataclasses as dictionaries, tuples as lists, whatever is in them too."""
    if is_dataclass(result):
        return {each.name: as_json(getattr(result, each.name)) for each in fields(result)}
    if isinstance(result, Mapping):
        return {name: as_json(value) for name, value in result.items()}
    return [as_json(value) for value in result] if isinstance(result, tuple | list) else result


def wilson(hits: int, n: int) -> tuple[float, float]:
    r"""The 95 % confidence interval of a share, honest near 0 and 1 too.

    .. math:: \frac{\hat p + z^2/2n \pm z \sqrt{\hat p (1 - \hat p)/n + z^2/4n^2}}{1 + z^2/n}

    Wilson 1927. :math:`\hat p` is hits/n, :math:`z` the 97.5 % quantile of the normal distribution.
    """
    if not 0 <= hits <= n or n < 1:
        raise ValueError(f"hits lie between 0 and n, and n is 1 or more; got {hits} of {n}.")
    p, z = hits / n, NORMAL_QUANTILE
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # Exactly 0 and 1 at the ends, where rounding leaves 1e-17.
    return (0.0 if hits == 0 else (centre - half) / scale, 1.0 if hits == n else (centre + half) / scale)


def ranks(scores: Tensor, labels: Tensor) -> Tensor:
    """For each item, how many classes stand before the true one; of equal scores the lower class comes first."""
    own = scores.gather(1, labels[:, None])
    before = torch.arange(scores.shape[1], device=scores.device) < labels[:, None]
    return ((scores > own) | ((scores == own) & before)).sum(1)


def score(
    probe: str,
    rank: Tensor,
    labels: Tensor,
    classes: int,
    seed: int | None,
    settings: Mapping[str, Any] | None = None,
    logits: Tensor | None = None,
) -> Score:
    """The score of a probe, from the rank it gave the true class of each item (`ranks`); with `logits` also its AUC."""
    n, right = len(labels), rank == 0
    asked = torch.bincount(labels, minlength=classes).tolist()
    hits_per_class = torch.bincount(labels[right], minlength=classes).tolist()
    per_class = tuple(hits / all_ if all_ else None for hits, all_ in zip(hits_per_class, asked, strict=True))
    there = [share for share in per_class if share is not None]
    return Score(
        probe=probe,
        accuracy=sum(hits_per_class) / n,
        n=n,
        seed=seed,
        interval=wilson(sum(hits_per_class), n),
        per_class=per_class,
        balanced=sum(there) / len(there),
        top5=int((rank < TOP).sum()) / n if classes > TOP else None,
        settings=dict(settings or {}),
        auc=None if logits is None else mean_auc(logits, labels),
    )


def multi_label_score(
    probe: str, logits: Tensor, truth: Tensor, seed: int | None, settings: Mapping[str, Any] | None = None
) -> MultiLabelScore:
    """The score of logits (N, classes) against 1, 0, and −1 where nobody knows; those items a class does not count."""
    known = truth >= 0
    by_class = [(logits[known[:, c], c].double(), truth[known[:, c], c] == 1) for c in range(truth.shape[1])]
    precisions = [eleven_point(s, t) if len(t) else None for s, t in by_class]
    there = [p for p in precisions if p is not None]
    if not there:
        raise ValueError("no item of the test part shows any class: there is nothing to rank.")
    areas = [a for a in (roc_auc(s, t) for s, t in by_class if len(t)) if a is not None]
    right = [((s > 0) == t, t) for s, t in by_class]
    sides = [float(r[side].double().mean()) for r, t in right for side in (t, ~t) if bool(side.any())]
    return MultiLabelScore(
        probe=probe,
        mean_ap=sum(there) / len(there),
        auc=sum(areas) / len(areas) if areas else None,
        accuracy=float(torch.cat([r for r, _ in right]).double().mean()),
        balanced=sum(sides) / len(sides),
        n=len(truth),
        seed=seed,
        per_class=tuple(precisions),
        settings=dict(settings or {}),
    )


def spread(probe: str, scores: Sequence[Score], seeds: Sequence[int], settings: Mapping[str, Any]) -> Spread:
    """Mean and standard deviation of the same probe over these seeds, one score each."""
    from scipy.stats import t  # noqa: PLC0415 - slow to import, and needed only here

    different(seeds)
    count = len(scores)
    values = torch.tensor([s.accuracy for s in scores], dtype=torch.float64)
    mean, sd = float(values.mean()), float(values.std())
    half = float(t.ppf(0.975, count - 1)) * sd / math.sqrt(count)
    interval = (max(0.0, mean - half), min(1.0, mean + half))
    return Spread(probe, mean, sd, count, tuple(seeds), interval, tuple(scores), dict(settings))


def different(seeds: Sequence[int]) -> None:
    """Refuse seeds that give no standard deviation."""
    if len(seeds) < 2 or len(set(seeds)) != len(seeds):
        raise ValueError(f"a mean ± sd needs 2 different seeds or more, got {list(seeds)}.")
