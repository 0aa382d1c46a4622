"""Two real processes give the value and the gradient of one, for every loss."""

import pytest
import torch
import torch.distributed as dist

import processes
from found import LOSSES, NEGATIVE_FREE, labels, make, views
from isotherm import world

SPLITS = {"equal": (4, 4), "one item here": (1, 7)}
FURTHER = {
    "InfoNCELoss": [{"symmetric": False}],
    "CACRLoss": [{"cost": "rbf"}],
    "GeneralizedContrastiveLoss": [{"distribution": "lse"}],
    "NTXentLoss": [{"temperature": 0.001}],
}
CASES = [(name, settings) for name in LOSSES for settings in [{}, *FURTHER.get(name, [])]]


def run(name, settings, z, kinds, queue):
    """Value and gradients of one loss on this process's part of the batch."""
    z = [v.clone().requires_grad_() for v in z]
    loss = make(name, **settings)
    if name == "SupConLoss":
        value = loss(z[0], kinds)
    elif queue is not None:
        value = loss(*z, negatives=queue)
    else:
        value = loss(*z)
    value.backward()
    return value.detach(), [torch.zeros_like(v) if v.grad is None else v.grad for v in z]


def every_case(z, kinds, queue):
    results = {}
    for i, (name, settings) in enumerate(CASES):
        results[i, "batch"] = run(name, settings, z[:1] if name == "SupConLoss" else z, kinds, None)
        swd = name == "GeneralizedContrastiveLoss" and not settings
        if name not in NEGATIVE_FREE | {"SupConLoss"} and not swd:
            results[i, "queue"] = run(name, settings, z, kinds, queue)
    return results


def process(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    for name, split in SPLITS.items():
        start = sum(split[:rank])
        mine = slice(start, start + split[rank])
        z = [v[mine] for v in views(3, n=sum(split))]
        torch.save(every_case(z, labels(sum(split))[mine], views(1, n=6, seed=9)[0]), f"{folder}/{name}{rank}.pt")
        assert torch.equal(world.gather(torch.full((split[rank],), rank)).bincount(), torch.tensor(split))
    assert world.size() == 2
    for name in ("NTXentLoss", "InfoNCELoss", "CACRLoss", "BarlowTwinsLoss", "VICRegLoss"):
        numbers = views(2, n=4, dtype=(torch.float32, torch.float64)[rank])
        for unlike in (views(2 + rank, n=4), views(2, n=4, d=5 + rank), numbers):
            with pytest.raises(ValueError, match="every process must bring as many"):
                make(name)(*unlike)
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two processes, started once, made of every case and split."""
    folder = tmp_path_factory.mktemp("world")
    processes.two(process, str(folder))
    return folder


@pytest.fixture(scope="module", params=SPLITS)
def both(request, folder):
    parts = [torch.load(folder / f"{request.param}{rank}.pt", weights_only=True) for rank in (0, 1)]
    n = sum(SPLITS[request.param])
    whole = every_case(views(3, n=n), labels(n), views(1, n=6, seed=9)[0])
    return whole, parts


@pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")
@pytest.mark.parametrize("how", ["batch", "queue"])
@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)])
def test_two_processes_equal_one(both, case, how):
    whole, parts = both
    if (case, how) not in whole:
        assert how == "queue"  # this loss takes no negatives
        return
    value, gradients = whole[case, how]
    for part in parts:  # every process knows the global value
        torch.testing.assert_close(part[case, how][0], value, rtol=1e-10, atol=1e-10)
    # averaging over processes, as DDP does, must give the gradient of one: each holds twice its share
    for i, gradient in enumerate(gradients):
        together = torch.cat([part[case, how][1][i] for part in parts]) / 2
        torch.testing.assert_close(together, gradient, rtol=1e-9, atol=1e-11)


def given_to_one(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    for name in ("NTXentLoss", "BarlowTwinsLoss", "SupConLoss"):
        z, given = views(2, n=4), {"weights": torch.ones(4)} if rank else {}
        z = [z[0], torch.tensor([0, 0, 1, 1])] if name == "SupConLoss" else z
        with pytest.raises(ValueError, match=r"must give weights, or none: processes \[1\] give them and \[0\] do not"):
            make(name)(*z, **given)
    with pytest.raises(ValueError, match=r"must give negatives, or none: processes \[0\] give them and \[1\] do not"):
        make("NTXentLoss")(*views(2, n=4), negatives=None if rank else views(1, n=6)[0])
    dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")
def test_what_only_one_process_is_given_is_refused_and_it_is_named(tmp_path):
    processes.two(given_to_one, str(tmp_path))


def test_one_process_needs_no_distributed(monkeypatch):
    """Not even where somebody's launcher says that there are more: only a group that was joined counts."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not dist.is_initialized()
    assert world.size() == 1
    z = torch.randn(3, 2)
    assert world.gather(z) is z
    assert world.rank() == 0
    assert world.mean(torch.tensor([1.0, 3.0])).item() == 2
