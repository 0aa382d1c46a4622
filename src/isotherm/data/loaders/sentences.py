"""Batches of tokens of sentences: the same in every run with the same seed (`dealing`).

What makes the views of one sentence differ is the encoder's dropout
(SimCSE, Gao et al. 2021), so that nothing is drawn here but the order, unless `vary` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from isotherm.data.loaders.dealing import Dealing, batches_of, check, dealt, shuffled
from isotherm.data.sentences import Sentences
from isotherm.types import Batch
from isotherm.waiting import brought


@dataclass(frozen=True, eq=False)
class TextLoader(Dealing):
    """Batches of tokens of a corpus.

    A view is int64 (N, T), padded to its longest sentence. One column is shown `views` times; two are the two views of
    a pair; three the pair and its hard negative. `batch` counts rows over all processes; this process, `rank` of
    `world`, gets its share of each batch, and the shares of all of them together are the batch of one process, in
    order.
    """

    sentences: Sentences
    tokenize: Callable[[Sequence[str]], Tensor]
    """Sentences to int64 (N, T), padded to the longest of them."""
    views: int
    batch: int
    seed: int = 0
    _: KW_ONLY
    bucket: int = 1
    """Rows of so many batches are sorted by length, so that those of one batch are about as long: less padding. More
    saves more, but who meets whom in a batch depends more on length; 1: not at all."""

    vary: Callable[[Tensor, Tensor, int, int], Tensor] | None = None
    """A view of the tokens (N, T) of sentences with these ids, in this epoch, with this number; None: they stay."""

    def __post_init__(self) -> None:
        name, columns = self.sentences.name, self.sentences.columns
        advice = "contrastive learning needs others to compare with. Use a smaller batch or more sentences."
        check(self, len(self.sentences), name, "sentence", advice)
        if self.bucket < 1:
            raise ValueError(f"a bucket holds 1 batch or more, got {self.bucket}.")
        if self.views < 1:
            raise ValueError(f"a sentence is shown 1 time or more, got {self.views} views.")
        if len(columns) > 1 and self.views != len(columns):
            raise ValueError(f"{name} holds {', '.join(columns)}: {len(columns)} views, got {self.views}.")

    def __len__(self) -> int:
        """Batches in an epoch."""
        return batches_of(len(self.sentences), self.batch, self.drop_last)

    def order(self, epoch: int) -> Tensor:
        """The indices of the rows in this epoch's order."""
        indices = torch.arange(len(self.sentences))
        if self.shuffle:
            indices = shuffled(self.sentences.ids, self.seed, epoch)
        return self._bucketed(indices, epoch) if self.bucket > 1 else indices

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on."""
        return dealt(self, self._batch, epoch, start)

    def _bucketed(self, indices: Tensor, epoch: int) -> Tensor:
        """The same rows, but each batch of about one length.

        The last, incomplete batch stays as it is: sorted in, the rows it is made of would always be the longest. Within
        a batch the rows keep the order they came in, so that the processes' shares are of one length too.
        """
        whole = len(indices) // self.batch * self.batch
        by_length = torch.argsort(self.sentences.sizes[indices[:whole]], stable=True)
        bucket = by_length // (self.batch * self.bucket)
        batches = by_length[torch.argsort(bucket, stable=True)].view(-1, self.batch).sort(1).values
        if self.shuffle:
            batches = batches[shuffled(torch.arange(len(batches)), self.seed, epoch, view=-8)]
        return torch.cat([indices[batches.flatten()], indices[whole:]])

    def _batch(self, indices: Tensor, epoch: int) -> Batch:
        rows = self.sentences.texts(indices)
        columns = [self._tokens([row[c] for row in rows]) for c in range(len(self.sentences.columns))]
        views = columns * self.views if len(columns) == 1 else columns
        if self.vary is not None and len(indices):
            ids = self.sentences.ids[indices]
            views = [brought(self.vary(tokens, ids, epoch, view), self.device) for view, tokens in enumerate(views)]
        labels = torch.full((len(indices),), -1, device=self.device)
        return Batch(views, labels, brought(indices, self.device))

    def _tokens(self, sentences: list[str]) -> Tensor:
        if not sentences:  # a process's share of a last batch smaller than the number of processes
            return torch.zeros(0, 1, dtype=torch.int64, device=self.device)
        tokens = self.tokenize(sentences)
        if tokens.dtype != torch.int64 or tokens.ndim != 2 or len(tokens) != len(sentences):
            raise ValueError(
                f"tokenize must give int64 ({len(sentences)}, T) for {len(sentences)} sentences, "
                f"got {tokens.dtype} {tuple(tokens.shape)}."
            )
        return brought(tokens, self.device)
