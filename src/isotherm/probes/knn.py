"""The nearest-neighbour probe: what do the training items next to a test item say it is?

All k in one pass over strips of similarities; the matrix of all of them never exists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor

from isotherm.checks import at_least, did_you_mean, positive
from isotherm.engine.select import largest, order_keys
from isotherm.pairing import unit
from isotherm.probes.extract import Parts, parts
from isotherm.probes.scores import Score, ranks, score

Weights = Literal["cosine", "l2", "uniform"]
STRIP = 1 << 24
"""Similarities at once (64 MB): enough rows for a fast matrix product."""
LEAST_ROWS = 32
DIFFERENCES = "donot_use_mm_for_euclid_dist"
COARSE = 1e-4
"""Squared distances below this part of the squared lengths have lost too much to rounding to tell who is nearer."""
QUIET = 1 << 15
"""Fewer numbers than this torch handles in one thread. What is left of a strip after the selection stays below it: a
dozen small steps that wake every thread cost more than they gain, and on a busy machine more than the products."""


@torch.no_grad()
def knn(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    ks: Sequence[int] = (1, 10, 20, 200),
    weights: Weights = "cosine",
    temperature: float = 0.07,
    classes: int | None = None,
) -> dict[int, Score]:
    r"""How often the k nearest training items vote for the right class: a score for every k.

    .. math:: c(x) = \arg\max_c \sum_{i \in N_k(x)} w_i \, [l_i = c]

    - ``cosine``: nearest by cosine similarity, :math:`w_i = e^{s_i/\tau}` with τ = `temperature`. Wu et al. 2018
      (arXiv:1805.01978), §3.4; DySTreSS (arXiv:2308.01140), A.1, with k = 200.
    - ``l2``: nearest by Euclidean distance of the features as they are, :math:`w_i = 1/d_i`; at distance 0 only those
      count. DySTreSS A.1 on long tails, with k = 1 and 10 (which weight they take there, they do not say).
    - ``uniform``: nearest by cosine similarity, one vote each.

    Of equally near items the one that stands first in `train` is nearer, and of classes with equal votes the lower one
    wins; one that nobody votes for is in no top 5. Both are computed in float32, of vectors less the training mean:
    rounding may part equal ones.
    Memory: a copy of the features and some 100 MB, however many there are.
    """
    given = parts(train, train_labels, test, test_labels, classes)
    wanted = _ks(ks, len(given.train))
    if weights not in get_args(Weights):
        raise ValueError(f"no weights '{weights}'{did_you_mean(str(weights), get_args(Weights))}")
    temperature = positive("temperature", temperature)
    rank = torch.empty(len(wanted), len(given.test), dtype=torch.int64, device=given.test.device)
    for rows, near, weight in _voters(given, wanted[-1], weights, temperature):
        labels = given.train_labels[near]
        votes = torch.zeros(len(near), given.classes, dtype=torch.float64, device=near.device)
        for row, (before, k) in enumerate(pairwise((0, *wanted))):  # the votes of fewer neighbours are part of these
            votes.scatter_add_(1, labels[:, before:k], weight[:, before:k].double())
            own = given.test_labels[rows]
            # A class without a vote is in no top 5, whatever its number.
            without = votes.gather(1, own[:, None])[:, 0] == 0
            rank[row, rows] = ranks(votes, own).masked_fill(without, given.classes)
    settings = {"weights": weights, **({"temperature": temperature} if weights == "cosine" else {})}
    return {
        k: score("knn", rank[row], given.test_labels, given.classes, None, {"k": k, **settings})
        for row, k in enumerate(wanted)
    }


@torch.no_grad()
def knn_votes(
    train: Tensor, train_labels: Tensor, test: Tensor, k: int, classes: int, temperature: float = 0.07
) -> Tensor:
    """The votes of the k nearest training items for every class (N, classes), by cosine as `knn` counts them."""
    given = parts(train, train_labels, test, train_labels[:1].expand(len(test)), classes)
    _ks((k,), len(given.train))
    votes = torch.zeros(len(given.test), classes, dtype=torch.float64, device=given.test.device)
    for rows, near, weight in _voters(given, k, "cosine", positive("temperature", temperature)):
        votes[rows] = votes[rows].scatter_add(1, given.train_labels[near], weight.double())
    return votes


def _ks(ks: Sequence[int], n: int) -> list[int]:
    if not ks:
        raise ValueError("ks is empty; name at least one number of neighbours.")
    at_least(1, **{f"ks[{i}]": k for i, k in enumerate(ks)})
    if max(ks) > n:
        raise ValueError(f"k = {max(ks)} neighbours are more than the {n} training items. Use smaller ks.")
    return sorted(set(ks))


def _voters(given: Parts, k: int, weights: Weights, temperature: float) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Strips of test items, their neighbours' indices from near to far, and how much each of these counts."""
    if weights != "l2":
        # Of unit vectors the most similar is the nearest. About their mean also those of a narrow cone are told apart,
        # whose similarities agree in all digits that float32 has; a query's differ from these by one number.
        queries, bank = _about_mean(unit(given.test, "test"), unit(given.train, "train"))
        for rows, s, near in nearest(queries, bank, k, less=bank.square().sum(1).div_(2)):
            # Relative to the nearest, so that no temperature overflows.
            yield rows, near, s.sub(s[:, :1]).div(temperature).exp() if weights == "cosine" else torch.ones_like(s)
        return
    queries, bank = _moved(given)
    half = bank.square().sum(1).div_(2)
    for rows, _, about in nearest(queries, bank, k, less=half):
        # ‖x‖² − 2x·y + ‖y‖² finds them, but is too coarse where a neighbour is almost the item itself.
        distance = _distances(queries[rows], bank, about)
        lost = distance.amax(1).square() < COARSE * (queries[rows].square().sum(1) + 2 * half.max())
        for some in lost.nonzero()[:, 0].split(LEAST_ROWS):
            distance[some], about[some] = _by_distance(queries[rows][some], bank, k)
        order = order_keys(-distance, about).argsort(dim=1, descending=True)
        near, distance = about.gather(1, order), distance.gather(1, order)
        first = distance[:, :1]
        yield rows, near, torch.where(first > 0, first / distance, (distance == 0).to(distance.dtype))


