"""Our losses in sentence-transformers' trainer.

The library is not imported here: the model comes in, a scalar goes out. docs/text-ecosystem.md shows it at work.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from isotherm.checks import at_least
from isotherm.gradient_cache import cached
from isotherm.integrations.columns import check, view_count
from isotherm.losses.columns import Pairing, contrast
from isotherm.losses.loss import Loss

__all__ = ["SentenceTransformerLoss"]


class SentenceTransformerLoss(nn.Module):
    """A loss of `isotherm.nn` as sentence-transformers' trainer wants it: columns of texts in, a scalar out.

    With one column, each text is embedded `views` times, and dropout makes the views (unsupervised SimCSE, Gao et al.
    2021, arXiv:2104.08821). With two, the columns are the views. From the third on they are hard negatives of every
    row (supervised SimCSE), as in `MultipleNegativesRankingLoss`. `symmetric` lets every view ask in turn and takes
    the mean; hard negatives stay candidates of column 0 alone.

    With `mini_batch_size` the texts go through the model that many at a time, and once more for their gradient, which
    is that of the whole batch (`isotherm.cached`; the library's Cached… losses): memory no longer bounds the batch.

    A learnable temperature is a parameter of this module, and so the trainer's optimizer moves it.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        pairing: Pairing = "cross_view",
        symmetric: bool = False,
        views: int = 2,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        check(loss, pairing, symmetric, views)
        at_least(1, mini_batch_size=mini_batch_size)
        self.model, self.loss = model, loss
        self.pairing, self.symmetric, self.views = pairing, symmetric, views
        self.mini_batch_size = mini_batch_size

    seen: tuple[Tensor, ...] = ()
    """The views of the last batch, for a monitor."""

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """The loss of a batch, one dictionary of features per column. Labels are not used."""
        columns = list(sentence_features)
        if len(columns) == 1:
            columns = columns * self.views
            views = self.views
        else:
            views = view_count(len(columns), self.pairing)

        def compare(*embeddings: Tensor) -> Tensor:
            self.seen = tuple(z.detach() for z in embeddings[:views])
            return contrast(self.loss, embeddings[:views], embeddings[views:], self.pairing, self.symmetric)

        if self.mini_batch_size is None:
            return compare(*(self._embedded(features) for features in columns))
        return cached(compare, self._embedded, self.mini_batch_size, module=self)(*columns)

    def _embedded(self, features: Mapping[str, Any]) -> Tensor:
        z: Tensor = self.model(dict(features))[
            "sentence_embedding"
        ]  # the model writes its output into what it is given
        return z

    def get_config_dict(self) -> dict[str, Any]:
        """What the model card says of the loss."""
        loss = " ".join(repr(self.loss).split())
        return {"loss": loss, "pairing": self.pairing, "symmetric": self.symmetric, "views": self.views} | (
            {} if self.mini_batch_size is None else {"mini_batch_size": self.mini_batch_size}
        )

    @property
    def citation(self) -> str:
        """The paper of the loss, for the model card."""
        paper = re.search(r"arXiv:(\d{4}\.\d{4,5})", inspect.getdoc(self.loss) or "")
        if paper is None:
            return ""
        number, name = paper[1], type(self.loss).__name__
        return f"@misc{{{name},\n    eprint = {{{number}}},\n    url = {{https://arxiv.org/abs/{number}}},\n}}"
