"""A run's encoder in mteb: ``mteb.evaluate(MTEBEncoder(open_embedder("runs/a")), tasks)``, of texts, images or both.

mteb is imported when it asks who the model is. docs/text-ecosystem.md holds its numbers against ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from isotherm.data.sources.decode import fitted
from isotherm.encoders.text import TextEncoder

__all__ = ["MTEBEncoder"]


class Embeds(Protocol):
    """What `isotherm.evaluate.encode.open_embedder` opens."""

    @property
    def images(self) -> Callable[[Tensor], Tensor] | None: ...
    @property
    def texts(self) -> Callable[[Sequence[str]], Tensor] | None: ...
    @property
    def channels(self) -> int: ...
    @property
    def size(self) -> int: ...


class MTEBEncoder:
    """What embeds texts, images, or both in one space, in mteb's tasks.

    It is compared by cosine, and there are no prompts. Of a document with a text and an image the embedding is the sum
    of both, each of length 1.
    """

    def __init__(self, encoder: TextEncoder | Embeds, name: str = "isotherm/encoder", revision: str = "local") -> None:
        if not isinstance(encoder, TextEncoder) and not (hasattr(encoder, "images") and hasattr(encoder, "texts")):
            raise TypeError(
                f"MTEBEncoder takes an encoder of sentences, or what isotherm.evaluate.encode.open_embedder opens, "
                f"got {type(encoder).__name__}."
            )
        if name.count("/") != 1:
            raise ValueError(f"mteb's names are OWNER/NAME, got '{name}'.")
        self.encoder, self.name, self.revision = encoder, name, revision
        self._texts = encoder.encode if isinstance(encoder, TextEncoder) else encoder.texts
        self._images = None if isinstance(encoder, TextEncoder) else encoder.images

    @property
    def mteb_model_meta(self) -> Any:
        """Who the model is, for mteb's results."""
        models = importlib.import_module("mteb.models.model_meta")
        about: dict[str, Any] = {
            "name": self.name,
            "revision": self.revision,
            "similarity_fn_name": "cosine",
            "framework": ["PyTorch"],
            "modalities": [kind for kind, embed in (("text", self._texts), ("image", self._images)) if embed],
        }
        if isinstance(self.encoder, TextEncoder):
            size = sum(p.numel() for p in self.encoder.parameters())
            about |= {"n_parameters": size, "max_tokens": self.encoder.longest, "embed_dim": self.encoder.width}
        return models.ModelMeta.create_empty(about)

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> NDArray[np.float32]:
        """The features of everything in mteb's batches, in order."""
        parts = []
        for batch in inputs:
            found = [self._of_texts(batch["text"])] if "text" in batch else []
            found += [self._of_images(batch["image"])] if "image" in batch else []
            parts.append(found[0] if len(found) == 1 else _unit(found[0]) + _unit(found[1]))
        embeddings: NDArray[np.float32] = torch.cat([part.float().cpu() for part in parts]).numpy()
        return embeddings

    def _of_texts(self, texts: Sequence[str]) -> Tensor:
        if self._texts is None:
            raise ValueError(f"{self.name} learnt from images alone and embeds no text; choose mteb's tasks of images.")
        with torch.no_grad():
            return self._texts(list(texts))

    def _of_images(self, images: Sequence[Image.Image]) -> Tensor:
        if self._images is None or isinstance(self.encoder, TextEncoder):
            raise ValueError(f"{self.name} learnt from sentences and embeds no images; choose mteb's tasks of text.")
        shape = (self.encoder.channels, self.encoder.size, self.encoder.size)
        pixels = np.stack([fitted(image, shape) for image in images])
        with torch.no_grad():
            return self._images(torch.from_numpy(pixels))

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Cosines of all with all."""
        return _unit(embeddings1) @ _unit(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Cosines of the first with the first, the second with the second, …"""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(-1)


def _unit(embeddings: Any) -> Tensor:
    z = torch.atleast_2d(torch.as_tensor(np.asarray(embeddings), dtype=torch.float32))
    return normalize(z, dim=-1)