def _moved(given: Parts) -> tuple[Tensor, Tensor]:
    """Test and training features about the training mean and of a size near one: no distance changes its rank."""
    size = float(torch.maximum(given.test.abs().max(), given.train.abs().max())) or 1.0
    return _about_mean(given.test / size, given.train / size)


def _about_mean(test: Tensor, train: Tensor) -> tuple[Tensor, Tensor]:
    centre = train.mean(0)
    return test.sub(centre).float(), train.sub(centre).float()


def _by_distance(queries: Tensor, bank: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Distances and indices of the k nearest by the differences themselves: slow, and as fine as float32 is."""
    values, indices = largest(-torch.cdist(queries, bank, compute_mode=DIFFERENCES), k, _layers(len(bank), k))
    return -values, indices


def _distances(queries: Tensor, bank: Tensor, near: Tensor) -> Tensor:
    distances = torch.empty(near.shape, device=near.device)
    step = max(1, STRIP // (near.shape[1] * bank.shape[1]))
    for at in (slice(i, i + step) for i in range(0, len(near), step)):
        distances[at] = torch.cdist(queries[at, None], bank[near[at]], compute_mode=DIFFERENCES)[:, 0]
    return distances


def nearest(
    queries: Tensor, bank: Tensor, k: int, less: Tensor | None = None, strip: int = STRIP
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """The k largest x·y − less(y) of every query x among the y of a bank, in strips: rows, values, indices.

    float32; values descend, equal ones by ascending place. `strip` entries are formed at once.
    """
    n = len(bank)
    layers = _layers(n, k)
    height = min(len(queries), max(LEAST_ROWS, min(strip // n, QUIET // (k + 1))))
    buffer = torch.empty(height, n, device=bank.device)
    for start in range(0, len(queries), height):
        rows = slice(start, min(start + height, len(queries)))
        s = buffer[: rows.stop - rows.start]
        torch.mm(queries[rows], bank.T, out=s)
        if less is not None:
            s.sub_(less)
        yield rows, *largest(s, k, layers)


def _layers(n: int, k: int) -> int:
    """In how many layers a row is folded, so that both selections of `largest` have about equal work."""
    layers = max(1, round(math.sqrt(n / (3 * k))))
    return layers if n // layers > k else 1
