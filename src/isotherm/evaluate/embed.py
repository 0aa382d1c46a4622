"""`isotherm embed RUN DATA`: the embeddings of a set, with its labels and ids, as `isotherm inspect` reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from isotherm.data.images import Images
from isotherm.data.sentences import is_text, load_sentences
from isotherm.data.sets import FORMATS, SETS
from isotherm.evaluate.models import with_channels
from isotherm.evaluate.targets import part_of
from isotherm.train import outside_data

if TYPE_CHECKING:
    from isotherm.evaluate.encode import Embedder

AT_ONCE = 256
Note = Callable[[str, str], None]


@dataclass(frozen=True, eq=False)
class EmbeddedSet:
    """Embeddings of a set's items, in their order."""

    embeddings: Tensor
    ids: Tensor
    labels: Tensor | None
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def arrays(self) -> dict[str, np.ndarray]:
        """What z.npz holds: labels by the classes' names where they have any, else as numbers."""
        parts = {"embeddings": self.embeddings.numpy(), "ids": self.ids.numpy()}
        if self.labels is not None:
            names = np.array([*self.classes, ""])  # −1, which nobody knows, is the last
            parts["labels"] = names[self.labels.numpy()] if self.classes else self.labels.numpy()
        return parts


def is_data(name: str) -> bool:
    """Whether this names a set, and is no file or folder."""
    if Path(name).exists():
        return False
    forms = [f"{form}:" for form in FORMATS]
    return name in SETS or is_text(name) or name.startswith(tuple(forms)) or outside_data.data_address(name) is not None


@torch.no_grad()
def embed_set(
    embedder: Embedder, data: str, split: str, note: Note = lambda stage, what: None, most: int | None = None
) -> EmbeddedSet:
    """Every item of one part of a set as it is, not augmented; of rows of several sentences the first.

    `most` takes no more than so many, spread over the set.
    """
    if is_text(data):
        return _embed_sentences(embedder, data, note, most)
    if embedder.images is None:
        raise ValueError(f"{embedder.name} learnt from sentences; {data} holds images. Sentences are text:PATH.")
    images = with_channels(part_of(data, (split,), embedder.size), embedder.channels, embedder.name)
    if images.bits:
        raise ValueError(f"{data} has RandBit planes, which only the run on it embeds: isotherm evaluate.")
    images = images.subset(_spread(len(images), most)) if most and most < len(images) else images
    note("embedding", f"{len(images):,} images")
    z = torch.cat([embedder.images(images.at(some)) for some in torch.arange(len(images)).split(AT_ONCE)])
    return EmbeddedSet(z, images.ids, _known(images), images.classes, images.notes)


def _embed_sentences(embedder: Embedder, data: str, note: Note, most: int | None) -> EmbeddedSet:
    if embedder.texts is None:
        raise ValueError(f"{embedder.name} learnt from images alone; {data} holds sentences.")
    sentences = load_sentences(data)
    sentences = sentences.subset(_spread(len(sentences), most)) if most and most < len(sentences) else sentences
    note("embedding", f"{len(sentences):,} sentences")
    texts = [row[0] for row in sentences.texts(torch.arange(len(sentences)))]
    return EmbeddedSet(embedder.texts(texts).float().cpu(), sentences.ids, None, (), sentences.notes)


def _spread(n: int, most: int) -> Tensor:
    return torch.linspace(0, n - 1, most, dtype=torch.float64).long()


def _known(images: Images) -> Tensor | None:
    return images.labels if bool((images.labels >= 0).any()) else None
