"""Does the similarity of two sentences' embeddings order pairs as people do? And how do STS-B's lie on the sphere?

The seven tasks of semantic textual similarity as SimCSE (arXiv:2104.08821) and DySTreSS (arXiv:2308.01140, Table 12)
report them: no training, cosine similarity, Spearman's correlation over all pairs of a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from isotherm.checks import did_you_mean
from isotherm.data import senteval
from isotherm.data.senteval import Rated
from isotherm.files import Json
from isotherm.measures import alignment, uniformity
from isotherm.probes.scores import as_json

Encode = Callable[[Sequence[str]], Tensor]
"""Sentences in, float (N, D) out, on the CPU."""
Part = Literal["dev", "test"]
ALL = senteval.SIMILARITY
DIGITS = 10
CONSTANT = 10.0**-DIGITS
"""Cosines no further apart than this are one number: those of vectors that agree to five digits are, so what is left
is rounding, whose order means nothing."""
POSITIVE = 4.0
"""STS-B pairs with a score above this are positives (SimCSE)."""


@dataclass(frozen=True)
class Subset:
    """One file of pairs."""

    name: str
    pairs: int
    spearman: float | None
    """None: undefined, because all its similarities or all its gold scores are equal."""


@dataclass(frozen=True)
class Task:
    """One task: a year of STS, STS-B or SICK-R. Correlations lie between −1 and 1."""

    name: str
    spearman: float | None
    """Over the pairs of all its subsets together (the "all" setting, which SimCSE and DySTreSS report); None where it
    is undefined."""
    pairs: int
    mean: float | None
    """The mean of the subsets' own correlations, which SentEval reported; None where one is undefined."""
    weighted: float | None
    """The same, each subset counting by its pairs."""
    subsets: tuple[Subset, ...]
    missing: tuple[str, ...] = ()
    """Files that were not there: the numbers are of the rest."""


@dataclass(frozen=True)
class STS:
    """What `sts` found."""

    tasks: Mapping[str, Task]
    """Those of which something was there."""
    missing: tuple[str, ...]
    """Those asked for of which nothing was there."""
    average: float | None
    """The mean of the `tasks`' correlations; None where one is undefined. It is the published "Avg." only if
    `complete`."""
    complete: bool
    """Whether all seven tasks are there, and whole."""
    sentences: int
    """Distinct sentences that were encoded, once each."""
    zeros: int
    """How many of them got a zero vector, whose similarity to any other counts as 0."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know: what was missing, undefined or zero."""

    def as_dict(self) -> Json:
        """Everything, ready for JSON."""
        return dict(as_json(self))

    def __str__(self) -> str:
        values = {name: task.spearman for name, task in self.tasks.items()}
        return suite_line(values, self.average, self.complete)


@dataclass(frozen=True)
class Geometry:
    """How the embeddings of STS-B's sentences lie on the sphere."""

    alignment: float
    """Mean squared distance of the pairs people find the same (score above 4): 0 is best."""
    uniformity: float
    """Log of the mean of exp(−2 d²) over all pairs of different sentences: lower is more evenly spread."""
    part: Part
    positives: int
    """Pairs in the alignment."""
    sentences: int
    """Distinct sentences in the uniformity."""

    def as_dict(self) -> Json:
        """Everything, ready for JSON."""
        return dict(as_json(self))


def suite_line(values: Mapping[str, float | None], average: float | None, complete: bool) -> str:
    """The values of all tasks and their average, which says of what it is one."""
    of = "the seven tasks" if complete else ", ".join(values)
    each = ", ".join(f"{name} {_percent(value)}" for name, value in values.items())
    return f"{each}; average of {of}: {_percent(average)}"


