"""Everything about one embedding: its measures, and what to do about it. Numbers only; no plots, no files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotherm.files import Json
from isotherm.inspect.findings import found_in, gravest_first
from isotherm.inspect.heavy_columns import heavy_columns
from isotherm.inspect.reading import Embedding
from isotherm.inspect.temperature_advice import Advice, Hardness, advise, hardness_of
from isotherm.measures import BINS, projections, spectrum
from isotherm.measures.catalogue import measures
from isotherm.measures.embedding import Around
from isotherm.measures.measure import take
from isotherm.measures.reach import Queries
from isotherm.measures.subject import Subject
from isotherm.pairing import unit
from isotherm.report import Finding, number

Floats = NDArray[np.float64]
DIRECTIONS = 64
"""Random directions the embedding is looked at along."""
PARTS, LEAST = 8, 64
"""Into how many parts a sample is divided to see its errors, and rows that a part has at least."""
PROJECTION_EDGES = np.linspace(-4, 4, 41)


@dataclass(frozen=True)
class Norms:
    """Lengths of the embeddings before they were normalized."""

    least: float
    mean: float
    greatest: float
    spread: float
    """Standard deviation."""


@dataclass(frozen=True)
class Class:
    """One class of the labels."""

    name: str
    items: int
    tolerance: float | None
    """Mean similarity of two of its items; None where it has one."""
    agreement: float | None
    """How often the nearest neighbour of an item is of the class too."""


@dataclass(frozen=True, eq=False)
class Health:
    """What an embedding is like."""

    name: str
    n: int
    d: int
    norms: Norms
    values: dict[str, float]
    """The measures by name; only those that could be taken."""
    limit: float
    """The uniformity of points spread evenly over the sphere of this dimension: as low as it gets."""
    chance: float | None
    """The agreement of nearest neighbours drawn at random."""
    classes: tuple[Class, ...]
    edges: Floats
    """Of the histograms of similarities."""
    histograms: dict[str, Floats]
    """By kind of pair: the part of its pairs in each bin."""
    spectrum: Floats
    """Variance along the principal directions, the largest first."""
    projections: Floats
    """(directions, bins): histograms along random directions, in units of 1/√d from −4 to 4, as densities."""
    separation: Floats | None
    """Mean similarity to the 1st, 2nd, … nearest other item of the other view."""
    hardness: Hardness
    advice: Advice
    duplicates: int
    """Rows that repeat an earlier one exactly."""
    constant_columns: tuple[int, ...]
    findings: tuple[Finding, ...]
    errors: dict[str, float] = dataclasses.field(default_factory=dict)
    """Of a sample: the standard error of a measure as an estimate of the whole file's; only of those that are one."""
    heavy_columns: dict[str, float] = dataclasses.field(default_factory=dict)
    """The part of the squared length by column, where one or a few hold nearly all of it."""

    @property
    def around(self) -> Around:
        """What a measure is judged by."""
        return Around(self.values, self.n, self.d, self.limit, self.chance)

    def as_dict(self) -> Json:
        """Everything, in what JSON knows."""
        plain: Json = _plain(self)
        return plain


class Examined(Subject):
    """An embedding whose uniformity and entropy come from the one pass over all pairs."""

    @property
    def uniformity(self) -> float:
        return self.pairs.uniformity

    @property
    def conditional_entropy(self) -> float:
        return self.pairs.conditional_entropy


@torch.no_grad()
def examine(
    z: Tensor,
    labels: Tensor | None = None,
    views: Tensor | tuple[Tensor, Tensor] | None = None,
    *,
    name: str = "embedding",
    classes: Sequence[str] = (),
    notes: Sequence[Finding] = (),
    dimensions: Sequence[str] = (),
    seed: int = 0,
) -> Health:
    """All measures of an embedding, (N, D): exact over all pairs, in the memory of a few tiles.

    `labels` (N,) bring the measures of classes; items labelled −1 have none, and are left out of those. `views` (N, D),
    another view of each item, or two views of each, bring the measures of positives. `dimensions` are the names of the
    columns. Only the effective number of negatives is measured on a sample of queries, chosen by `seed`.
    """
    n, d = z.shape if z.ndim == 2 else (0, 0)
    u = unit(z, "z")
    complete = labels if labels is not None and bool((labels >= 0).all()) else None
    subject = Examined(u, complete, (u, views) if isinstance(views, Tensor) else views, seed)
    labelled, gaps = _labelled(subject, labels)
    per_class, chance = ((), None) if labelled is None else _classes(labelled, classes)
    values = _values(subject, labelled)
    queries = Queries(u, complete, seed)
    advice = advise(queries, _against(Around(values, n, d, even_uniformity(d), chance)))
    lengths = torch.linalg.vector_norm(z.double(), dim=1)
    health = Health(
        name=name,
        n=n,
        d=d,
        norms=Norms(float(lengths.min()), float(lengths.mean()), float(lengths.max()), float(lengths.std())),
        values=values,
        limit=even_uniformity(d),
        chance=chance,
        classes=per_class,
        edges=np.linspace(-1, 1, BINS + 1),
        histograms=_histograms(subject, labelled),
        spectrum=spectrum(u).cpu().numpy(),
        projections=_projected(u, seed),
        separation=None if views is None else subject.separation[1].cpu().numpy(),
        hardness=hardness_of(queries, advice),
        advice=advice,
        duplicates=_duplicates(z),
        constant_columns=tuple((z.amax(0) == z.amin(0)).nonzero()[:, 0].tolist()),
        findings=(),
        heavy_columns=heavy_columns(u, dimensions),
    )
    found = found_in(health, views_given=not isinstance(views, tuple))
    return dataclasses.replace(health, findings=gravest_first([*notes, *gaps, *found]))


