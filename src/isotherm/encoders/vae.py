"""The variational autoencoder that Chen & Li compare contrastive learning with."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from isotherm.checks import at_least, one_of
from isotherm.encoders.contract import Encoder

Likelihood = Literal["bernoulli", "gaussian"]


class Elbo(NamedTuple):
    """The two costs of each image, in nats."""

    reconstruction: Tensor
    """(N,): −log p(x | z) at one z drawn from q(z | x)."""
    kl: Tensor
    """(N,): KL(q(z | x) ‖ N(0, 1))."""

    @property
    def loss(self) -> Tensor:
        """What is minimised: the mean over images of −ELBO."""
        return (self.reconstruction + self.kl).mean()


class VAE(Encoder):
    r"""A small convolutional VAE; called, it gives the mean of q(z | x), the feature that is probed.

    .. math::
        -\mathrm{ELBO}(x) = -\log p(x \mid z) + \tfrac12 \sum_k (\mu_k^2 + \sigma_k^2 - \log \sigma_k^2 - 1),
        \qquad z = \mu + \sigma \epsilon

    Kingma & Welling 2013 (arXiv:1312.6114), eq. 10; the baseline of Chen & Li 2021 (arXiv:2011.02803), app. C.1 and
    Fig. C.1b, on MNIST with RandBit planes, which are further `channels`.

    The paper says that it is a VAE and that its results are averaged over model sizes, no more. Ours to choose were
    the layers (two convolutions of stride 2, `planes` and 2·`planes` wide, a layer of 256, and their mirror), the 64
    latent numbers, the likelihood and the feature. `planes` and `width` are its model size.

    "bernoulli" wants images in [0, 1], not normalized; for others "gaussian", of variance 1.
    """

    def __init__(
        self,
        channels: int = 1,
        size: int = 28,
        width: int = 64,
        planes: int = 32,
        hidden: int = 256,
        likelihood: Likelihood = "bernoulli",
    ) -> None:
        super().__init__()
        at_least(1, channels=channels, size=size, width=width, planes=planes, hidden=hidden)
        if size % 4:
            raise ValueError(f"VAE halves its images twice: their size must be divisible by 4, got {size}.")
        one_of("likelihood", likelihood, get_args(Likelihood))
        self.channels, self.size, self.width, self.likelihood = channels, size, width, likelihood
        inner, edge = 2 * planes, size // 4
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, planes, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(planes, inner, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(inner * edge**2, hidden),
            nn.ReLU(inplace=True),
        )
        self.mean = nn.Linear(hidden, width)
        self.log_variance = nn.Linear(hidden, width)
        self.decoder = nn.Sequential(
            nn.Linear(width, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, inner * edge**2),
            nn.ReLU(inplace=True),
            nn.Unflatten(1, (inner, edge, edge)),
            nn.ConvTranspose2d(inner, planes, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(planes, channels, 4, stride=2, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        mean: Tensor = self.mean(self.encoder(x))
        return mean

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z | x), (N, width) each, in float32 at least."""
        self.check(x)
        hidden = self.encoder(x)
        return _at_least_float32(self.mean(hidden)), _at_least_float32(self.log_variance(hidden))

    def decode(self, z: Tensor) -> Tensor:
        """The expected image of each z, (N, C, H, W)."""
        out: Tensor = self.decoder(z)
        return out.sigmoid() if self.likelihood == "bernoulli" else out

    def elbo(self, x: Tensor, noise: Tensor | None = None) -> Elbo:
        """Reconstruction and KL of each image, at the z of one draw; `noise` (N, width) is ε if it must be known."""
        mean, log_variance = self.posterior(x)
        if self.likelihood == "bernoulli" and len(x) and not (x.min() >= 0 and x.max() <= 1):
            raise ValueError(
                f"a Bernoulli VAE takes images in [0, 1], these span [{x.min():.3g}, {x.max():.3g}]. "
                'Do not normalize them, or use likelihood="gaussian".'
            )
        if noise is None:
            noise = torch.randn_like(mean)
        elif noise.shape != mean.shape:
            raise ValueError(f"noise must be {tuple(mean.shape)}, one row per image; got {tuple(noise.shape)}.")
        out = _at_least_float32(self.decoder(mean + (0.5 * log_variance).exp() * noise))
        x = x.to(out.dtype)
        if self.likelihood == "bernoulli":
            cost = binary_cross_entropy_with_logits(out, x, reduction="none")
        else:
            cost = 0.5 * ((out - x).square() + LOG_2PI)
        kl = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(1)
        return Elbo(cost.flatten(1).sum(1), kl)


LOG_2PI = 1.8378770664093453


def _at_least_float32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
