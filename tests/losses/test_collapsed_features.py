"""Losses of standardized or whitened features: equal embeddings of any length have no direction, huge ones do."""

import pytest
import torch

from isotherm import nn

LOSSES = {
    "WMSELoss": nn.WMSELoss(),
    "ZeroICLLoss": nn.ZeroICLLoss(),
    "ZeroFCLLoss": nn.ZeroFCLLoss(),
    "ZeroCLLoss": nn.ZeroCLLoss(),
    "ARBLoss": nn.ARBLoss(),
    "BarlowTwinsLoss": nn.BarlowTwinsLoss(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_equal_embeddings_have_one_value_at_every_length(name):
    z = torch.randn(1, 8, generator=torch.Generator().manual_seed(0)).repeat(24, 1)
    values = [float(LOSSES[name](z * length, z * length)) for length in (1.0, 10.0, 1e3, 1e6)]
    assert values == pytest.approx([values[0]] * 4, rel=1e-5)
    if name == "WMSELoss":
        assert values[0] == pytest.approx(2.0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("length", [1e15, 1e19, 1e30])
def test_huge_embeddings_are_as_good_as_large_ones(name, length):
    a, b = torch.randn(2, 24, 8, generator=torch.Generator().manual_seed(0))
    large, huge = ([(v * scale).requires_grad_() for v in (a, b)] for scale in (1e4, length))
    values = [LOSSES[name](*views) for views in (large, huge)]
    for value in values:
        value.backward()
    assert float(values[1].detach()) == pytest.approx(float(values[0].detach()), rel=1e-4)
    one, other = (views[0].grad * scale for views, scale in ((large, 1e4), (huge, length)))
    torch.testing.assert_close(other, one, rtol=1e-2, atol=1e-3 * float(one.abs().max()))