def values_of(z: Tensor, labels: Tensor | None = None, views: Tensor | None = None, seed: int = 0) -> dict[str, float]:
    """The measures of `examine`, and nothing else."""
    u = unit(z, "z")
    complete = labels if labels is not None and bool((labels >= 0).all()) else None
    subject = Examined(u, complete, None if views is None else (u, views), seed)
    return _values(subject, _labelled(subject, labels)[0])


def examine_embedding(embedding: Embedding, seed: int = 0, sampled: bool = False) -> Health:
    """All measures of what was read from a file; of a sample of its rows, with their errors."""
    health = examine(
        embedding.z,
        embedding.labels,
        embedding.views,
        name=embedding.name,
        classes=embedding.classes,
        notes=embedding.notes,
        dimensions=embedding.dimensions,
        seed=seed,
    )
    if not sampled:
        return health
    if len(embedding.z) >= PARTS * LEAST:
        return _with_errors(health, embedding, seed)
    text = (
        f"A sample of {len(embedding.z):,} of {embedding.total:,} rows, too small to say its errors. Neighbours, and "
    )
    text += "whatever else depends on the number of rows, are the sample's own, not the file's."
    note = Finding("look", text, f"{PARTS * LEAST:,} rows or more have errors", remark=True)
    return dataclasses.replace(health, findings=(*health.findings, note))


def _with_errors(health: Health, embedding: Embedding, seed: int) -> Health:
    """How far a measure of the sample may be from that of the whole file, from eighths of the sample.

    The deviation over the parts, over the root of their number, is the standard error of their mean (batch means). A
    measure whose parts differ from the whole by more than that explains depends on how many rows there are, as
    neighbours do: what a sample says of it is not what the file would.
    """
    z, labels, views = embedding.z, embedding.labels, embedding.views
    parts = [
        values_of(
            z[i::PARTS],
            labels if labels is None else labels[i::PARTS],
            views[i::PARTS] if isinstance(views, Tensor) else None,
            seed,
        )
        for i in range(PARTS)
    ]
    errors, sized = {}, []
    for name, value in health.values.items():
        each = np.array([part[name] for part in parts if name in part])
        if len(each) < PARTS:
            continue
        error = float(each.std(ddof=1) / math.sqrt(PARTS))
        if abs(each.mean() - value) > max(4 * error, 0.005 * abs(value)):
            sized.append(measures()[name].title)
        else:
            errors[name] = error
    said = ", ".join(f"{measures()[name].title} ± {number(error, 2)}" for name, error in errors.items())
    text = f"Standard errors for being a sample: {said}."
    if sized:
        text += f" What depends on the number of rows is the sample's own, not the file's: {', '.join(sized)}."
    note = Finding("look", text, f"from {PARTS} parts of the sample", remark=True)
    return dataclasses.replace(health, errors=errors, findings=(*health.findings, note))


def _labelled(subject: Examined, labels: Tensor | None) -> tuple[Examined | None, list[Finding]]:
    """The items that have a label, with their labels; and what is to be said of those that have none."""
    if labels is None or subject.labels is not None:
        return (None if labels is None else subject), []
    known = labels >= 0
    said = f"{int((~known).sum()):,} of {len(labels):,} items are labelled −1, which is taken for no label"
    if int(known.sum()) < 2:
        return None, [Finding("look", f"{said}: nothing is said about classes.")]
    part = Examined(subject.embeddings[known], labels[known], None, subject.seed)
    return part, [Finding("look", f"{said}; what is said about classes leaves them out.")]


