"""Candidates that visit instead of being gathered: the values and gradients of one process, in less memory."""

import weakref
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import processes
from found import LOSSES, labels, make, views
from isotherm import nn, pairing, world
from isotherm.bench import scale
from isotherm.engine import apply_rows, tile_size
from isotherm.temperature import Learnable

SPLITS = {2: (4, 5), 3: (1, 5, 3), 4: (2, 3, 1, 3)}
COUNTS = [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
ITEMS = 9
FURTHER = {
    "InfoNCELoss": [{"symmetric": False}],
    "CACRLoss": [{"cost": "rbf"}, {"negatives_from": "other"}, {"detach_weights": True}],
    "GeneralizedContrastiveLoss": [{"distribution": "lse"}],
    "NTXentLoss": [{"temperature": 0.001}],
    "HardContrastiveLoss": [{"top_k": 4}, {"alpha": 1.0}],
    "HardSimpleLoss": [{"top_k": 3, "weight": 0.5}],
    "DySTreSSLoss": [{"detach": False}],
}
CASES = [(name, settings) for name in LOSSES for settings in [{}, *FURTHER.get(name, [])]]
UNABLE = {(name, str(s)) for name, s in CASES if make(name, **s).without_ring}
ABLE = [i for i, (name, s) in enumerate(CASES) if (name, str(s)) not in UNABLE]

PAIRINGS = ("queue and batch", "keys", "hard negatives", "fixed keys", "learnable")


def run(call, z):
    z = [v.clone().requires_grad_() for v in z]
    value = call(*z)
    value.backward()
    return value.detach(), [torch.zeros_like(v) if v.grad is None else v.grad for v in z]


def every_loss(z, kinds):
    """Values and gradients of all losses that can, and of pairings that a method uses."""
    results = {}
    for i in ABLE:
        name, settings = CASES[i]
        loss = make(name, **settings)
        if loss.takes_labels:
            results[i] = run(lambda a, loss=loss: loss(a, kinds), z[:1])
        else:
            with tile_size(2):  # several tiles on every side
                results[i] = run(loss, z)
    queue = views(1, n=6, seed=9)[0]
    cacr, plain = nn.CACRLoss(), nn.NTXentLoss()
    results["queue and batch"] = run(lambda *v: cacr.of(pairing.queued(v, queue, with_queries=True, among=v[1:])), z)
    results["keys"] = run(lambda *v: plain.of(pairing.one_way(*v)), z)
    results["hard negatives"] = run(lambda a, b, c: plain.of(pairing.one_way(a, b, further=c)), z)
    results["fixed keys"] = run(lambda a, b, c: plain.of(pairing.one_way(a, b.detach())), z)
    learnable = Learnable(0.3).double()
    value, slopes = run(nn.NTXentLoss(learnable), z)
    together = [torch.zeros_like(p) if p.grad is None else p.grad for p in learnable.parameters()]
    results["learnable"] = value, slopes
    results["temperature"] = value, [world.total(g) / world.size() for g in together]
    return results


def process(rank, count, folder):
    world.join(rank, count, Path(folder) / f"meet{count}")
    start = sum(SPLITS[count][:rank])
    mine = slice(start, start + SPLITS[count][rank])
    z, kinds = [v[mine] for v in views(3, n=ITEMS)], labels(ITEMS)[mine]
    with world.exchange("ring"):
        torch.save(every_loss(z, kinds), f"{folder}/{count}-{rank}.pt")
        for name, settings in CASES:
            if (name, str(settings)) in UNABLE:
                with pytest.raises(ValueError, match=rf'^{name} [^.]*: use exchange "gather" instead of "ring"\.$'):
                    make(name, **settings)(*z)
        with pytest.raises(ValueError, match=r"a function of whole rows needs all candidates at once"):
            apply_rows(pairing.in_batch(z)[0], lambda p, s: s.amax(1))
    world.leave()


@pytest.fixture(scope="module", params=COUNTS)
def parts(request, tmp_path_factory):
    """What each of several processes, started once, made of every case."""
    folder, count = tmp_path_factory.mktemp("ring"), request.param
    processes.several(count, process, count, str(folder))
    return [torch.load(folder / f"{count}-{rank}.pt", weights_only=True) for rank in range(count)]


@pytest.fixture(scope="module")
def one():
    return every_loss(views(3, n=ITEMS), labels(ITEMS))


@pytest.mark.parametrize("case", [*ABLE, *PAIRINGS], ids=lambda case: str(CASES[case]) if case in ABLE else case)
def test_visitors_give_the_value_and_gradient_of_one_process(case, parts, one):
    value, gradients = one[case]
    for part in parts:
        torch.testing.assert_close(part[case][0], value, rtol=1e-9, atol=1e-9)
    for i, whole in enumerate(gradients):
        together = torch.cat([part[case][1][i] for part in parts]) / len(parts)  # averaged, as DDP does
        torch.testing.assert_close(together, whole, rtol=1e-9, atol=1e-11)


def test_a_learnable_temperature_gets_the_gradient_of_one_process(parts, one):
    for part in parts:
        torch.testing.assert_close(part["temperature"], one["temperature"], rtol=1e-9, atol=1e-11)


def test_most_losses_can_and_the_others_say_why():
    assert {name for name, _ in UNABLE} == {
        "ARBLoss",
        "BarlowTwinsLoss",
        "FNCLoss",
        "GeneralizedContrastiveLoss",
        "VICRegLoss",
        "WMSELoss",
        "ZeroCLLoss",
        "ZeroFCLLoss",
        "ZeroICLLoss",
    }


def test_one_process_has_no_visitors():
    z = views(2)
    with world.exchange("ring"):
        assert pairing.in_batch(z)[0].visitors is None
    with pytest.raises(ValueError, match="exchange must be"), world.exchange("mail"):
        pass


class Live(TorchDispatchMode):
    """Counts the bytes of all tensors that live at once, and the operations of matrix products."""

    now = most = operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm_):
            a, b = args[-2:]
            self.operations += 2 * a.shape[0] * a.shape[1] * b.shape[1]
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor):
                self._count(t.untyped_storage())
        return out

    def __init__(self):
        super().__init__()
        self._known = set()

    def _count(self, storage):
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._gone, key, size)

    def _gone(self, key, size):
        self._known.discard(key)
        self.now -= size


