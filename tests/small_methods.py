"""Small methods and batches with small crops, for the tests of methods: a network of images of any size."""

import torch
from torch import nn

from isotherm.methods import Given, Network, method
from isotherm.types import Batch

WIDTH = 6


def network(seed=0):
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Conv2d(3, 8, 2), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 8))
    layers.width = 8
    return Network(layers, nn.Linear(8, WIDTH)).double()


def batch(n=5, views=2, small=0, seed=1):
    """So many views of 4×4 pixels, and small crops of 2×2."""
    chance = torch.Generator().manual_seed(seed)
    sizes = [4] * views + [2] * small
    x = [torch.randn(n, 3, size, size, dtype=torch.float64, generator=chance) for size in sizes]
    return Batch(x, torch.arange(n) % 2, torch.arange(n))


def part(whole, mine):
    """A process's share of a batch."""
    return Batch([v[mine] for v in whole.views], whole.labels[mine], whole.indices[mine])


def built(name, loss=None, views=2, small=0, items=20, **settings):
    torch.manual_seed(3)
    predictor = nn.Linear(WIDTH, WIDTH).double()
    given = Given(WIDTH, items=items, classes=2, predictor=predictor, views=views, small_crops=small)
    result = method(name, network(), loss, given, **settings).double()
    result.at(0, 10)
    return result


def taught(m):
    """With a slow copy that is not the network."""
    with torch.no_grad():
        for p in m.slow.parameters():
            p.mul_(0.9).add_(0.05)
    return m
