"""Losses of whitened views and SigLIP's: gradients against their oracles, random sub-batches, degenerate batches."""

import numpy as np
import pytest
import torch

import oracles
import processes
from found import views
from isotherm import nn, streams, world
from isotherm.engine import tile_size
from isotherm.losses.whitening import FIRST_STREAM, decorrelated
from isotherm.methods import Given, Network, method
from isotherm.pairing import in_batch
from isotherm.temperature import Learnable
from isotherm.types import Batch

STENCIL = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
STEP = 1e-3
"""Central differences of sixth order: exact to about 1e-11 here, where those of second order are to 1e-8."""


def slope(function, arrays):
    """The gradient of a function of arrays, by differences."""
    gradients = [np.zeros_like(a) for a in arrays]
    for a, gradient in zip(arrays, gradients, strict=True):
        for place in np.ndindex(a.shape):
            at = a[place]
            for steps, weight in STENCIL:
                for sign in (1, -1):
                    a[place] = at + sign * steps * STEP
                    gradient[place] += sign * weight * function(arrays) / STEP
            a[place] = at
    return gradients


def compare(loss, oracle, z):
    z = [v.clone().requires_grad_() for v in z]
    value = loss(*z)
    value.backward()
    arrays = [v.detach().numpy().copy() for v in z]
    np.testing.assert_allclose(value.item(), np.mean(oracle(arrays)), rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(z, slope(lambda x: np.mean(oracle(x)), arrays), strict=True):
        np.testing.assert_allclose(ours.grad.numpy(), theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("count", [2, 4])
def test_gradient_of_w_mse_is_that_of_its_oracle_on_random_sub_batches(count):
    z = views(count, n=11, d=3)
    loss = nn.WMSELoss(size=5, iterations=2)
    loss.at(3, 7)
    subsets = []
    for i in (0, 1):
        order = streams.permutation(11, seed=3, epoch=7, view=FIRST_STREAM + i)
        subsets += [order[:6], order[6:]]
    compare(loss, lambda x: oracles.WMSELoss(x, subsets=subsets), z)


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("shape", [(6, 3), (3, 6)])
@pytest.mark.parametrize("name", ["ZeroICLLoss", "ZeroFCLLoss", "ZeroCLLoss"])
def test_gradient_of_zero_cl_holds_the_whitening_matrices_or_not(name, shape, detach):
    z = views(2, *shape, seed=1)
    held = [v.numpy().copy() for v in z] if detach else None
    settings = {"eps": 0.1}  # a smaller one bends the loss too much for differences
    compare(
        getattr(nn, name)(detach=detach, **settings),
        lambda x: getattr(oracles, name)(x, held=held, **settings),
        z,
    )


@pytest.mark.parametrize("shape", [(6, 3), (3, 6)])
def test_gradient_of_arb_holds_the_bases(shape):
    z = views(3, *shape, seed=1)
    held = [v.numpy().copy() for v in z]
    compare(nn.ARBLoss(), lambda x: oracles.ARBLoss(x, held=held), z)


def test_gradient_of_siglip_reaches_views_scale_and_bias():
    z = views(2, n=5, d=4)
    loss = nn.SigLIPLoss(temperature=0.2, bias=-2.0).double()
    t, b = loss.temperature.value().item(), loss.bias.item()
    compare(loss, lambda x: oracles.SigLIPLoss(x, temperature=t, bias=b), z)
    arrays = [np.array([np.log(t)]), np.array([b])]
    oracle = lambda x: np.mean(  # noqa: E731
        oracles.SigLIPLoss([v.numpy() for v in z], temperature=float(np.exp(x[0][0])), bias=float(x[1][0]))
    )
    by_scale, by_bias = slope(oracle, arrays)
    np.testing.assert_allclose(loss.temperature.log_temperature.grad.item(), by_scale[0], rtol=1e-9)
    np.testing.assert_allclose(loss.bias.grad.item(), by_bias[0], rtol=1e-9)


def test_siglip_starts_where_the_paper_does_and_learns_unless_told_not_to():
    loss = nn.SigLIPLoss()
    assert isinstance(loss.temperature, Learnable)
    assert loss.temperature.lowest == pytest.approx(0.1)
    assert {name: p.item() for name, p in loss.named_parameters()} == pytest.approx(
        {"bias": -10.0, "temperature.log_temperature": np.log(0.1)}
    )
    assert list(nn.SigLIPLoss(learnable=False).parameters()) == []
    z = views(2)
    torch.testing.assert_close(nn.SigLIPLoss(learnable=False)(*z), loss(*z).detach(), rtol=1e-6, atol=0)


def test_siglip_is_the_dense_sum_over_all_pairs():
    """Alg. 1 of the paper: −Σ log σ(labels · logits) / n."""
    z = [v.requires_grad_() for v in views(2, n=9)]
    a, b = (torch.nn.functional.normalize(v, dim=1) for v in z)
    logits = a @ b.T * 10 - 10
    expected = -torch.nn.functional.logsigmoid((2 * torch.eye(9) - 1) * logits).sum() / 9
    value = nn.SigLIPLoss(learnable=False)(*z)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(torch.autograd.grad(value, z), torch.autograd.grad(expected, z))


@pytest.mark.parametrize("edge", [2, 1000])
def test_siglip_of_views_in_one_batch_counts_every_pair_from_both_sides(edge):
    """A symmetric matrix of similarities, whose tiles serve rows and columns; scale and bias must not count twice."""
    loss, z = nn.SigLIPLoss(0.3, -1.0).double(), torch.nn.functional.normalize(torch.cat(views(2, n=5)), dim=1)
    with tile_size(edge):
        value = loss.of(in_batch(z.chunk(2)))
    logits = z @ z.T / loss.temperature.value() + loss.bias
    same = torch.arange(10) % 5 == torch.arange(10)[:, None] % 5
    signs = torch.where(same, 1.0, -1.0).fill_diagonal_(0)
    expected = (torch.nn.functional.softplus(-signs * logits) * signs.abs()).sum() / 10
    learnt = list(loss.parameters())
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(torch.autograd.grad(value, learnt), torch.autograd.grad(expected, learnt))


# --- whitening ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)])
@pytest.mark.parametrize("detach", [True, False])
def test_decorrelated_rows_do_not_correlate_and_a_large_matrix_is_never_formed(shape, detach):
    (z,) = views(1, *shape)
    white = decorrelated(z, 1e-9, detach)
    gram = white @ white.T / shape[1]
    torch.testing.assert_close(gram @ gram, gram, rtol=1e-6, atol=1e-6)  # a projection; the identity if it can be
    assert torch.linalg.matrix_rank(gram) == min(shape)


@pytest.mark.parametrize("loss", [nn.ZeroICLLoss(), nn.ZeroFCLLoss(), nn.ZeroCLLoss(detach=False), nn.ARBLoss()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [2, 5, 40])
def test_features_that_depend_on_each_other_have_a_finite_loss_and_gradient(loss, dtype, n):
    """Rank 2 of 16, more and fewer items than features, and a feature that is constant."""
    generator = torch.Generator().manual_seed(0)
    z = [torch.randn(n, 2, generator=generator, dtype=dtype) @ torch.randn(2, 16, generator=generator, dtype=dtype)]
    z = [z[0], z[0] + 1e-3 * torch.randn(n, 1, generator=generator, dtype=dtype)]
    for v in z:
        v[:, 3] = 7.0
        v.requires_grad_()
    value = loss(*z)
    value.backward()
    assert torch.isfinite(value)
    assert 0 <= value < 4 * (n + 16)
    for v in z:
        assert torch.isfinite(v.grad).all()
        assert v.grad.abs().max() < 1e3


def test_w_mse_of_dependent_features_is_finite_with_eps_and_refused_without():
    rows = torch.randn(20, 2, generator=torch.Generator().manual_seed(0)) @ torch.ones(2, 6)
    z = [rows.clone().requires_grad_(), (rows + 0.1).requires_grad_()]
    value = nn.WMSELoss()(*z)
    value.backward()
    assert all(torch.isfinite(x).all() for x in (value, z[0].grad, z[1].grad))
    with pytest.raises(ValueError, match=r"20 embeddings of 6 numbers has no Cholesky factor.*Use a larger eps, got 0"):
        nn.WMSELoss(eps=0)(*z)


def test_sub_batches_are_a_function_of_seed_and_step():
    z = views(2, n=24, d=3)
    loss = nn.WMSELoss(size=4)

    def at(seed, step):
        loss.at(seed, step)
        return loss(*z).item()

    first = at(1, 5)
    torch.rand(3)  # other draws do not matter
    assert at(1, 5) == first
    assert len({first, at(1, 6), at(2, 5)}) == 3


def test_without_a_step_sub_batches_are_drawn_anew():
    z = views(2, n=24, d=3)
    torch.manual_seed(0)
    free = nn.WMSELoss(size=4)
    assert free(*z) != free(*z)
    seeded = [nn.WMSELoss(size=4, generator=torch.Generator().manual_seed(2))(*z) for _ in range(2)]
    assert seeded[0] == seeded[1]


def test_a_batch_that_cannot_be_cut_evenly_is_cut_nearly_so():
    subsets = list(nn.WMSELoss(size=4)._subsets(23, 5, torch.device("cpu")))
    assert sorted(map(len, subsets)) == [4, 4, 5, 5, 5]
    assert sorted(torch.cat(subsets).tolist()) == list(range(23))


def test_the_run_tells_the_loss_where_it_is():
    def compared(seed, step):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)).double()
        m = method("wmse", Network(net, torch.nn.Identity()), nn.WMSELoss(size=4), Given(3, seed=seed))
        m.at(step, 10)
        x = [torch.randn(24, 4, generator=torch.Generator().manual_seed(i), dtype=torch.float64) for i in (1, 2)]
        return m.compare(Batch(x, torch.zeros(24), torch.arange(24))).item()

    assert compared(4, 3) == compared(4, 3)
    assert len({compared(4, 3), compared(5, 3), compared(4, 4)}) == 3


# --- many processes -----------------------------------------------------------------------------

LOSSES = {
    "wmse": lambda: nn.WMSELoss(size=6, iterations=2),
    "wmse, no step": lambda: nn.WMSELoss(size=6, generator=torch.Generator().manual_seed(1 + world.rank())),
    "zerocl": nn.ZeroCLLoss,
    "zerocl, all of the gradient": lambda: nn.ZeroCLLoss(detach=False),
    "arb": nn.ARBLoss,
    "siglip": nn.SigLIPLoss,
}
SHARES = {2: (11, 8), 3: (2, 10, 7)}


def everything(z):
    results = {}
    for name, make in LOSSES.items():
        loss = make()
        if name == "wmse":
            loss.at(2, 9)
        parts = [v.clone().requires_grad_() for v in z]
        value = loss(*parts)
        value.backward()
        learnt = [p.grad for p in loss.parameters()]
        results[name] = (value.detach(), [v.grad for v in parts], learnt)
    return results


def process(rank, folder, shares):
    world.join(rank, len(shares), folder / "meet")
    start = sum(shares[:rank])
    z = [v[start : start + shares[rank]] for v in views(3, n=19, d=4)]
    torch.save(everything(z), folder / f"{rank}.pt")
    world.leave()


@pytest.mark.parametrize("count", SHARES)
def test_several_processes_equal_one(count, tmp_path):
    processes.several(count, process, tmp_path, SHARES[count])
    parts = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(count)]
    for name, (value, gradients, learnt) in everything(views(3, n=19, d=4)).items():
        for part in parts:
            torch.testing.assert_close(part[name][0], value, rtol=1e-11, atol=1e-11, msg=name)
        for i, gradient in enumerate(gradients):
            together = torch.cat([part[name][1][i] for part in parts]) / count
            torch.testing.assert_close(together, gradient, rtol=1e-9, atol=1e-11, msg=name)
        for i, gradient in enumerate(learnt):
            together = sum(part[name][2][i] for part in parts) / count
            torch.testing.assert_close(together, gradient, rtol=1e-5, atol=1e-6, msg=name)  # single precision
