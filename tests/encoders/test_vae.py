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


NOTEBOOK = {"widths": (32, 64, 64), "hidden": 128, "bn": True, "padding": 0}
"""The network of the authors' notebook on MNIST with RandBit."""


def test_the_notebooks_network_is_mirrored():
    network = VAE(channels=6, size=28, **NOTEBOOK).eval()
    shapes = []
    for layer in network.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.ConvTranspose2d):
            layer.register_forward_hook(lambda _, x, y: shapes.append((tuple(x[0].shape[1:]), tuple(y.shape[1:]))))
    x = noise(2, 6, 28)
    assert network(x).shape == (2, 64)
    assert [y for _, y in shapes] == [(32, 13, 13), (64, 6, 6), (64, 2, 2)]
    down = list(shapes)
    shapes.clear()
    assert network.decode(torch.zeros(2, 64)).shape == x.shape
    assert shapes == [(y, x) for x, y in reversed(down)]  # every step is taken back
    normalized = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d)]
    assert [m.num_features for m in normalized] == [32, 64, 64, 128, 128, 256, 64, 32]
    without_bias = [m.bias is None for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    assert all(without_bias)  # BN shifts anyway


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("size", [15, 16, 28, 31])
def test_images_of_any_size_come_back_in_their_size(size, padding):
    network = VAE(channels=2, size=size, widths=(3, 4, 5), hidden=6, padding=padding)
    assert network.decode(torch.zeros(1, 64)).shape == (1, 2, size, size)
    assert network(noise(1, 2, size)).shape == (1, 64)


def test_the_default_network_and_its_weights_are_what_they_were():
    torch.manual_seed(0)
    network = VAE(3, 16, 8, 4, 12)
    torch.manual_seed(0)
    encoder = [torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.Conv2d(4, 8, 3, 2, 1), torch.nn.Linear(128, 12)]
    heads = [torch.nn.Linear(12, 8), torch.nn.Linear(12, 8)]
    decoder = [torch.nn.Linear(8, 12), torch.nn.Linear(12, 128)]
    decoder += [torch.nn.ConvTranspose2d(8, 4, 4, 2, 1), torch.nn.ConvTranspose2d(4, 3, 4, 2, 1)]
    names = ["encoder.0", "encoder.2", "encoder.5", "mean", "log_variance"]
    names += ["decoder.0", "decoder.2", "decoder.5", "decoder.7"]
    layers = dict(zip(names, encoder + heads + decoder, strict=True))
    wanted = {f"{name}.{k}": v for name, layer in layers.items() for k, v in layer.state_dict().items()}
    state = network.state_dict()
    assert list(state) == list(wanted)
    assert all(torch.equal(state[k], v) for k, v in wanted.items())


def test_weights_of_channels_are_those_of_a_loop():
    network = shaken(VAE(channels=3, size=8, width=5).double())
    x, drawn = noise(2, 3, 8, torch.float64), torch.randn(2, 5, dtype=torch.float64)
    weights = torch.tensor([1.0, 0.25, 0.0])
    mean, log_variance = network.posterior(x)
    p = network.decode(mean + (log_variance / 2).exp() * drawn).tolist()
    terms = network.elbo(x, drawn, weights)
    for i, image in enumerate(x.tolist()):
        cost = 0.0
        for c, plane in enumerate(image):
            for y, row in enumerate(plane):
                for z, value in enumerate(row):
                    q = p[i][c][y][z]
                    cost -= float(weights[c]) * (value * math.log(q) + (1 - value) * math.log(1 - q))
        assert terms.reconstruction[i].item() == pytest.approx(cost, rel=1e-9)
    torch.testing.assert_close(terms.kl, network.elbo(x, drawn).kl)
    with pytest.raises(ValueError, match=r"weights must be \(3,\), one a channel"):
        network.elbo(x, drawn, torch.ones(2))
