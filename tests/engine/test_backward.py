"""What may happen between the two passes, and at their edges: changed parameters, hidden entries, copies, autocast."""

import math

import pytest
import torch

from found import views
from isotherm import nn
from isotherm import temperature as T
from isotherm.engine import Expectation, Linear, LogSumExp, Smooth, Total, apply_rows, reduce, tile_size
from isotherm.pairing import banked, in_batch

CHANGED = "modified by an inplace operation"


class Stored(torch.nn.Module):
    """A temperature that is no parameter but can change."""

    lowest = 0.05

    def __init__(self):
        super().__init__()
        self.register_buffer("tau", torch.tensor(0.5, dtype=torch.float64))

    def forward(self, s):
        return self.tau.expand_as(s)


@pytest.mark.parametrize("kind", [T.Learnable, Stored, lambda: torch.tensor(0.5, requires_grad=True)])
@pytest.mark.parametrize("loss", [nn.NTXentLoss, nn.HardContrastiveLoss, nn.DCLLoss])
def test_a_temperature_changed_before_backward_is_refused(kind, loss):
    z = [v.requires_grad_() for v in views(2)]
    tau = kind()
    value = loss(temperature=tau)(*z)
    with torch.no_grad():
        for tensor in (tau,) if isinstance(tau, torch.Tensor) else (*tau.parameters(), *tau.buffers()):
            tensor.add_(0.3)
    with pytest.raises(RuntimeError, match=CHANGED):
        value.backward()


class Attribute:
    """A temperature of somebody's, which a schedule of theirs sets."""

    tau = 0.5

    def __call__(self, s):
        return self.tau + 0.1 * s * s


class InModule(Attribute, torch.nn.Module):
    """The same where parameters and buffers would be found; it has none."""


class Tensors(Attribute):
    """The same, in a tensor that nobody can find."""

    def __init__(self):
        self.tau = torch.tensor(0.5, dtype=torch.float64)


@pytest.mark.parametrize("kind", [Attribute, InModule, Tensors])
@pytest.mark.parametrize("loss", [nn.NTXentLoss, nn.HardContrastiveLoss])
def test_what_a_temperature_function_reads_changed_before_backward_is_refused(kind, loss):
    z = [v.requires_grad_() for v in views(2)]
    tau = kind()
    value = loss(temperature=tau)(*z)
    tau.tau *= 0.9
    with pytest.raises(RuntimeError, match="changed between forward and backward"):
        value.backward()


def test_a_temperature_function_that_is_as_it_was_is_not_refused():
    z = [v.requires_grad_() for v in views(2)]
    tau = Attribute()
    value = nn.NTXentLoss(temperature=tau)(*z)
    tau.tau = 0.2
    nn.NTXentLoss(temperature=tau)(*z).backward()
    tau.tau = 0.5
    value.backward()


def test_a_function_that_is_nan_somewhere_has_not_changed_for_that():
    z = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    (pairs,) = in_batch([z, -z])
    (sums,) = reduce(pairs, Total(Smooth(lambda s: (s - 2).log())))
    sums.sum().backward()


def test_a_constant_weight_changed_before_backward_is_refused():
    z = [v.requires_grad_() for v in views(2)]
    w = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    energy = Smooth(lambda s: s * w, (w,))
    (value,) = reduce(in_batch(z)[0], Expectation(energy, Linear(), detach_weights=True))
    with torch.no_grad():
        w.mul_(3)
    with pytest.raises(RuntimeError, match=CHANGED):
        value.sum().backward()


def test_an_index_filled_anew_before_backward_does_not_matter():
    bank = views(1, n=10)[0]
    gradients = []
    for refill in (False, True):
        z = views(1, n=4, seed=1)[0].requires_grad_()
        index = torch.tensor([4, 0, 9, 2])
        (value,) = reduce(banked(z, index, bank)[0], LogSumExp(Linear(5.0)))
        if refill:
            index.fill_(1)
        value.sum().backward()
        gradients.append(z.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("edge", [2, 100])
def test_a_learned_temperature_of_a_row_gets_its_gradient(edge):
    w = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)

    def softmax(positives, negatives):
        return (negatives / w).logsumexp(1) - positives[:, 0] / w

    z = [v.requires_grad_() for v in views(2)]
    with tile_size(edge):
        apply_rows(in_batch(z)[0], softmax, parameters=[w]).mean().backward()
    found = (w.grad, *(v.grad for v in z))
    z = [v.detach().requires_grad_() for v in z]
    tau = w.detach().requires_grad_()
    nn.DCLLoss(temperature=tau)(*z).backward()
    torch.testing.assert_close(found, (tau.grad, *(v.grad for v in z)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("top_k", [1, 3, 5])
def test_copies_of_a_candidate_tie_whatever_the_tiles(top_k, dtype):
    generator = torch.Generator().manual_seed(0)
    some = torch.randn(9, 37, generator=generator, dtype=dtype)
    for _ in range(20):
        items = some[torch.randint(9, (40,), generator=generator)]
        a, b = items[:20], items[20:]
        values = []
        for edge in (1, 3, 7, 64):
            with tile_size(edge):
                pairs = in_batch([a, b])[0]
                values.append(torch.stack(reduce(pairs, Total(Linear()), LogSumExp(Linear(5.0)), top_k=top_k)))
        s = pairs.queries.double() @ pairs.queries.double().T
        pairs.hidden.hide(s, slice(0, 40), slice(0, 40), -math.inf)
        kth = s.topk(top_k, dim=1).values[:, -1:]
        keep = s >= kth - 1e-6  # no two of the nine are that close
        dense = torch.stack([s.masked_fill(~keep, 0).sum(1), (5 * s).masked_fill(~keep, -math.inf).logsumexp(1)])
        for value in values:
            torch.testing.assert_close(value.double(), dense, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", [nn.NTXentLoss, nn.HardSimpleLoss, nn.CACRLoss, nn.MACLLoss])
@pytest.mark.parametrize("linear", [True, False])
def test_a_second_derivative_is_refused_and_never_none(loss, linear):
    z = [v.requires_grad_() for v in views(2)]
    value = loss()(*z)
    gradients = torch.autograd.grad(value if linear else value**2, z, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives of isotherm's losses are not available"):
        torch.autograd.grad(sum(g.square().sum() for g in gradients), z, allow_unused=True)


def test_a_gradient_with_a_graph_is_the_same_gradient():
    z = [v.requires_grad_() for v in views(2)]
    plain = torch.autograd.grad(nn.NTXentLoss()(*z), z)
    kept = torch.autograd.grad(nn.NTXentLoss()(*z), z, create_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(plain, kept, strict=True))


@pytest.mark.parametrize("loss", [nn.BarlowTwinsLoss, nn.VICRegLoss])
def test_where_products_are_plain_second_derivatives_exist(loss):
    z = [v.requires_grad_() for v in views(2, n=6, d=3)]
    assert torch.autograd.gradgradcheck(loss(), z)