@torch.no_grad()
def sts(encode: Encode, folder: Path | str | None = None, tasks: Sequence[str] = ALL) -> STS:
    r"""How well cosine similarity orders pairs of sentences as people do, on SentEval's seven tasks.

    .. math:: \rho = \mathrm{corr}\big(\mathrm{rank}(\cos(z_i, z'_i)),\; \mathrm{rank}(g_i)\big)

    Spearman's correlation, :math:`g_i` the gold score, equal values sharing the mean of their ranks, over all pairs of
    a task together; STS-B and SICK-R by their test parts. Every distinct sentence is encoded once, all in one call.

    Missing files are named and the rest is evaluated. Where all similarities of a task are equal, as those of a
    collapsed encoder are, there is no order to compare: its correlation is None, and so is the average, because an
    average over the other tasks would be compared with one over all. A zero vector has similarity 0 to everything.
    """
    wanted = tasks_asked_for(tasks, ALL)
    root = senteval.folder(folder)
    read = {task: senteval.rated(root, task) for task in wanted}
    if not any(subsets for subsets, _ in read.values()):
        raise ValueError(
            f"{root} holds none of {', '.join(wanted)}. SentEval's layout is expected: "
            "STS/STS12-en-test/STS.input.MSRpar.txt, STS/STSBenchmark/sts-test.csv, SICK/SICK_test_annotated.txt and "
            "so on."
        )
    embedded = Embedded.of(encode, [s for subsets, _ in read.values() for each in subsets for s in _sentences(each)])
    done = {task: _task(task, subsets, missing, embedded) for task, (subsets, missing) in read.items() if subsets}
    absent = tuple(task for task in wanted if task not in done)
    complete = tuple(done) == ALL and not any(task.missing for task in done.values())
    return STS(
        tasks=done,
        missing=absent,
        average=_mean([task.spearman for task in done.values()]),
        complete=complete,
        sentences=len(embedded.indices),
        zeros=embedded.zeros,
        notes=_notes(done, absent, embedded.zeros),
    )


@torch.no_grad()
def dev_score(encode: Encode, folder: Path | str | None = None) -> float:
    """Spearman's correlation on the dev part of STS-B: what SimCSE (arXiv:2104.08821) chooses a checkpoint by.

    nan where it is undefined (a collapsed encoder): no comparison with it holds, so it is never the best.
    """
    pairs = _stsb(folder, "dev")
    value = spearman(Embedded.of(encode, _sentences(pairs)).similarities(pairs), pairs.gold)
    return math.nan if value is None else value


@torch.no_grad()
def stsb_geometry(encode: Encode, folder: Path | str | None = None, part: Part = "dev") -> Geometry:
    r"""Alignment and uniformity on STS-B, of unit embeddings in float64.

    .. math::
        \mathbb{E}_{(x, y):\, g > 4}\, \|x - y\|^2, \qquad \log \mathbb{E}_{x \ne y}\, e^{-2 \|x - y\|^2}

    Wang & Isola 2020 (arXiv:2005.10242); positives as in SimCSE (arXiv:2104.08821). The second mean is
    over all pairs of *different* sentences, each there once however many pairs it is in. Were both columns fed as they
    are, a sentence that stands in several pairs would meet itself at distance 0 and count as a failure to spread.
    """
    if part not in get_args(Part):
        raise ValueError(f"no part '{part}' of STS-B{did_you_mean(str(part), get_args(Part))}")
    pairs = _stsb(folder, part)
    embedded = Embedded.of(encode, _sentences(pairs))
    if embedded.zeros:
        raise ValueError(
            f"encode gave {embedded.zeros} of {len(embedded.indices)} sentences a zero vector, which is nowhere on the "
            "sphere: alignment and uniformity are undefined."
        )
    positives = [i for i, gold in enumerate(pairs.gold) if gold > POSITIVE]
    if not positives or len(embedded.indices) < 2:
        raise ValueError(f"STS-B {part} has no pair with a score above {POSITIVE:g}. Get the file again.")
    first, second = (
        embedded.rows([pairs.first[i] for i in positives]),
        embedded.rows([pairs.second[i] for i in positives]),
    )
    return Geometry(alignment(first, second), uniformity(embedded.z), part, len(positives), len(embedded.indices))


def spearman(x: ArrayLike | Tensor, y: ArrayLike | Tensor) -> float | None:
    """The correlation of the ranks of two series, equal values sharing the mean of theirs; None if one is constant.

    Differences up to `CONSTANT` over the whole of a series are rounding.
    """
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"spearman compares two series of one length, got shapes {a.shape} and {b.shape}.")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("spearman takes finite numbers, got NaN or infinite ones.")
    if len(a) < 2 or np.ptp(a) <= CONSTANT or np.ptp(b) <= CONSTANT:
        return None
    p, q = (ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b)))
    return float(p @ q / math.sqrt(float(p @ p) * float(q @ q)))


def _ranks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    shared: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return shared[place]