def _values(subject: Examined, labelled: Examined | None) -> dict[str, float]:
    """Every measure that has a healthy range; those of classes over the items that have one."""
    shown = [m for m in measures().values() if m.healthy is not None]
    values = take(shown, subject)
    if labelled is not None and labelled is not subject:
        values |= take([m for m in shown if "labels" in m.needs], labelled)
    return {m.name: values[m.name] for m in shown if m.name in values}


def _against(around: Around) -> str:
    """Why no temperature should be recommended."""
    if around.spread == "bad":
        return (
            f"the embedding is nearly collapsed (uniformity {number(around.values['uniformity'])} of "
            f"{number(around.limit, 3)}), and a range would describe the noise around one point. Mend the collapse "
            "first."
        )
    if around.identical_views:
        return "the two views of every item are identical, so that there is no positive to weigh negatives against."
    return ""


def _histograms(subject: Subject, labelled: Subject | None) -> dict[str, Floats]:
    """The part of the pairs in each bin of similarity, by kind of pair."""
    pairs = (labelled or subject).pairs
    kinds = {"all pairs": pairs.histogram}
    if pairs.same_class is not None:
        apart = pairs.histogram - pairs.same_class
        both = {"same class, other item": pairs.same_class, "other class": apart}
        kinds = {kind: counts for kind, counts in both.items() if counts.sum()}
    if "views" in subject.has:
        a, b = subject.views
        kinds = {"two views of an item": _binned((unit(a, "views") * unit(b, "views").to(a)).sum(1)), **kinds}
    return {kind: _parts(counts) for kind, counts in kinds.items()}


def even_uniformity(d: int, t: float = 2.0) -> float:
    r"""The uniformity of points spread evenly over the sphere in d dimensions.

    .. math:: \log \mathbb{E}\, e^{2t(s - 1)} = \log {}_0F_1\big(;\tfrac d2;\, t^2\big) - 2t

    The mean of e^{κs} over the sphere with κ = 2t is Γ(d/2) (2/κ)^{d/2−1} I_{d/2−1}(κ); summed as a series.
    """
    term = total = 1.0
    for k in range(1, 200):
        term *= t * t / (k * (d / 2 + k - 1))
        total += term
    return math.log(total) - 2 * t


def _classes(subject: Subject, names: Sequence[str]) -> tuple[tuple[Class, ...], float | None]:
    """Each class by itself, and how often a random neighbour would agree."""
    u = subject.embeddings
    kinds, counts, agreement = subject.agreement
    index = torch.unique(subject.labels, return_inverse=True)[1]
    sums = u.new_zeros(len(kinds), u.shape[1], dtype=torch.float64).index_add(0, index, u.double())
    tolerance = (sums.square().sum(1) - counts) / (counts * (counts - 1)).double()
    classes = tuple(
        Class(
            name=names[int(kinds[c])] if names else str(kinds[c].item()),
            items=int(counts[c]),
            tolerance=min(1.0, float(tolerance[c])) if counts[c] > 1 else None,
            agreement=float(agreement[c]) if counts[c] > 1 else None,
        )
        for c in range(len(kinds))
    )
    several = counts[counts > 1].double()
    if not len(several):
        return classes, None
    return classes, float((several * (several - 1)).sum() / (several.sum() * (len(u) - 1)))


def _parts(counts: Tensor) -> Floats:
    result: Floats = (counts.double() / counts.sum().clamp_min(1)).numpy()
    return result


def _binned(s: Tensor) -> Tensor:
    place = s.add(1).mul(BINS / 2).clamp(0, BINS - 1).long().cpu()
    return torch.bincount(place, minlength=BINS)


def _projected(u: Tensor, seed: int) -> Floats:
    """Densities along random directions, in units of the prior's spread."""
    seen = projections(u, DIRECTIONS, seed).double().cpu().numpy() * math.sqrt(u.shape[1])
    width = PROJECTION_EDGES[1] - PROJECTION_EDGES[0]
    return np.array([np.histogram(row, bins=PROJECTION_EDGES)[0] / (len(row) * width) for row in seen])


def _duplicates(z: Tensor) -> int:
    """How many rows repeat an earlier one, bit for bit: rows are told apart by a random 64-bit sum of their bits."""
    bits = z.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[z.element_size()])
    weights = torch.randint(-(2**62), 2**62, (z.shape[1],), generator=torch.Generator().manual_seed(0)).to(z.device)
    sums = torch.cat([(part.long() * weights).sum(1) for part in bits.split(4096)])
    return len(z) - len(torch.unique(sums))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
