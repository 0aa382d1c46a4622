"""What contrastive learning is compared with: labels, and reconstruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isotherm import world
from isotherm.checks import not_negative
from isotherm.encoders import VAE
from isotherm.methods.method import Given, Method, Network, through
from isotherm.streams import uniforms
from isotherm.types import Batch
from isotherm.waiting import may_wait, spoilt


class Supervised(Method):
    """Cross-entropy of a linear layer on the features of every view. `smoothing` takes that much off the label."""

    fewest_views = 1
    without_small_crops = ""

    def __init__(self, network: Network, given: Given, smoothing: float = 0.0) -> None:
        super().__init__(network)
        if given.classes < 2:
            raise ValueError(f"supervised learning needs 2 classes or more, the data has {given.classes}.")
        if not 0 <= smoothing < 1:
            raise ValueError(f"smoothing lies in [0, 1), got {smoothing}.")
        self.classifier = nn.Linear(given.width, given.classes)
        self.smoothing = smoothing

    def embed(self, batch: Batch) -> list[Tensor]:
        return through(nn.Sequential(self.network, self.classifier), batch.views)

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        labels = batch.labels
        if may_wait() and int(labels.min()) < 0:
            raise ValueError("supervised learning needs a label for every image; some have none (−1).")
        settings = {"label_smoothing": self.smoothing, "reduction": "none"}
        values = [cross_entropy(z.float(), labels.clamp_min(0), **settings) for z in embedded]  # type: ignore[arg-type]
        return world.mean(torch.cat([spoilt(value, labels < 0) for value in values]))


class Autoencoder(Method):
    """−ELBO of a variational autoencoder, the baseline of Chen & Li 2021 (arXiv:2011.02803), app. C.1.

    Each RandBit bit is a whole plane, and as such weighs as much in the reconstruction as a channel of the image.
    `plane_weight` is what a pixel of such a plane counts instead of 1; "area" is 1 / (H·W), so that a bit counts as
    much as one pixel. `beta` is the weight of the KL (β-VAE, Higgins et al. 2017). The paper speaks of neither.

    Its noise belongs to the image and the step, so that any number of processes draws the same.
    """

    fewest_views = 1

    def __init__(
        self, network: Network, given: Given, plane_weight: float | Literal["area"] = 1.0, beta: float = 1.0
    ) -> None:
        vae = network.encoder
        if not isinstance(vae, VAE):
            raise ValueError("--method vae trains the encoder 'vae'; say --encoder vae.")
        super().__init__(network)
        self.seed = given.seed
        self.beta = not_negative("beta", beta)
        weight = 1 / vae.pixels if plane_weight == "area" else not_negative("plane_weight", plane_weight)
        weights = None
        if given.bits and weight != 1:
            weights = torch.ones(vae.channels)
            weights[-given.bits :] = weight
        self.register_buffer("weights", weights, persistent=False)

    weights: Tensor | None

    def embed(self, batch: Batch) -> list[Tensor]:
        vae = self.network.encoder
        assert isinstance(vae, VAE)
        costs = []
        for i, view in enumerate(batch.views):
            u = uniforms(batch.indices, vae.width, seed=self.seed, epoch=self.step, view=i)
            elbo = vae.elbo(view, torch.special.ndtri(u.clamp(2.0**-25, 1 - 2.0**-24)), self.weights)
            costs.append(elbo.reconstruction + self.beta * elbo.kl)
        return costs

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        return world.mean(torch.cat(list(embedded)))
