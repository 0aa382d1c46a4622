"""Everyone's mean gradient: in buckets, while the backward pass runs, with zero for who has none."""

from pathlib import Path

import torch

import processes
from isotherm import world
from isotherm.train.averaging import Averaging

COUNT = 3


def gradients(rank):
    """Of four parameters, as process `rank` has them: one is lacking on the second process, one everywhere."""
    rng = torch.Generator().manual_seed(rank)
    everything = [torch.randn(n, generator=rng) for n in (5, 3, 4, 2)]
    return [None if i == 3 or (i == 1 and rank == 1) else g for i, g in enumerate(everything)]


def loss_of(parameters, slopes):
    return sum((p * g).sum() for p, g in zip(parameters, slopes, strict=True) if g is not None)


def process(rank, folder):
    world.join(rank, COUNT, Path(folder) / "meet")
    for size in (1, 20, 1 << 20):
        parameters = [torch.ones(n, requires_grad=True) for n in (5, 3, 4, 2)]
        averaging = Averaging(parameters, size)
        for parts in (1, 3):
            for p in parameters:
                p.grad = None
            for part in range(parts):
                value = loss_of(parameters, gradients(rank)) / parts
                if part < parts - 1:
                    value.backward()
                    continue
                with averaging.during_backward():
                    value.backward()
            torch.save([p.grad for p in parameters], Path(folder) / f"{size}-{parts}-{rank}.pt")
        torch.save(len(averaging.buckets), Path(folder) / f"{size}-{rank}.pt")
    chain = [torch.ones(4, requires_grad=True) for _ in range(3)]
    averaging = Averaging(chain, size=1)
    sent = []
    chain[0].register_hook(lambda _: sent.append(averaging.sent))  # the last to get its gradient
    with averaging.during_backward():
        ((chain[0] * 2).tanh() * chain[1]).tanh().mul(chain[2]).sum().backward()
    torch.save(sent[0], Path(folder) / f"sent{rank}.pt")
    world.leave()


def test_three_processes_get_the_mean_in_any_number_of_buckets_and_parts(tmp_path):
    processes.several(COUNT, process, str(tmp_path))
    zero = [torch.zeros(n) for n in (5, 3, 4, 2)]
    each = [[z if g is None else g for g, z in zip(gradients(r), zero, strict=True)] for r in range(COUNT)]
    mean = [torch.stack(column).mean(0) for column in zip(*each, strict=True)]
    for size, buckets in ((1, 4), (20, 2), (1 << 20, 1)):
        for rank in range(COUNT):
            assert torch.load(tmp_path / f"{size}-{rank}.pt", weights_only=True) == buckets
            for parts in (1, 3):
                result = torch.load(tmp_path / f"{size}-{parts}-{rank}.pt", weights_only=True)
                assert result[3] is None  # nobody has it
                for ours, wanted in zip(result[:3], mean, strict=False):
                    torch.testing.assert_close(ours, wanted)
    for rank in range(COUNT):  # two of three buckets were under way before the last gradient was there
        assert torch.load(tmp_path / f"sent{rank}.pt", weights_only=True) == 2


def test_one_process_keeps_its_gradient():
    p = torch.ones(3, requires_grad=True)
    averaging = Averaging([p])
    with averaging.during_backward():
        (2 * p).sum().backward()
    assert p.grad.tolist() == [2.0] * 3
    assert not averaging.buckets
