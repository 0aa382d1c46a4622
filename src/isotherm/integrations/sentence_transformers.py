"""The losses inside other people's trainers: sentence-transformers and the Hugging Face `Trainer`.

Both adapters embed the columns of a text dataset and hand them to any loss of `isotherm.nn`. Neither library is
imported here: the model comes in, a scalar goes out. docs/text-ecosystem.md shows both at work.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from isotherm import nn as losses
from isotherm.checks import one_of
from isotherm.losses.columns import Pairing, contrast
from isotherm.losses.loss import Loss

__all__ = ["ContrastiveModel", "SentenceTransformerLoss"]

Pooling = Literal["cls", "mean"]
"""The first token's vector, or the mean over the tokens that are not padding."""


class SentenceTransformerLoss(nn.Module):
    """A loss of `isotherm.nn` as sentence-transformers' trainer wants it: columns of texts in, a scalar out.

    With one column, each text is embedded `views` times, and dropout makes the views (unsupervised SimCSE, Gao et al.
    2021, arXiv:2104.08821). With two, the columns are the views. From the third on they are hard negatives of every
    row (supervised SimCSE), as in `MultipleNegativesRankingLoss`. `symmetric` lets every view ask in turn and takes
    the mean; hard negatives stay candidates of column 0 alone.

    A learnable temperature is a parameter of this module, and so the trainer's optimizer moves it.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, pairing: Pairing = "cross_view", symmetric: bool = False, views: int = 2
    ) -> None:
        super().__init__()
        _check(loss, pairing, symmetric, views)
        self.model, self.loss = model, loss
        self.pairing, self.symmetric, self.views = pairing, symmetric, views

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """The loss of a batch, one dictionary of features per column. Labels are not used."""
        columns = list(sentence_features)
        if len(columns) == 1:
            columns = [dict(columns[0]) for _ in range(self.views)]  # the model writes its output into the dictionary
            views = self.views
        else:
            views = _views(len(columns), self.pairing)
        embeddings = [self.model(features)["sentence_embedding"] for features in columns]
        return contrast(self.loss, embeddings[:views], embeddings[views:], self.pairing, self.symmetric)

    def get_config_dict(self) -> dict[str, Any]:
        """What the model card says of the loss."""
        loss = " ".join(repr(self.loss).split())
        return {"loss": loss, "pairing": self.pairing, "symmetric": self.symmetric, "views": self.views}

    @property
    def citation(self) -> str:
        """The paper of the loss, for the model card."""
        paper = re.search(r"arXiv:(\d{4}\.\d{4,5})", inspect.getdoc(self.loss) or "")
        if paper is None:
            return ""
        number, name = paper[1], type(self.loss).__name__
        return f"@misc{{{name},\n    eprint = {{{number}}},\n    url = {{https://arxiv.org/abs/{number}}},\n}}"


class ContrastiveModel(nn.Module):
    """A transformers encoder with a loss of `isotherm.nn`, for `transformers.Trainer` as it is.

    Training gives ``{"loss", "embeddings"}``. `input_ids` of shape (N, T) are embedded `views` times, and dropout
    makes the views; of shape (N, columns, T), as SimCSE's collator gives them, the columns are those of
    `SentenceTransformerLoss`. In evaluation there is no dropout, two passes are the same, and the loss would say
    nothing: ``{"embeddings"}`` alone comes out, (N, D) or (N, columns, D), which ``trainer.predict`` collects.

    `head` stands between the embedding and the loss while training and is left out of the embeddings.
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
    ) -> None:
        super().__init__()
        _check(loss, pairing, symmetric, views)
        self.encoder, self.loss, self.head = encoder, loss, head
        self.pooling = one_of("pooling", pooling, get_args(Pooling))
        self.pairing, self.symmetric, self.views = pairing, symmetric, views

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
        pooled = self._pooled({name: t.reshape(-1, t.shape[-1]) for name, t in tokens.items()})
        embeddings = pooled.view(*shape, -1)
        if not self.training:
            return {"embeddings": embeddings}
        projected = pooled if self.head is None else self.head(pooled)
        columns = projected.view(*shape, -1).unbind(1)
        views = self.views if one_column else _views(len(columns), self.pairing)
        value = contrast(self.loss, columns[:views], columns[views:], self.pairing, self.symmetric)
        return {"loss": value, "embeddings": embeddings}

    def _pooled(self, tokens: dict[str, Tensor]) -> Tensor:
        hidden: Tensor = self.encoder(**tokens).last_hidden_state
        if self.pooling == "cls":
            return hidden[:, 0]
        real = tokens["attention_mask"][:, :, None].to(hidden.dtype)
        return (hidden * real).sum(1) / real.sum(1).clamp(min=1)


def _views(columns: int, pairing: Pairing) -> int:
    """How many of the columns are views of their row; those after them are hard negatives."""
    return columns if pairing == "own" else min(columns, 2)


def _check(loss: Loss, pairing: Pairing, symmetric: bool, views: int) -> None:
    if not isinstance(loss, Loss):
        came = f"the class {loss.__name__}, not an instance" if inspect.isclass(loss) else f"a {type(loss).__name__}"
        raise TypeError(f"loss must be one of isotherm.nn, such as InfoNCELoss(temperature=0.05); got {came}.")
    if not _usable(type(loss)):
        why = loss.without_negatives if loss.takes_labels else "needs a predictor, which is not here"
        able = [n for n, c in sorted(vars(losses).items()) if inspect.isclass(c) and issubclass(c, Loss) and _usable(c)]
        raise ValueError(f"{type(loss).__name__} {why}. These can be used: {', '.join(able)}.")
    if loss.reduction != "mean":
        raise ValueError(f'a trainer wants one number, not one each; got reduction={loss.reduction!r}, use "mean".')
    one_of("pairing", pairing, get_args(Pairing))
    if symmetric and pairing == "own":
        raise ValueError('symmetric belongs to pairing="cross_view"; with "own" the loss itself decides who asks.')
    if isinstance(views, bool) or not isinstance(views, int) or views < 2:
        raise ValueError(f"views is the number of times a text is embedded, 2 or more; got {views!r}.")


def _usable(loss: type[Loss]) -> bool:
    return loss is not Loss and not loss.takes_labels and not loss.needs_predictor
