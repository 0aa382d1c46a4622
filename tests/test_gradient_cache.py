"""The gradient cache gives the whole batch's gradient, whatever the network draws or counts."""

import copy
import gc

import pytest
import torch
import torch.distributed as dist
from torch import nn as layers

import isotherm
import processes
from isotherm import nn, temperature, world
from isotherm.gradient_cache import cached


def network(*between, seed=1):
    torch.manual_seed(seed)
    return layers.Sequential(layers.Linear(6, 16), *between, layers.Tanh(), layers.Linear(16, 4)).double()


def inputs(n=11, count=2):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 6, generator=generator, dtype=torch.float64)
    return [x + 0.3 * torch.randn(n, 6, generator=generator, dtype=torch.float64) for _ in range(count)]


def gradients(module):
    return [p.grad for p in module.parameters()]


def assert_alike(a, b, **tolerance):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, **tolerance)


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize(
    "loss", [nn.NTXentLoss(0.2), nn.CACRLoss(), nn.BarlowTwinsLoss()], ids=lambda x: type(x).__name__
)
def test_the_gradient_is_the_whole_batch_s(loss, chunk):
    plain, ours = network(), network()
    expected = loss(*(plain(x) for x in inputs()))
    (3 * expected).backward()
    value = cached(loss, ours, chunk)(*inputs())
    (3 * value).backward()
    torch.testing.assert_close(value.detach(), expected.detach(), rtol=1e-12, atol=1e-12)
    assert_alike(gradients(ours), gradients(plain), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "norm",
    [
        layers.BatchNorm1d(16),
        layers.BatchNorm1d(16, momentum=None),
        layers.Sequential(
            layers.Unflatten(1, (4, 4)), layers.InstanceNorm1d(4, track_running_stats=True), layers.Flatten()
        ),
    ],
    ids=["momentum", "mean", "instance"],
)
def test_dropout_draws_the_same_numbers_again_and_running_statistics_count_once(norm):
    plain = network(layers.Dropout(0.5), norm.double())
    ours, loss = copy.deepcopy(plain), nn.NTXentLoss(0.2)
    torch.manual_seed(5)
    embedded = [torch.cat([plain(part) for part in x.split(4)]) for x in inputs(12)]
    after = torch.rand(3)
    loss(*embedded).backward()
    torch.manual_seed(5)
    value = cached(loss, ours, 4)(*inputs(12))
    assert torch.equal(torch.rand(3), after)
    torch.rand(100)  # what is drawn between the passes changes nothing
    value.backward()
    assert_alike(gradients(ours), gradients(plain), rtol=1e-9, atol=1e-12)
    moved = {name: value for name, value in plain.named_buffers() if "running" in name}
    assert len(moved) == 2
    for name, value in moved.items():
        torch.testing.assert_close(ours.get_buffer(name), value)


def test_a_learnable_temperature_labels_weights_and_mappings_take_part():
    plain, ours = network(), network()
    labels, weights = torch.arange(11) % 3, torch.linspace(0.5, 2, 11)
    a, b = (nn.SupConLoss(temperature.Learnable(0.2)).double() for _ in range(2))
    a(*(plain(x) for x in inputs()), labels=labels, weights=weights).backward()
    views = [{"x": x, "note": "as it is"} for x in inputs()]

    def embed(view):
        return ours(view["x"]) if view["note"] == "as it is" else None

    cached(b, embed, 3, module=layers.ModuleList([ours, b]))(*views, labels=labels, weights=weights).backward()
    assert_alike(gradients(ours), gradients(plain), rtol=1e-9, atol=1e-12)
    assert_alike(gradients(b), gradients(a), rtol=1e-9, atol=1e-12)


def test_the_second_pass_has_the_autocast_of_the_first():
    encoder, kinds = network().float(), []
    encoder.register_forward_hook(lambda module, given, z: kinds.append((z.dtype, z.requires_grad)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = cached(nn.NTXentLoss(0.2), encoder, 4)(*(v.float() for v in inputs(8)))
    value.backward()
    assert kinds == [(torch.bfloat16, False)] * 4 + [(torch.bfloat16, True)] * 4


def test_without_gradient_there_is_one_pass():
    calls = []
    encoder = network()
    encoder.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        value = cached(nn.NTXentLoss(0.2), encoder, 4)(*inputs(8))
    assert len(calls) == 4
    torch.testing.assert_close(value, nn.NTXentLoss(0.2)(*map(encoder, inputs(8))).detach())


def test_mistakes_get_one_sentence():
    with pytest.raises(ValueError, match="chunk must be 1 or more, got 0"):
        isotherm.cached(nn.NTXentLoss(), network(), 0)
    with pytest.raises(ValueError, match="must give one number"):
        cached(nn.NTXentLoss(reduction="none"), network())(*inputs())
    with pytest.raises(TypeError, match="must give a tensor of embeddings, got dict"):
        cached(nn.NTXentLoss(), lambda x: {"z": x}, module=network())(*inputs())
    with pytest.raises(TypeError, match=r"is no nn.Module: say where its parameters are"):
        cached(nn.NTXentLoss(), lambda x: x)
    with pytest.raises(ValueError, match=r"must hold as many items; they hold \{'a': 3, 'b': 2\}"):
        cached(nn.NTXentLoss(), network())({"a": torch.ones(3), "b": torch.ones(2)})
    value = cached(nn.NTXentLoss(), network())(*inputs())
    value.backward()
    with pytest.raises(RuntimeError, match="works once"):
        value.backward()


class Whole(layers.Module):
    """Encoder and loss in one module, as trainers wrap them."""

    def __init__(self):
        super().__init__()
        self.encoder, self.loss = network(), nn.NTXentLoss(temperature.Learnable(0.2)).double()

    def forward(self, *views):
        return cached(self.loss, self.encoder, 2)(*views)


def process(rank, folder):
    world.join(rank, 2, f"{folder}/meet")
    mine = [x[:5] if rank == 0 else x[5:] for x in inputs()]
    whole = Whole()
    encoder = layers.parallel.DistributedDataParallel(whole.encoder)
    for _ in range(2):
        encoder.zero_grad()
        cached(whole.loss, encoder, 2)(*mine).backward()
    torch.save(gradients(encoder), f"{folder}/encoder{rank}.pt")
    everything = layers.parallel.DistributedDataParallel(Whole())
    for _ in range(2):
        everything.zero_grad()
        everything(*mine).backward()
    torch.save(gradients(everything), f"{folder}/whole{rank}.pt")
    del encoder, everything
    gc.collect()  # what DDP holds waits for ever if it goes after the group
    world.leave()


@pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")
def test_under_ddp_the_gradient_is_that_of_one_process(tmp_path):
    processes.two(process, str(tmp_path))
    plain = Whole()
    plain.loss(*(plain.encoder(x) for x in inputs())).backward()
    for rank in (0, 1):
        around_encoder = torch.load(tmp_path / f"encoder{rank}.pt")
        assert_alike(around_encoder, gradients(plain.encoder), rtol=1e-9, atol=1e-12)
        assert_alike(torch.load(tmp_path / f"whole{rank}.pt"), gradients(plain), rtol=1e-9, atol=1e-12)
