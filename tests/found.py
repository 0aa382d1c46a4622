"""The losses that exist, found by looking, and random views for them."""

import inspect

import torch

from isotherm import nn

LOSSES = {
    name: cls
    for name, cls in sorted(vars(nn).items())
    if inspect.isclass(cls) and issubclass(cls, nn.Loss) and cls is not nn.Loss
}
NEGATIVE_FREE = {name for name, cls in LOSSES.items() if cls.negative_free}
TEMPERED = {name for name, cls in LOSSES.items() if "temperature" in inspect.signature(cls.__init__).parameters}


def views(count=2, n=7, d=5, seed=0, dtype=torch.float64):
    """Views that are alike, as trained ones are: a common part and a part of their own."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(n, d, generator=generator, dtype=dtype)
    return [common + 0.5 * torch.randn(n, d, generator=generator, dtype=dtype) for _ in range(count)]


def labels(n):
    return torch.arange(n) % 3


def make(name, **settings):
    """A loss with its random numbers fixed."""
    if name == "GeneralizedContrastiveLoss":
        settings.setdefault("generator", torch.Generator().manual_seed(5))
    return LOSSES[name](**settings)


def call(loss, z, **more):
    """The loss of these views, however it is called."""
    if type(loss).__name__ == "SupConLoss":
        everything = torch.cat(list(z))
        return loss(everything, labels(len(z[0])).repeat(len(z)))
    return loss(*z, **more)
