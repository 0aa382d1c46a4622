"""Image and text: two towers, projected into one space, where a photo and what is said of it look for each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import torch
from torch import Tensor

from isotherm import world
from isotherm.checks import one_of
from isotherm.encoders.towers import Lock, Projections, Towers
from isotherm.losses.columns import Pairing
from isotherm.losses.loss import Loss, full_precision
from isotherm.methods.method import Given, Method, Network, through
from isotherm.pairing import cross_view, one_way
from isotherm.types import Batch


class PairNetwork(Network):
    """Two towers and a projection for each. What is two-dimensional and real are features that a locked tower gave."""

    encoder: Towers
    head: Projections

    def __init__(self, encoder: Towers, head: Projections) -> None:
        super().__init__(encoder, head)

    def image(self, x: Tensor) -> Tensor:
        """Embeddings of images (N, C, H, W), or of their features (N, D)."""
        z: Tensor = self.head.image(x if x.ndim == 2 else self.encoder.image(x))
        return z

    def text(self, x: Tensor) -> Tensor:
        """Embeddings of tokens (N, T), or of features (N, D)."""
        z: Tensor = self.head.text(x if x.is_floating_point() else self.encoder.text(x))
        return z

    def forward(self, x: Tensor) -> Tensor:
        return self.image(x)


class CLIP(Method):
    r"""An image looks for its caption among those of the batch, and a caption for its image.

    .. math::
        \mathcal{L} = \tfrac12 \left(\mathcal{L}^{\text{image} \to \text{text}}
            + \mathcal{L}^{\text{text} \to \text{image}}\right)

    Radford et al. 2021 (CLIP, arXiv:2103.00020), fig. 3, with `InfoNCELoss` and a `Learnable` temperature, whose lower
    bound 0.01 is CLIP's; with `SigLIPLoss` SigLIP (arXiv:2303.15343); with `CACRLoss` what CACR (arXiv:2105.03746)
    has in Table 19. View 0 is the image, views 1 … K its captions. A loss that compares views two by two takes each
    caption in turn; any other has all K as the image's positives, and the image as each caption's. Negatives are the
    other images' captions, and the other captions' images; pairing "own" leaves it to the loss (CACR: other images for
    an image, other captions for a caption; NT-Xent: both).

    `lock` freezes towers (LiT, arXiv:2111.07991): their features are made once (`train.features`).
    """

    without_small_crops = "has one image for its captions"

    def __init__(
        self, network: PairNetwork, loss: Loss, given: Given, lock: Lock = "none", pairing: Pairing = "cross_view"
    ) -> None:
        super().__init__(network, loss)
        self.lock = one_of("lock", lock, get_args(Lock))
        self.pairing = one_of("pairing", pairing, get_args(Pairing))
        self.captions = given.views - 1
        if loss.takes_labels:
            raise ValueError(f"{type(loss).__name__} needs labels, which captions are not; use --loss InfoNCELoss.")
        if loss.two_by_two and loss.only_for_pairing and pairing != "own":
            raise ValueError(
                f"--method clip asks both ways, whatever {type(loss).__name__}({loss.only_for_pairing}) says: leave "
                "that out, or say --method.pairing own, and images alone ask."
            )
        if loss.needs_predictor:
            raise ValueError(
                f"{type(loss).__name__} without a predictor makes all embeddings equal; use --loss InfoNCELoss."
            )

    def embed(self, batch: Batch) -> list[Tensor]:
        network = self.network
        assert isinstance(network, PairNetwork)
        return [network.image(batch.views[0]), *through(network.text, batch.views[1:])]

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        assert self.loss is not None
        image, *captions = embedded
        if len(image) < 2 and world.size() == 1:
            raise ValueError("the batch holds 1 pair, which has no negative. Use a larger --batch.")
        return image_text(self.loss, image, captions, self.pairing)


def image_text(loss: Loss, image: Tensor, captions: Sequence[Tensor], pairing: Pairing = "cross_view") -> Tensor:
    """The loss of images (N, D) and K captions of each, both ways, each way counting half."""
    if pairing == "own" and not loss.two_by_two:
        value: Tensor = loss(image, *captions)
        return value
    if loss.without_negatives:
        return torch.stack([loss(image, caption) for caption in captions]).mean()
    with full_precision(captions):
        if loss.two_by_two:
            pair = loss.pair if pairing == "own" else cross_view
            return torch.stack([loss.of(pair([image, caption])) for caption in captions]).mean()
        asked = loss.of(one_way(image, *captions))
        blocks = [pairs for caption in captions for pairs in one_way(caption, image)]
        blocks = [replace(pairs, query_views=(number,)) for number, pairs in enumerate(blocks)]
        return (asked + loss.of(blocks)) / 2