@dataclass(frozen=True, eq=False)
class Embedded:
    """Distinct sentences and the embedding of each."""

    indices: Mapping[str, int]
    z: Tensor
    """(N, D), float64 or float32 as `of` was told"""
    zeros: int

    @classmethod
    def of(cls, encode: Encode, sentences: Sequence[str], dtype: torch.dtype = torch.float64) -> Embedded:
        """Encode each distinct sentence once, and refuse what is no embedding."""
        distinct = list(dict.fromkeys(sentences))
        z = encode(distinct)
        if not isinstance(z, Tensor) or not z.is_floating_point():
            raise TypeError(
                "encode must give a tensor of floating-point numbers, "
                f"got {z.dtype if isinstance(z, Tensor) else type(z).__name__}."
            )
        if z.ndim != 2 or len(z) != len(distinct) or z.shape[1] < 1:
            raise ValueError(f"encode must give one row per sentence, ({len(distinct)}, D), got {tuple(z.shape)}.")
        z = z.detach().cpu().to(dtype)
        bad = ~torch.isfinite(z).all(1)
        if bool(bad.any()):
            first = distinct[int(bad.int().argmax())]
            raise ValueError(
                f"encode gave NaN or infinite numbers for {int(bad.sum())} of {len(distinct)} sentences, "
                f"the first is {first[:60]!r}."
            )
        return cls({s: i for i, s in enumerate(distinct)}, z, int((z == 0).all(1).sum()))

    def rows(self, sentences: Sequence[str]) -> Tensor:
        """The embeddings of these."""
        return self.z[[self.indices[s] for s in sentences]]

    def similarities(self, pairs: Rated) -> Tensor:
        """The cosine of every pair, 0 where a vector is; those that only rounding tells apart are equal."""
        a, b = self.rows(pairs.first), self.rows(pairs.second)
        lengths = torch.linalg.vector_norm(a, dim=1) * torch.linalg.vector_norm(b, dim=1)
        cosines = torch.where(lengths > 0, (a * b).sum(1) / lengths.clamp_min(torch.finfo(a.dtype).tiny), 0)
        return cosines.round(decimals=DIGITS)


def tasks_asked_for(tasks: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The tasks asked for, each once, in the usual order."""
    if isinstance(tasks, str):
        tasks = [tasks]
    for name in tasks:
        if name not in known:
            raise ValueError(f"no task '{name}'{did_you_mean(str(name), known)}")
    if not tasks:
        raise ValueError(f"tasks is empty; there is: {', '.join(known)}.")
    return tuple(name for name in known if name in tasks)


def _stsb(folder: Path | str | None, part: Part) -> Rated:
    root = senteval.folder(folder)
    subsets, missing = senteval.rated(root, "STS-B", part)
    if missing:
        raise ValueError(f"{root} has no {missing[0]}, the {part} part of STS-B in SentEval's layout.")
    return subsets[0]


def _sentences(pairs: Rated) -> tuple[str, ...]:
    return (*pairs.first, *pairs.second)


def _task(name: str, subsets: Sequence[Rated], missing: tuple[str, ...], embedded: Embedded) -> Task:
    similarities = [embedded.similarities(pairs).numpy() for pairs in subsets]
    each = tuple(
        Subset(pairs.name, len(pairs.gold), spearman(s, pairs.gold))
        for pairs, s in zip(subsets, similarities, strict=True)
    )
    together = spearman(np.concatenate(similarities), np.concatenate([pairs.gold for pairs in subsets]))
    values, counts = [one.spearman for one in each], [one.pairs for one in each]
    return Task(name, together, sum(counts), _mean(values), _mean(values, counts), each, missing)


def _mean(values: Sequence[float | None], weights: Sequence[int] | None = None) -> float | None:
    defined = [value for value in values if value is not None]
    if len(defined) < len(values):
        return None
    return float(np.average(defined, weights=weights))


def _notes(tasks: Mapping[str, Task], absent: Sequence[str], zeros: int) -> tuple[str, ...]:
    notes = []
    if absent:
        notes.append(f"Nothing there of {', '.join(absent)}: the average is of {', '.join(tasks)}.")
    notes += [f"{name} is without {', '.join(task.missing)}." for name, task in tasks.items() if task.missing]
    undefined = [name for name, task in tasks.items() if task.spearman is None]
    undefined += [
        f"{name} {subset.name}"
        for name, task in tasks.items()
        if task.spearman is not None
        for subset in task.subsets
        if subset.spearman is None
    ]
    if undefined:
        notes.append(
            f"Spearman's correlation is undefined on {', '.join(undefined)}: all similarities (or all gold scores) are "
            "equal. A collapsed encoder does that."
        )
    if zeros:
        notes.append(f"{zeros} sentences got a zero vector; their similarities count as 0.")
    return tuple(notes)


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{100 * value:.2f}"
