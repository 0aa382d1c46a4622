r"""Retrieval between images and texts: where in the order of similarity does what belongs together stand?

An image with several captions counts as the literature has it (Karpathy & Fei-Fei 2015; CLIP, arXiv:2103.00020): from
image to text its rank is that of the best of its captions among all captions; from text to image each caption is a
query of its own. Whatever is exactly as similar as the right answer, and wrong, stands before it: an embedding in which
everything is one point finds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.pairing import unit

CUTS = (1, 5, 10)
AT_ONCE = 1 << 22
"""Similarities in memory at a time."""
EQUAL = 8
"""Similarities of unit vectors that differ by less than so many roundings are one."""


@dataclass(frozen=True)
class Direction:
    """One direction of retrieval."""

    recalls: dict[int, float]
    """R@k: the share of queries with a right answer among the first k."""
    median: float
    """Of the ranks, the first being 1."""
    n: int
    """Queries."""


@dataclass(frozen=True)
class Retrieval:
    """Both directions."""

    image_to_text: Direction
    text_to_image: Direction
    images: int
    texts: int

    @property
    def mean_recall(self) -> float:
        """The mean of R@1, 5 and 10 of both directions."""
        values = [*self.image_to_text.recalls.values(), *self.text_to_image.recalls.values()]
        return sum(values) / len(values)


@torch.no_grad()
def retrieval(images: Tensor, texts: Tensor, owner: Tensor, cuts: Sequence[int] = CUTS) -> Retrieval:
    """Embeddings of images (N, D) and of texts (C, D); `owner` (C,) is the index of each text's image."""
    images, texts = unit(images.double(), "images"), unit(texts.double(), "texts")
    owner = torch.as_tensor(owner)
    if owner.shape != (len(texts),):
        raise ValueError(f"owner must name the image of each of {len(texts)} texts; got shape {tuple(owner.shape)}.")
    if int(owner.min()) < 0 or int(owner.max()) >= len(images):
        raise ValueError(
            f"owner reaches from {int(owner.min())} to {int(owner.max())}; there are {len(images)} images."
        )
    without = len(images) - len(owner.unique())
    if without:
        raise ValueError(f"{without} of {len(images)} images have no text; leave them out.")
    to_text = ranks(images, texts, torch.arange(len(images)), owner)
    to_image = ranks(texts, images, owner, torch.arange(len(images)))
    return Retrieval(_direction(to_text, cuts), _direction(to_image, cuts), len(images), len(texts))


def ranks(queries: Tensor, candidates: Tensor, wanted: Tensor, item: Tensor) -> Tensor:
    """For each query how many wrong candidates stand before its best right one, those equal to it, but for rounding,
    among them: one point finds nothing.

    Query i wants the candidates whose `item` is wanted[i].
    """
    parts = []
    rows = max(1, AT_ONCE // len(candidates))
    for start in range(0, len(queries), rows):
        s = queries[start : start + rows] @ candidates.T
        right = wanted[start : start + rows, None] == item
        best = s.masked_fill(~right, -torch.inf).amax(1, keepdim=True)
        parts.append(((s >= best - EQUAL * torch.finfo(s.dtype).eps) & ~right).sum(1))
    return torch.cat(parts)


def _direction(rank: Tensor, cuts: Sequence[int]) -> Direction:
    n = len(rank)
    hits = {k: int((rank < k).sum()) for k in cuts}
    return Direction(
        recalls={k: h / n for k, h in hits.items()},
        median=float(torch.quantile(rank.double() + 1, 0.5)),
        n=n,
    )
