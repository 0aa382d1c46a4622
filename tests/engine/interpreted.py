"""The fused kernels in triton's interpreter against the plain path; run by test_kernels.py with TRITON_INTERPRET=1."""

import os
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import processes
from isotherm import engine, nn, world
from isotherm import temperature as T
from isotherm.engine import Expectation, Gaussian, Linear, LogSumExp, Nothing, Periodic, Same, Total, Unlike, reduce
from isotherm.engine.device import blocks, check, jobs, launch
from isotherm.engine.tiles import tiled
from isotherm.losses import catalogue
from isotherm.losses.laws import Maker
from isotherm.types import Pairs

ROWS, COLUMNS, WIDTH = 40, 50, 24


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    """Several tiles and shares at the size of a test, on the way `reduce` takes."""
    monkeypatch.setitem(blocks.ADD, "ieee", blocks.Blocks(32, 16, 16, 4))
    monkeypatch.setitem(blocks.PULL, "ieee", blocks.Blocks(16, 32, 16, 4))
    monkeypatch.setenv("ISOTHERM_KERNELS", "triton")


def unit(rows, seed, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(1, WIDTH, generator=generator) * (1 - spread) + spread * torch.randn(
        rows, WIDTH, generator=generator
    )
    return torch.nn.functional.normalize(z, dim=1)


def block(kind):
    """Pairs of every shape, with every mask."""
    q, c, same = (unit(ROWS, 0).requires_grad_(), unit(COLUMNS, 1).requires_grad_(), unit(ROWS, 2).requires_grad_())
    rows, columns = torch.arange(ROWS), torch.arange(COLUMNS)
    return {
        "symmetric": Pairs(q, None, q[:, :1], Periodic(ROWS // 2), 1),
        "symmetric, by ids": Pairs(q, None, q[:, :1], Same(rows % 13, rows % 13), 1),
        "labelled": Pairs(q, None, q[:, :1], Unlike(Same(rows % 3, rows % 3), Periodic(ROWS)), 1),
        "queue": Pairs(q, c.detach(), q[:, :1], Nothing(), 1),
        "bank": Pairs(q, c, q[:, :1], Same(rows, columns.flip(0)), 1),
        "mutual": Pairs(q, same, q[:, :1], Periodic(ROWS), 1, mutual=True),
        "mutual, by ids": Pairs(q, same, q[:, :1], Same(rows % 7, rows.flip(0) % 5), 1, mutual=True),
    }[kind]


KINDS = ["symmetric", "symmetric, by ids", "labelled", "queue", "bank", "mutual", "mutual, by ids"]
PROFILES = [
    profile(0.07, 0.2, *more, detach=detach)
    for detach in (True, False)
    for profile, *more in [
        (T.Cosine,),
        (T.Linear,),
        (T.Exponential, 2.0),
        (T.Monotone,),
        (T.Shifted, -0.4, 0.7),
        (T.Shifted, 0.4, 0.7),
        (T.Shifted, 0.0, 1.0),
        (T.LeftHalf,),
    ]
]
REDUCTIONS = {
    "lse": lambda: LogSumExp(Linear(5.0)),
    "steep lse": lambda: LogSumExp(Linear(300.0)),
    "expectation": lambda: Expectation(Linear(4.0), Gaussian(2.0)),
    "constant weights": lambda: Expectation(Linear(4.0), Linear(), detach_weights=True),
    "total": lambda: Total(Gaussian(1.0)),
    "linear total": lambda: Total(Linear(3.0)),
    "learnable": lambda: LogSumExp(T.scaled(T.Learnable(0.2))),
    "learnable expectation": lambda: Expectation(T.scaled(torch.tensor(0.3, requires_grad=True)), Gaussian(1.0)),
    "learnable total": lambda: Total(T.scaled(torch.tensor(0.3, requires_grad=True))),
}


def compare(pairs, reduction, top_k=None, exact=2e-5):
    """Values and gradients of both paths, on the scale of the largest."""
    job = jobs.plan(pairs, reduction, top_k)
    assert job is not None
    learnable = [p for f in reduction.functions for p in f.parameters if p.requires_grad and p.is_leaf]
    inputs = [t for t in (pairs.queries, pairs.candidates) if t is not None and t.requires_grad]
    ours = launch.run(job, pairs)
    (theirs,) = tiled(pairs, (reduction,), top_k)
    upstream = torch.randn(len(ours), generator=torch.Generator().manual_seed(5))
    results = [(v, *torch.autograd.grad(v, inputs + learnable, upstream, retain_graph=True)) for v in (ours, theirs)]
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() <= exact * b.abs().max()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_sum_over_every_kind_of_block(kind, reduction):
    compare(block(kind), REDUCTIONS[reduction](), exact=2e-4 if reduction == "steep lse" else 2e-5)


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
def test_every_profile_with_and_without_the_gradient_through_it(profile):
    compare(block("symmetric"), LogSumExp(T.scaled(profile, times=1.5)))


@pytest.mark.parametrize("kind", ["symmetric", "queue", "bank"])
@pytest.mark.parametrize("top_k", [1, 4, 20])
def test_the_nearest_negatives(kind, top_k):
    compare(block(kind), LogSumExp(Linear(5.0)), top_k)
    if top_k == 4:
        compare(block(kind), Expectation(Linear(0.0), Linear()), top_k)
        compare(block(kind), Total(Linear(2.0)), top_k)
        compare(block(kind), LogSumExp(T.scaled(T.Learnable(0.3))), top_k)


def test_ties_with_the_last_of_the_nearest_all_count():
    z = torch.tensor([[1.0, 0], [0, 1], [0, 1], [0, 1]])
    pairs = Pairs(z[:1], z[1:], z.new_zeros(1, 1), Nothing(), 3)
    assert reduce(pairs, Total(Gaussian(0.0)), top_k=1)[0].item() == 3


def test_columns_take_a_pass_of_their_own_where_their_sums_would_be_too_many(monkeypatch):
    monkeypatch.setattr(launch, "LINES", 0)
    for kind in ("symmetric", "mutual"):
        compare(block(kind), REDUCTIONS["expectation"]())


@pytest.mark.parametrize("name", [e.name for e in catalogue.losses() if not e.loss.negative_free])
def test_every_loss_has_the_value_and_gradient_of_the_plain_path(name, monkeypatch):
    make = Maker.of(name)
    results = []
    for how in ("plain", "triton"):
        monkeypatch.setenv("ISOTHERM_KERNELS", how)
        z = [unit(20, seed).requires_grad_() for seed in (0, 1)]
        loss = make()
        if getattr(loss, "generator", None) is None and hasattr(loss, "generator"):
            loss.generator = torch.Generator().manual_seed(0)
        value = make.value(z, loss)
        results.append((value, *torch.autograd.grad(value, z)))
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() <= 2e-5 * a.abs().max()


@triton.jit
def cubic(s, P):
    a = tl.load(P)
    return a * s * s * s, 3 * a * s * s


def test_somebody_elses_potential_with_a_device_function_of_its_own():
    f = engine.Smooth(lambda s: 4 * s**3, bound=4.0, device=engine.OnDevice(cubic, (4.0,)))
    compare(block("symmetric"), LogSumExp(f))
    compare(block("mutual"), Expectation(Linear(2.0), f))


def test_what_the_kernels_do_not_know_takes_the_plain_path():
    pairs = block("symmetric")
    unknown = LogSumExp(engine.Smooth(lambda s: s / (0.1 + s * s)))
    assert jobs.plan(pairs, unknown, None) is None
    torch.testing.assert_close(reduce(pairs, unknown), tiled(pairs, (unknown,)))
    listed = engine.Listed(torch.tensor([3, 1]), torch.tensor([0, 1, 2]), (ROWS, ROWS))
    bias = torch.tensor(-1.0)
    for more in (
        LogSumExp(Linear(2.0), where=engine.Either(Periodic(ROWS), listed)),
        Total(Gaussian(1.0), engine.Only(listed)),
        Total(engine.Softplus(Linear(2.0), bias)),
    ):
        assert jobs.plan(pairs, more, None) is None
        torch.testing.assert_close(reduce(pairs, more), tiled(pairs, (more,)))
    wide = Pairs(torch.eye(300), None, torch.zeros(300, 1), Periodic(300), 1)
    torch.testing.assert_close(reduce(wide, LogSumExp(Linear(2.0))), tiled(wide, (LogSumExp(Linear(2.0)),)))


def test_a_temperature_changed_before_backward_is_refused():
    tau = T.Learnable(0.3)
    (value,) = reduce(block("symmetric"), LogSumExp(T.scaled(tau)))
    with torch.no_grad():
        tau.log_temperature.add_(0.3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


@triton.jit
def wrong(s, P):
    a = tl.load(P)
    return s * a, tl.zeros_like(s) + a * 1.01


def test_a_kernel_that_disagrees_is_not_used(monkeypatch):
    f = engine.Smooth(lambda s: 4 * s, bound=4.0, device=engine.OnDevice(wrong, (4.0,)))
    pairs = block("symmetric")
    with pytest.raises(RuntimeError, match="self-check found gradients"):
        reduce(pairs, LogSumExp(f))
    check.passes(jobs.plan(pairs, LogSumExp(Linear(4.0)), None), torch.device("cpu"))


def visited(rank, folder):
    """Kernels and the plain path on candidates that visit, in one of two processes."""
    world.join(rank, 2, Path(folder) / "meet")
    for make in (
        lambda: nn.NTXentLoss(T.Learnable(0.3)),
        nn.HardNegativeLoss,
        nn.CACRLoss,
        nn.SupConLoss,
        lambda: nn.InfoNCELoss(T.Cosine(0.1, 0.3)),
    ):
        results = []
        for choice in ("plain", "triton"):
            os.environ["ISOTHERM_KERNELS"] = choice
            loss, z = make(), [unit(9 + rank, seed).requires_grad_() for seed in (2 + rank, 4 + rank)]
            check.outcomes.clear()
            with world.exchange("ring"):
                value = loss(z[0], torch.arange(9 + rank) % 3) if loss.takes_labels else loss(*z)
            assert bool(check.outcomes) == (choice == "triton")
            value.backward()
            slopes = [v.grad for v in (*z, *loss.parameters()) if v.grad is not None]
            results.append([value.detach(), *slopes])
        for plain, ours in zip(*results, strict=True):
            torch.testing.assert_close(ours, plain, rtol=2e-5, atol=2e-6)
    world.leave()


def test_kernels_take_candidates_that_visit(tmp_path):
    processes.two(visited, str(tmp_path))
