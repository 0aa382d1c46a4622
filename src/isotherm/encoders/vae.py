"""The variational autoencoder that Chen & Li compare contrastive learning with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from isotherm.checks import at_least, one_of
from isotherm.encoders.contract import Encoder
from isotherm.waiting import may_wait, spoilt

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
    the layers (two 3×3 convolutions of stride 2, `planes` and 2·`planes` wide, a layer of `hidden`, and their mirror),
    the 64 latent numbers, the likelihood and the feature. `planes` and `width` are its model size.

    `widths` are those of any number of convolutions instead. The network of the authors' notebook, which learns from
    MNIST with RandBit by contrast, is ``widths=(32, 64, 64), hidden=128, bn=True, padding=0``; the decoder mirrors it.

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
        widths: Sequence[int] | None = None,
        bn: bool = False,
        padding: int = 1,
    ) -> None:
        super().__init__()
        at_least(1, channels=channels, size=size, width=width, planes=planes, hidden=hidden)
        at_least(0, padding=padding)
        one_of("likelihood", likelihood, get_args(Likelihood))
        layers = (planes, 2 * planes) if widths is None else tuple(widths)
        if not layers:
            raise ValueError("VAE needs at least one convolution: widths is empty.")
        at_least(1, **{f"widths[{i}]": w for i, w in enumerate(layers)})
        self.channels, self.size, self.width, self.likelihood = channels, size, width, likelihood
        self.pixels = size**2  # of a channel
        steps = list(zip((channels, *layers), layers, strict=False))
        edges = halved(size, len(layers), padding)
        flat = layers[-1] * edges[-1] ** 2
        self.encoder = nn.Sequential(
            *(part for a, b in steps for part in rectified(nn.Conv2d(a, b, 3, 2, padding, bias=not bn), bn)),
            nn.Flatten(),
            *rectified(nn.Linear(flat, hidden, bias=not bn), bn),
        )
        self.mean = nn.Linear(hidden, width)
        self.log_variance = nn.Linear(hidden, width)
        self.decoder = nn.Sequential(
            *rectified(nn.Linear(width, hidden, bias=not bn), bn),
            *rectified(nn.Linear(hidden, flat, bias=not bn), bn),
            nn.Unflatten(1, (layers[-1], edges[-1], edges[-1])),
        )
        for i, (outer, inner) in reversed(list(enumerate(steps))):
            # 3 or 4, whichever leads back to the size before; no padding of the output, whose rim would see less
            kernel = edges[i] - 2 * (edges[i + 1] - 1) + 2 * padding
            back = nn.ConvTranspose2d(inner, outer, kernel, 2, padding, bias=i == 0 or not bn)
            self.decoder.extend(rectified(back, bn) if i else [back])

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

    def elbo(self, x: Tensor, noise: Tensor | None = None, weights: Tensor | None = None) -> Elbo:
        """Reconstruction and KL of each image, at the z of one draw; `noise` (N, width) is ε if it must be known.

        `weights` (C,) say how much a pixel of each channel counts in the reconstruction; 1 if not given.
        """
        mean, log_variance = self.posterior(x)
        if not may_wait():
            if self.likelihood == "bernoulli":
                x = spoilt(x, (x < 0) | (x > 1))
        elif self.likelihood == "bernoulli" and len(x) and not (x.min() >= 0 and x.max() <= 1):
            raise ValueError(
                f"a Bernoulli VAE takes images in [0, 1], these span [{x.min():.3g}, {x.max():.3g}]. "
                'Do not normalize them, or use likelihood="gaussian".'
            )
        if noise is None:
            noise = torch.randn_like(mean)
        elif noise.shape != mean.shape:
            raise ValueError(f"noise must be {tuple(mean.shape)}, one row per image; got {tuple(noise.shape)}.")
        if weights is not None and weights.shape != (self.channels,):
            raise ValueError(f"weights must be ({self.channels},), one a channel; got {tuple(weights.shape)}.")
        out = _at_least_float32(self.decoder(mean + (0.5 * log_variance).exp() * noise))
        x = x.to(out.dtype)
        if self.likelihood == "bernoulli":
            cost = binary_cross_entropy_with_logits(out, x, reduction="none")
        else:
            cost = 0.5 * ((out - x).square() + LOG_2PI)
        kl = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(1)
        if weights is not None:
            cost = cost * weights.to(cost)[:, None, None]
        return Elbo(cost.flatten(1).sum(1), kl)


def halved(size: int, times: int, padding: int) -> list[int]:
    """The edge of an image before and after each 3×3 convolution of stride 2."""
    edges = [size]
    for _ in range(times):
        edges.append((edges[-1] + 2 * padding - 3) // 2 + 1)
        if edges[-1] < 1:
            raise ValueError(
                f"VAE has {times} convolutions of stride 2 with padding {padding}; images of {size}×{size} are too "
                "small for them. Use fewer widths or padding 1."
            )
    return edges


def rectified(layer: nn.Linear | nn.Conv2d | nn.ConvTranspose2d, bn: bool) -> list[nn.Module]:
    """A layer, its normalization if it has one, and ReLU."""
    if not bn:
        return [layer, nn.ReLU(inplace=True)]
    norm = nn.BatchNorm1d(layer.out_features) if isinstance(layer, nn.Linear) else nn.BatchNorm2d(layer.out_channels)
    return [layer, norm, nn.ReLU(inplace=True)]


LOG_2PI = 1.8378770664093453


def _at_least_float32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
