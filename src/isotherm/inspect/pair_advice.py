r"""Which temperature suits two modalities, given how far apart they lie.

A query's negatives are the items of the other modality. A gap between the modalities shifts all of its similarities
alike, which a softmax does not see: so the range of temperatures comes from their spread, by the part of the negatives
that the repulsion reaches (`measures.reach`), whatever the gap is.

The gap itself hangs on the temperature by how satisfied the loss already is. With a margin δ between a pair's
similarity and that of others, and m negatives, the positive's probability is about 1/(1 + m·exp(−δ/τ)): below

.. math:: \tau_{\text{gap}} = \delta / \log m

it is near 1 with the gap as it is, and nothing pulls the modalities together; above, pairs must come closer than they
are, which they can only across the gap. So a low temperature keeps a gap and a higher one closes it, as Liang et al.
2022 (arXiv:2203.02053, §4.2) saw in CLIP.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.files import Json
from isotherm.inspect.temperature_advice import Advice, advise
from isotherm.measures.reach import QUERIES, Queries, without
from isotherm.pairing import unit
from isotherm.report import number


@dataclass(frozen=True)
class PairAdvice:
    """A range of temperatures for two modalities, and where their gap begins to close."""

    range: Advice
    gap: float
    margin: float
    """Mean similarity of a pair less that of two that do not belong together."""
    closing: float | None
    """The temperature above which training must close the gap; None where pairs are no more alike than others."""
    reasoning: str

    def as_dict(self) -> Json:
        return {**dataclasses.asdict(self)}


class AcrossQueries(Queries):
    """Similarities of a seeded sample of images to the texts of all others, and of their texts to the images."""

    def __init__(self, images: Tensor, texts: Tensor, seed: int = 0) -> None:
        x, y = unit(images.float(), "images"), unit(texts.float(), "texts")
        n = len(x)
        count = min(n, max(16, min(QUERIES // 2, (1 << 23) // n)))
        chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:count]
        self.s = torch.cat([without(x[chosen] @ y.T, chosen), without(y[chosen] @ x.T, chosen)])
        self.same = None
        self.positive = float((x * y).sum(1).double().mean())


def advise_pairs(images: Tensor, texts: Tensor, owner: Tensor, gap: float, seed: int = 0) -> PairAdvice:
    """The temperatures for a set of pairs with this modality gap; of several texts of an image the first counts."""
    n = len(images)
    first = torch.full((n,), len(texts)).scatter_reduce(0, owner, torch.arange(len(texts)), "amin")
    queries = AcrossQueries(images, texts[first], seed)
    fitting = advise(queries)
    others = float(queries.s.double().mean())
    margin = queries.positive - others
    negatives = queries.s.shape[1]
    closing = margin / math.log(negatives) if margin > 0 and negatives > 1 else None
    lines = [fitting.reasoning]
    spread = float(queries.s.double().std())
    lines.append(
        f"The modality gap is {number(gap)}. It shifts all similarities of a query alike (to {number(others)} on "
        f"average), which a softmax over them does not see: τ must suit their spread, {number(spread)}, not the gap."
    )
    if closing is not None:
        lines.append(_about_closing(gap, margin, closing, negatives, fitting))
    return PairAdvice(fitting, gap, margin, closing, "\n\n".join(lines))


def _about_closing(gap: float, margin: float, closing: float, negatives: int, fitting: Advice) -> str:
    at = float(f"{closing:.2g}")
    said = (
        f"A pair is {number(margin)} more alike than two that do not belong together; among {negatives:,} negatives "
        f"that satisfies the loss below τ = {number(margin, 2)}/log {negatives:,} = {at:g}, and nothing closes the gap "
        "there."
    )
    if fitting.low is None or fitting.high is None:
        return said
    if at <= fitting.low:
        return (
            f"{said} All of the recommended range lies above: training in it goes on drawing the modalities together."
        )
    if at >= fitting.high:
        return (
            f"{said} All of the recommended range lies below: it keeps the gap. For retrieval across modalities that "
            f"is harmless; to search both together, train above {at:g} or subtract each modality's mean."
        )
    return (
        f"{said} So from {fitting.low:g} to {at:g} training keeps the gap, and from {at:g} to {fitting.high:g} it "
        "draws the modalities together: take the upper part if images and texts are searched together, any of it for "
        "retrieval across."
    )
