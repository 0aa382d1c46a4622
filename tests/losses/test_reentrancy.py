"""A loss called from several threads, inside a backward pass, inside torch.func, compiled, twice differentiated: right,
or refused in a sentence. Autocast is a law of its own (`laws.autocast`)."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from found import LOSSES, call, make, views
from isotherm import nn

TWICE = {"BarlowTwinsLoss", "VICRegLoss"}
"""Losses of plain products, whose second derivatives are cheap and right (tests/engine/test_backward.py)."""

DRAWS = "GeneralizedContrastiveLoss"
"""Draws directions anew at every call, from a generator of its own: what threads that share one get depends on who was
first."""


def value_and_gradients(name, z):
    z = [v.clone().requires_grad_() for v in z]
    value = call(make(name), z)
    gradients = torch.autograd.grad(value, z, allow_unused=True)  # a target takes none
    return [value.detach(), *(torch.zeros(()) if g is None else g for g in gradients)]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", LOSSES)
def test_threads_do_not_disturb_each_other(name):
    """Four threads, each with data of its own, at once and again and again: bit for bit what one alone computes."""
    batches = [views(2, n=24 + 8 * i, d=8, seed=i) for i in range(4)]
    alone = [value_and_gradients(name, z) for z in batches]
    start = Barrier(4)

    def work(i):
        start.wait()
        return all(same(value_and_gradients(name, batches[i]), alone[i]) for _ in range(4))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))


@pytest.mark.parametrize("name", [name for name in LOSSES if name != DRAWS])
def test_one_loss_shared_by_threads_is_as_good_as_one_for_each(name):
    loss, batches = make(name), [views(2, n=24, d=8, seed=i) for i in range(4)]
    alone = [call(loss, z) for z in batches]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda z: call(loss, z), batches))
    assert same(alone, together)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_inside_a_backward_pass_changes_neither(name):
    """A hook of one loss's gradient calls another, whole with its own backward pass."""
    z, inner = views(2, n=16, d=8), views(2, n=12, d=8, seed=1)
    expected, expected_inner = value_and_gradients(name, z), value_and_gradients(name, inner)
    seen = []

    @torch.enable_grad()
    def again(grad):
        seen.append(value_and_gradients(name, inner))
        return grad

    leaves = [v.clone().requires_grad_() for v in z]
    middle = [v * 1 for v in leaves]
    for v in middle:
        v.register_hook(again)
    value = call(make(name), middle)
    value.backward()
    assert same([value.detach(), *(torch.zeros(()) if v.grad is None else v.grad for v in leaves)], expected)
    assert seen
    assert all(same(each, expected_inner) for each in seen)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, of itself
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, z: torch.func.grad(f)(z),
        lambda f, z: torch.func.vjp(f, z)[0],
        lambda f, z: torch.func.jvp(f, (z,), (z,)),
        lambda f, z: torch.func.vmap(f)(torch.stack([z, z])),
        lambda f, z: torch.func.hessian(f)(z),
    ],
    ids=["grad", "vjp", "jvp", "vmap", "hessian"],
)
def test_torch_func_is_refused_in_a_sentence(transform, name):
    z, other = views(2, n=8, d=4)
    with pytest.raises(RuntimeError, match=r"isotherm's losses do not run inside torch\.func"):
        transform(lambda a: call(make(name), [a, other]), z)


def test_a_functional_call_is_no_transform():
    z, loss = views(2), nn.NTXentLoss(temperature=torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64)))
    name = next(iter(dict(loss.named_parameters())))
    value = torch.func.functional_call(loss, {name: torch.tensor(0.2, dtype=torch.float64)}, tuple(z))
    torch.testing.assert_close(value, nn.NTXentLoss(temperature=0.2)(*z))


@pytest.mark.parametrize("name", LOSSES)
def test_a_second_derivative_is_right_or_refused(name):
    z = [v.requires_grad_() for v in views(2, n=6, d=3)]
    gradients = torch.autograd.grad(call(make(name), z), z, create_graph=True, allow_unused=True)
    gradients = [g for g in gradients if g is not None]  # a target takes none
    if name in TWICE:
        assert all(g is not None for g in torch.autograd.grad(sum(g.square().sum() for g in gradients), z))
        return
    with pytest.raises(RuntimeError, match="second derivatives of isotherm's losses are not available"):
        torch.autograd.grad(sum(g.square().sum() for g in gradients), z, allow_unused=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the compiler itself
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"])
def test_every_mode_of_the_compiler_gives_the_same(mode):
    torch.manual_seed(0)
    encoder, loss, x = torch.nn.Linear(8, 4), nn.NTXentLoss(), torch.randn(2, 16, 8)

    def step(x):
        return loss(encoder(x[0]), encoder(x[1]))

    expected = torch.autograd.grad(step(x), encoder.weight)[0]
    compiled = torch.autograd.grad(torch.compile(step, mode=mode)(x), encoder.weight)[0]
    torch.testing.assert_close(compiled, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_full_graph_is_refused_by_the_compiler():
    """The engine runs as it is, beside the graph: who forbids that is told so, and gets no wrong number."""
    torch.manual_seed(0)
    encoder, loss, x = torch.nn.Linear(8, 4), nn.NTXentLoss(), torch.randn(2, 16, 8)
    torch._dynamo.reset()  # what other tests compiled would count against it
    with pytest.raises(torch._dynamo.exc.Unsupported, match="disable"):
        torch.compile(lambda x: loss(encoder(x[0]), encoder(x[1])), fullgraph=True)(x)
