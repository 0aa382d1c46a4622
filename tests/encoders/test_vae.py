"""The VAE: its two terms are those of its distributions, and it learns."""

import math

import pytest
import torch

from isotherm.encoders import (
    VAE,
)
from networks import noise, shaken


def test_the_kl_is_that_of_the_distributions():
    network = shaken(VAE(channels=2, size=8).double())
    x = noise(3, 2, 8, torch.float64)
    mean, log_variance = network.posterior(x)
    q = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    wanted = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(network.elbo(x).kl, wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(network(x), mean)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_the_reconstruction_is_a_log_likelihood(likelihood):
    network = shaken(VAE(channels=2, size=8, width=5, likelihood=likelihood).double())
    x = noise(3, 2, 8, torch.float64).round()
    drawn = torch.randn(3, 5, dtype=torch.float64)
    mean, log_variance = network.posterior(x)
    expected = network.decode(mean + log_variance.exp().sqrt() * drawn)
    if likelihood == "bernoulli":
        p = torch.distributions.Bernoulli(expected)
    else:
        p = torch.distributions.Normal(expected, 1.0)
    terms = network.elbo(x, drawn)
    torch.testing.assert_close(terms.reconstruction, -p.log_prob(x).sum((1, 2, 3)), rtol=1e-10, atol=1e-10)
    assert terms.reconstruction.shape == terms.kl.shape == (3,)
    torch.testing.assert_close(terms.loss, (terms.reconstruction + terms.kl).mean())


def test_the_vae_learns_and_every_parameter_takes_part():
    torch.manual_seed(0)
    network = VAE(channels=3, size=8, width=4, planes=8, hidden=32)  # an image and two planes of random bits
    x = noise(16, 3, 8)
    x[:, 1:] = torch.randint(0, 2, (16, 2, 1, 1)).expand(-1, -1, 8, 8).float()
    weights = list(network.parameters())
    costs = []
    for _ in range(60):
        cost = network.elbo(x).loss
        slopes = torch.autograd.grad(cost, weights)
        costs.append(cost.item())
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.sub_(slope.sign(), alpha=3e-3)  # as Adam would; importing it takes seconds
    assert all(slope.any() for slope in slopes)
    assert costs[0] == pytest.approx(3 * 64 * math.log(2), rel=0.02)  # it starts by guessing every pixel
    assert costs[-1] < 0.85 * costs[0]