BATCH, WIDTH = 1536, 64


def peaks(rank, count, folder):
    world.join(rank, count, Path(folder) / f"peak{count}")
    z = [v.requires_grad_() for v in views(2, n=BATCH // count, d=WIDTH, dtype=torch.float32)]
    result = {}
    for how in ("gather", "ring"):
        with world.exchange(how), tile_size(32), Live() as live:
            nn.NTXentLoss()(*z).backward()
        result[how] = live.most, live.operations
    torch.save(result, f"{folder}/peak{count}-{rank}.pt")
    world.leave()


@pytest.mark.slow
def test_memory_per_process_falls_with_the_number_of_processes(tmp_path):
    """Everyone's rows in both views are 768 KB; gathered they are there, and so is their gradient, on each process."""
    everyone = 2 * BATCH * WIDTH * 4
    most = {}
    for count in (2, 4):
        processes.several(count, peaks, count, str(tmp_path))
        ranks = [torch.load(tmp_path / f"peak{count}-{rank}.pt", weights_only=True) for rank in range(count)]
        most[count] = {how: max(part[how][0] for part in ranks) for how in ("gather", "ring")}
        for how, count_costs in (("gather", scale.gathered), ("ring", scale.visited)):
            cost = count_costs(BATCH, count, WIDTH)
            assert most[count][how] == pytest.approx(cost.memory, rel=0.25), (how, count)
            for part in ranks:
                assert part[how][1] == pytest.approx(cost.operations, rel=0.06), (how, count)
    assert most[4]["gather"] > 2 * everyone
    assert most[4]["ring"] < 0.6 * most[2]["ring"]
    assert most[4]["ring"] < 0.7 * most[4]["gather"]
    assert most[4]["ring"] < 2 * everyone  # own rows, visitors and their gradients: seven blocks of a quarter
