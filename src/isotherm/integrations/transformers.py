"""Our losses in the Hugging Face `Trainer`.

The library is not imported here: the encoder comes in, a loss and embeddings go out. docs/text-ecosystem.md shows it at
work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from isotherm.checks import at_least, one_of
from isotherm.gradient_cache import cached
from isotherm.integrations.columns import check, view_count
from isotherm.losses.columns import Pairing, contrast
from isotherm.losses.loss import Loss

__all__ = ["ContrastiveModel"]

Pooling = Literal["cls", "mean"]
"""The first token's vector, or the mean over the tokens that are not padding."""


class ContrastiveModel(nn.Module):
    """A transformers encoder with a loss of `isotherm.nn`, for `transformers.Trainer` as it is.

    Training gives ``{"loss", "embeddings"}``. `input_ids` of shape (N, T) are embedded `views` times, and dropout
    makes the views; of shape (N, columns, T), as SimCSE's collator gives them, the columns are those of
    `SentenceTransformerLoss`. In evaluation there is no dropout, two passes are the same, and the loss would say
    nothing: ``{"embeddings"}`` alone comes out, (N, D) or (N, columns, D), which ``trainer.predict`` collects.

    `head` stands between the embedding and the loss while training and is left out of the embeddings. With
    `mini_batch_size` that many texts go through the encoder at a time, and once more for their gradient, which is that
    of the whole batch (`isotherm.cached`).
    """

    def __init__(
        self,
        encoder: nn.Module,
        loss: Loss,
        pooling: Pooling = "cls",
        views: int = 2,
        head: nn.Module | None = None,
        pairing: Pairing = "cross_view",
        symmetric: bool = False,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        check(loss, pairing, symmetric, views)
        at_least(1, mini_batch_size=mini_batch_size)
        self.mini_batch_size = mini_batch_size
        self.encoder, self.loss, self.head = encoder, loss, head
        self.pooling = one_of("pooling", pooling, get_args(Pooling))
        self.pairing, self.symmetric, self.views = pairing, symmetric, views

    seen: tuple[Tensor, ...] = ()
    """The views of the last batch, for a monitor."""

    # No **settings: the Trainer would take them for a promise to divide by the number of accumulated batches.
    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        if input_ids.ndim not in (2, 3):
            raise ValueError(f"input_ids must have shape (N, T) or (N, columns, T); got {tuple(input_ids.shape)}.")
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        tokens = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            tokens["token_type_ids"] = token_type_ids
        one_column = input_ids.ndim == 2
        if one_column and self.training:
            tokens = {name: t[:, None].expand(-1, self.views, -1) for name, t in tokens.items()}
        *shape, _ = tokens["input_ids"].shape
        rows = {name: t.reshape(-1, t.shape[-1]) for name, t in tokens.items()}
        if not self.training:
            return {"embeddings": self._pooled(rows).view(*shape, -1)}
        views = self.views if one_column else view_count(shape[1], self.pairing)
        pooled: list[Tensor] = []

        def compare(both: Tensor) -> Tensor:
            width = both.shape[1] if self.head is None else self.width
            pooled.append(both[:, :width])
            columns = both[:, 0 if self.head is None else width :].view(*shape, -1).unbind(1)
            self.seen = tuple(z.detach() for z in columns[:views])
            return contrast(self.loss, columns[:views], columns[views:], self.pairing, self.symmetric)

        if self.mini_batch_size is None:
            value = compare(self._both(rows))
        else:
            value = cached(compare, self._both, self.mini_batch_size, module=self)(rows)
        return {"loss": value, "embeddings": pooled[0].view(*shape, -1)}

    def _both(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """Embeddings and, beside them, what the head makes of them."""
        pooled = self._pooled(tokens)
        self.width = pooled.shape[1]
        return pooled if self.head is None else torch.cat([pooled, self.head(pooled)], 1)

    def _pooled(self, tokens: Mapping[str, Tensor]) -> Tensor:
        hidden: Tensor = self.encoder(**tokens).last_hidden_state
        if self.pooling == "cls":
            return hidden[:, 0]
        real = tokens["attention_mask"][:, :, None].to(hidden.dtype)
        return (hidden * real).sum(1) / real.sum(1).clamp(min=1)
