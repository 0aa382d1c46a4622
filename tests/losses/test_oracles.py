"""Each loss equals its paper's equation written as loops."""

import inspect

import numpy as np
import pytest
import torch

import oracles
from found import LOSSES, NEGATIVE_FREE, call, labels, make, views
from isotherm.temperature import Learnable

CASES = [(name, settings) for name in LOSSES for settings in [{}, *oracles.SETTINGS.get(name, [])]]
IDS = [f"{name}-{i}" for name in LOSSES for i in range(1 + len(oracles.SETTINGS.get(name, [])))]


def takes_negatives(name, settings):
    if name == "GeneralizedContrastiveLoss":
        return settings.get("distribution") == "lse"
    return name not in NEGATIVE_FREE | {"SupConLoss"}


def has_value_per_query(name, settings):
    try:
        make(name, **settings, reduction="none")
    except ValueError:
        return False
    return True


def compare(name, settings, z, **more):
    arrays = [v.numpy() for v in z]
    extra = {key: value.numpy() for key, value in more.items()}
    if name == "SupConLoss":
        arrays = [np.concatenate(arrays)]
        extra["labels"] = labels(len(z[0])).repeat(len(z)).numpy()
    if name == "GeneralizedContrastiveLoss" and settings.get("distribution", "swd") == "swd":
        extra["draws"] = draws(settings, torch.cat(z))
    if name == "SigLIPLoss":
        extra |= in_force(make(name, **settings))
    expected = np.asarray(getattr(oracles, name)(arrays, **{**settings, **extra}))
    got = call(make(name, **settings), z, **more)
    np.testing.assert_allclose(got.detach().numpy(), expected.mean(), rtol=1e-10, atol=1e-10)
    if has_value_per_query(name, settings):
        each = call(make(name, **settings, reduction="none"), z, **more)
        np.testing.assert_allclose(each.detach().numpy(), expected, rtol=1e-10, atol=1e-10)
    else:
        assert expected.shape == ()


def in_force(loss):
    """The numbers that a loss learns, which are in single precision: 0.1 is not quite 0.1."""
    learnt = {"bias": float(torch.as_tensor(loss.bias).detach())}
    return learnt | ({"temperature": loss.temperature.lowest} if isinstance(loss.temperature, Learnable) else {})


def draws(settings, z):
    """The random numbers the loss draws from a generator with this seed, in its order."""
    generator = torch.Generator().manual_seed(5)
    basis = torch.linalg.qr(torch.randn(z.shape[1], z.shape[1], generator=generator, dtype=z.dtype)).Q
    if settings.get("prior") == "hypercube":
        sample = torch.rand(z.shape, generator=generator, dtype=z.dtype) * 2 - 1
    else:
        sample = torch.randn(z.shape, generator=generator, dtype=z.dtype)
    if settings.get("prior", "hypersphere") == "hypersphere":
        sample = sample / sample.norm(dim=1, keepdim=True)
    return basis.numpy(), sample.numpy()


@pytest.mark.parametrize(("name", "settings"), CASES, ids=IDS)
@pytest.mark.parametrize("count", [2, 3])
def test_loss_equals_its_equation(name, settings, count):
    compare(name, settings, views(count))


@pytest.mark.parametrize(("name", "settings"), [c for c in CASES if takes_negatives(*c)])
def test_loss_with_a_queue_equals_its_equation(name, settings):
    queue = views(1, n=11, seed=3)[0]
    for count in (2, 3):
        compare(name, settings, views(count), negatives=queue)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_an_oracle_with_its_settings(name):
    oracle = getattr(oracles, name, None)
    assert oracle is not None, f"write tests/oracles.py::{name}"
    ours = set(inspect.signature(LOSSES[name].__init__).parameters) - {"self", "reduction", "generator"}
    assert ours <= set(inspect.signature(oracle).parameters)
