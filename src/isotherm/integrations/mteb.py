"""A run's encoder of sentences in mteb: ``mteb.evaluate(MTEBEncoder(isotherm.load_encoder("runs/a")), tasks)``.

mteb is imported when it asks who the model is. docs/text-ecosystem.md holds its numbers against ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from isotherm.encoders.text import TextEncoder

__all__ = ["MTEBEncoder"]


class MTEBEncoder:
    """A text encoder in mteb's tasks; texts are compared by cosine, and there are no prompts."""

    def __init__(self, encoder: TextEncoder, name: str = "isotherm/encoder", revision: str = "local") -> None:
        if not isinstance(encoder, TextEncoder):
            raise TypeError(f"MTEBEncoder takes an encoder of sentences, got {type(encoder).__name__}.")
        if name.count("/") != 1:
            raise ValueError(f"mteb's names are OWNER/NAME, got '{name}'.")
        self.encoder, self.name, self.revision = encoder, name, revision

    @property
    def mteb_model_meta(self) -> Any:
        """Who the model is, for mteb's results."""
        models = importlib.import_module("mteb.models.model_meta")
        about = {
            "name": self.name,
            "revision": self.revision,
            "n_parameters": sum(p.numel() for p in self.encoder.parameters()),
            "max_tokens": self.encoder.longest,
            "embed_dim": self.encoder.width,
            "similarity_fn_name": "cosine",
            "framework": ["PyTorch"],
        }
        return models.ModelMeta.create_empty(about)

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> NDArray[np.float32]:
        """The features of every text of mteb's batches, in order."""
        texts = [text for batch in inputs for text in batch["text"]]
        return self.encoder.encode(texts).numpy()

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Cosines of all with all."""
        return _unit(embeddings1) @ _unit(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Cosines of the first with the first, the second with the second, …"""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(-1)


def _unit(embeddings: Any) -> Tensor:
    z = torch.atleast_2d(torch.as_tensor(np.asarray(embeddings), dtype=torch.float32))
    return normalize(z, dim=-1)
