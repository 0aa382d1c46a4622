"""Views of a sentence: its tokens as they are, a part of them, or all but some. Drawn as those of images are.

The first and the last token are the tokenizer's own and stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from isotherm.streams import uniforms

Tokens = list[int]
CROPPED = (0.15, 0.4)
"""The least and the largest share of a sentence that a crop keeps."""
DELETED = 0.2
"""The share of tokens that are left out."""


@dataclass(frozen=True)
class TextRecipe:
    """How the views of a sentence are drawn."""

    name: str
    about: str
    draw: Callable[[Tokens, Sequence[float]], Tokens] | None = None
    """The tokens between the first and the last, and a number for each and two more; None: they stay as they are."""

    def view(self, tokens: Sequence[Tokens], ids: Tensor, *, seed: int, epoch: int, view: int) -> list[Tokens]:
        """One view of each sentence: a pure function of its id, the seed, the epoch and the view's number."""
        if self.draw is None:
            return list(tokens)
        longest = max(map(len, tokens))
        chance = uniforms(ids, longest, seed=seed, epoch=epoch, view=view).tolist()
        return [[t[0], *self.draw(t[1:-1], u), t[-1]] if len(t) > 3 else t for t, u in zip(tokens, chance, strict=True)]


def crop(inside: Tokens, chance: Sequence[float]) -> Tokens:
    """A run of neighbouring tokens, as large a part of them as `CROPPED` says."""
    n, (least, most) = len(inside), CROPPED
    keep = max(1, math.ceil(n * (least + (most - least) * chance[0])))
    start = int(chance[1] * (n - keep + 1))
    return inside[start : start + keep]


def delete(inside: Tokens, chance: Sequence[float]) -> Tokens:
    """Every token with the same chance, but at least one."""
    kept = [t for t, u in zip(inside, chance, strict=False) if u >= DELETED]
    return kept or inside[:1]


RECIPES = {
    r.name: r
    for r in (
        TextRecipe("dropout", "the sentence itself; the encoder's dropout makes the views (SimCSE, arXiv:2104.08821)"),
        TextRecipe("crop", "two runs of its words, 15 to 40 % of them each (as Contriever, arXiv:2112.09118)", crop),
        TextRecipe("delete", "without a fifth of its words, drawn anew (as CLEAR, arXiv:2012.15466)", delete),
    )
}
"""By name."""
