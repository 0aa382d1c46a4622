"""Embeddings of images and texts by two towers, and the features of those that are locked."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from isotherm.data.captioned import Captioned
from isotherm.encoders.features import evaluating
from isotherm.encoders.towers import Locked, Towers, structure_of
from isotherm.measures.pairs import PairSubject
from isotherm.methods.clip import PairNetwork
from isotherm.train.features import kept
from isotherm.views import Recipe

AT_ONCE = 32
"""Images that go through a tower together: more take longer on a processor, whose cache they leave."""
PASSING = ("padding", "truncation")
"""Of a tokenizer: what calls change."""


def locked_images(towers: Towers, pairs: Captioned, shown: Recipe, everyone: bool = False) -> Tensor | None:
    """The features of all images, where their tower is locked; NaN of broken ones, which `pairs` knows from now on."""
    if not isinstance(towers.image, Locked):
        return None
    size = shown.views[0].size

    def make(indices: Tensor) -> Tensor:
        pixels, shown_are = pairs.decoded(indices)
        like = next(towers.image_encoder.parameters())
        with evaluating(towers.image):
            shown_parts = (shown.plain(part.to(like.device), size).to(like.dtype) for part in pixels.split(AT_ONCE))
            features = torch.cat([towers.image(x).cpu() for x in shown_parts])
        features[shown_are != indices] = math.nan
        return features

    what = (
        "images, NaN if broken",
        pairs.fingerprint(),
        pairs.size,
        size,
        shown.mean,
        shown.std,
        towers.image.digest.tolist(),
        structure_of(towers.image_encoder),
    )
    features = kept(what, len(pairs), towers.width, make, everyone)
    for index in features[:, 0].isnan().nonzero()[:, 0].tolist():
        pairs.broken.setdefault(int(pairs.ids[index]), f"{pairs.place(index)} is not an image that can be decoded")
    return features


def locked_captions(towers: Towers, pairs: Captioned, everyone: bool = False) -> Tensor | None:
    """The features of all captions by their numbers, where the tower of text is locked."""
    if not isinstance(towers.text, Locked):
        return None
    encoder: Any = towers.text_encoder
    made_by = (encoder.pooling, encoder.longest, towers.text.digest.tolist(), structure_of(encoder), _words(encoder))
    what = ("captions", pairs.fingerprint(), *made_by)

    def make(numbers: Tensor) -> Tensor:
        features: Tensor = encoder.encode(pairs.captions(numbers))
        return features

    return kept(what, len(pairs.starts), towers.widths[1], make, everyone)


def _words(encoder: Any) -> str:
    """A digest of what an encoder takes for words."""
    fast = getattr(encoder.tokenizer, "backend_tokenizer", None)
    said = repr(sorted(encoder.tokenizer.get_vocab().items()))
    if fast is not None:  # how it cuts and pads is of the sentences that it saw last
        said = repr({name: part for name, part in json.loads(fast.to_str()).items() if name not in PASSING})
    return hashlib.sha256(said.encode()).hexdigest()[:16]


@torch.no_grad()
def embed_images(network: PairNetwork, pairs: Captioned, shown: Recipe) -> tuple[Tensor, Tensor]:
    """float32 (N, width): embeddings of images as they are, and which they are: those that decode.

    Features of a locked tower come from disk.
    """
    features = locked_images(network.encoder, pairs, shown)
    if features is not None:
        there = (~features[:, 0].isnan()).nonzero()[:, 0]
        return embed_features(network, features if len(there) == len(features) else features[there]), there
    embedded, whole = [], []
    for part in torch.arange(len(pairs)).split(AT_ONCE):
        pixels, shown_are = pairs.decoded(part)
        if (intact := shown_are == part).any():
            embedded.append(embed_pixels(network, pixels[intact], shown))
            whole.append(part[intact])
    return torch.cat(embedded), torch.cat(whole)


def embed_features(network: PairNetwork, features: Tensor) -> Tensor:
    """The same of what the image tower made of images."""
    with evaluating(network):
        return network.image(features.to(_like(network))).float().cpu()


def embed_pixels(network: PairNetwork, pixels: Tensor, shown: Recipe) -> Tensor:
    parts = []
    for part in pixels.split(AT_ONCE):
        x = shown.plain(part.to(_like(network).device), shown.views[0].size)
        with evaluating(network):
            parts.append(network.image(x.to(_like(network).dtype)).float().cpu())
    return torch.cat(parts)


def embed_texts(network: PairNetwork, texts: Sequence[str], features: Tensor | None = None) -> Tensor:
    """float32 (N, width): embeddings of texts, or of what a locked tower made of them."""
    if features is None:
        features = network.encoder.text_encoder.encode(texts)
    with evaluating(network):
        return network.text(features.to(_like(network))).float().cpu()


def _like(network: PairNetwork) -> Tensor:
    """A weight of its heads: where features must be, in which precision."""
    return next(network.head.parameters(), torch.empty(()))


def pair_subject(network: PairNetwork, pairs: Captioned, shown: Recipe) -> PairSubject:
    """Embeddings of images and of all their captions, to be measured; without those that are broken."""
    images, there = embed_images(network, pairs, shown)
    numbers, owner = (pairs if len(there) == len(pairs) else pairs.subset(there)).numbers()
    by_caption = locked_captions(network.encoder, pairs)
    features = None if by_caption is None else by_caption[numbers]
    texts = embed_texts(network, pairs.captions(numbers) if features is None else (), features)
    return PairSubject(images, texts, owner)
