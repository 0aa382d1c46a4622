"""Any loss of ours called as pytorch-metric-learning calls its own: ``loss(embeddings, labels)``.

The library is not imported; its trainers, testers and `SelfSupervisedLoss`-like loops call this as one of theirs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isotherm.losses.loss import Loss

__all__ = ["MetricLearningLoss"]


class MetricLearningLoss(nn.Module):
    """``loss(embeddings, labels)``: items with one label are views of it, or positives of each other.

    `SupConLoss` takes any labels that occur twice. Every other loss takes the embeddings of a label for the views of
    one item, so that every label must occur equally often: ``labels = torch.arange(N).repeat(2)`` are two views. A
    second view may also come as `ref_emb` with the same labels; that is the same loss, in which both views ask and
    answer, where that library's losses let `embeddings` ask and `ref_emb` answer. With ``reduction="none"`` there is a
    value for each row of `embeddings` and then of `ref_emb`.
    """

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        if not isinstance(loss, Loss):
            raise TypeError(f"loss must be one of isotherm.nn, such as SupConLoss(0.1); got {type(loss).__name__}.")
        self.loss = loss

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: object | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch; pairs chosen by a miner are not taken."""
        if indices_tuple is not None:
            raise ValueError("indices_tuple is not taken: our losses weigh all pairs themselves. Leave the miner out.")
        labels = torch.as_tensor(labels, device=embeddings.device)
        if ref_emb is not None and self.loss.takes_labels:
            raise ValueError(
                f"ref_emb is not taken: in {type(self.loss).__name__} every embedding asks and answers, references "
                "that only answer are another loss. Put them into embeddings and labels."
            )
        if ref_emb is not None:
            ref_labels = labels if ref_labels is None else torch.as_tensor(ref_labels, device=labels.device)
            embeddings, labels = torch.cat([embeddings, ref_emb]), torch.cat([labels, ref_labels])
        if labels.shape != (len(embeddings),):
            raise ValueError(f"{len(embeddings)} embeddings need as many labels, got {tuple(labels.shape)}.")
        value: Tensor
        if self.loss.takes_labels:
            value = self.loss(embeddings, labels)
            return value
        counts = torch.unique(labels, return_counts=True)[1]
        views = int(counts.max())
        if views < 2 or int(counts.min()) != views:
            raise ValueError(
                f"{type(self.loss).__name__} compares views, so every label must occur equally often, 2 times or more; "
                f"these occur {int(counts.min())} to {views} times. Sample the batch so, or use SupConLoss."
            )
        rows = labels.argsort(stable=True).unflatten(0, (-1, views)).T  # of each view, by label
        value = self.loss(*(embeddings[view] for view in rows))
        if value.ndim == 0:
            return value
        if len(value) != len(embeddings):
            raise ValueError(
                f"{type(self.loss).__name__} with reduction='none' has {len(value)} values for {len(embeddings)} rows: "
                "not every view asks. Call it with views instead."
            )
        return torch.empty_like(value).index_copy(0, rows.flatten(), value)
