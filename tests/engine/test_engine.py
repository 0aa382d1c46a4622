"""The engine against dense expressions: masks, sums, thresholds, parameters, every kind of block."""

import math

import pytest
import torch

from found import views
from isotherm import nn
from isotherm import temperature as T
from isotherm.engine import (
    Either,
    Expectation,
    Gaussian,
    Linear,
    Listed,
    LogSumExp,
    Nothing,
    Only,
    Periodic,
    Same,
    Smooth,
    Softplus,
    Total,
    Unlike,
    apply_rows,
    nearest,
    nearest_to_sets,
    reduce,
    tile_size,
)
from isotherm.pairing import banked, cross_view, in_batch, labelled, one_way, query_view, queued
from isotherm.types import Pairs

REDUCTIONS = {
    "lse": LogSumExp(Linear(5.0)),
    "steep lse": LogSumExp(Linear(2000.0)),
    "falling lse": LogSumExp(Linear(-3.0)),
    "any function": LogSumExp(Smooth(lambda s: s / (0.1 + s * s))),
    "expectation": Expectation(Linear(4.0), Linear()),
    "steep expectation": Expectation(Linear(2000.0), Gaussian(2.0)),
    "kernel": Expectation(Linear(4.0), Gaussian(2.0)),
    "constant weights": Expectation(Linear(4.0), Gaussian(2.0), detach_weights=True),
    "steep constant weights": Expectation(Linear(900.0), Linear(), detach_weights=True),
    "sum of kernels": Total(Gaussian(1.0)),
    "linear sum": Total(Linear(3.0)),
    "lse of a kernel": LogSumExp(Gaussian(1.0)),
    "two kernels": Expectation(Gaussian(1.0), Gaussian(2.0)),
    "two temperatures": Expectation(T.scaled(T.Cosine(0.1, 0.5)), T.scaled(T.Linear(0.2, 0.9))),
    "softplus": Total(Softplus(Linear(3.0), torch.tensor(-1.0))),
    "lse of softplus": LogSumExp(Softplus(Linear(3.0), torch.tensor(-1.0))),
}


def blocks(z):
    """One block of every kind, from the same embeddings."""
    index = torch.tensor([4, 0, 9, 2])
    return {
        "in_batch": in_batch([z[:6], z[6:]])[0],
        "cross_view": cross_view([z[:6], z[6:]])[0],
        "one way": cross_view([z[:6], z[6:]], symmetric=False)[0],
        "query_view": query_view([z[:6], z[6:]])[1],
        "queued": queued([z[:3], z[3:6]], z[6:])[0],
        "queued with queries": queued([z[:3], z[3:6]], z[6:], with_queries=True)[0],
        "one_way": one_way(z[:6], z[6:])[0],
        "further": one_way(z[:4], z[4:8], further=z[8:])[0],
        "banked": banked(z[:4], index, z[2:])[0],
        "banked among": banked(z[:4], index, z[2:], among=torch.tensor([1, 3, 5]))[0],
        "labelled": labelled(z, torch.arange(12) % 4)[0],
    }


KINDS = list(blocks(torch.eye(12, dtype=torch.float64)))


def dense(pairs, reduction, top_k=None):
    """The same reduction from the whole matrix."""
    candidates = pairs.queries if pairs.candidates is None else pairs.candidates
    s = pairs.queries @ candidates.T
    hidden = torch.zeros_like(s)
    pairs.hidden.hide(hidden, slice(0, len(s)), slice(0, s.shape[1]), 1.0)
    if pairs.mutual:
        s, hidden = torch.cat([s, s.T]), torch.cat([hidden, hidden.T])
    keep = hidden == 0
    if top_k is not None:
        kth = s.detach().masked_fill(~keep, -math.inf).topk(top_k, dim=1).values[:, -1:]
        keep = keep & (s.detach() >= kth)
    if isinstance(reduction, Total):
        return reduction.of(s).masked_fill(~keep, 0).sum(1)
    energy = reduction.energy(s).masked_fill(~keep, -math.inf)
    if isinstance(reduction, LogSumExp):
        return energy.logsumexp(1)
    weights = energy.softmax(1)
    return ((weights.detach() if reduction.detach_weights else weights) * reduction.of(s)).sum(1)


def assert_same(ours, theirs):
    """Values, and gradients on the scale of the largest: steep energies cancel large numbers."""
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-12, atol=1e-12)
    scale = theirs[1].abs().max().clamp_min(1)
    torch.testing.assert_close(ours[1] / scale, theirs[1] / scale, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("edge", [2, 5, 100])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_gradients_equal_the_dense_expression(kind, reduction, edge):
    reduction = REDUCTIONS[reduction]
    upstream = torch.randn(12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    results = []
    for way in (lambda p: reduce(p, reduction)[0], lambda p: dense(p, reduction)):
        z = torch.cat(views(2, n=6)).requires_grad_()
        with tile_size(edge):
            values = way(blocks(z)[kind])
        (values * upstream[: len(values)]).sum().backward()
        results.append((values.detach(), z.grad))
    assert_same(*results)


@pytest.mark.parametrize("edge", [2, 100])
@pytest.mark.parametrize("reduction", ["lse", "steep lse", "expectation", "linear sum"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "labelled"])
def test_nearest_negatives_equal_the_dense_expression(kind, reduction, edge):
    reduction = REDUCTIONS[reduction]
    results = []
    for way in (lambda p: reduce(p, reduction, top_k=2)[0], lambda p: dense(p, reduction, top_k=2)):
        z = torch.cat(views(2, n=6)).requires_grad_()
        with tile_size(edge):
            values = way(blocks(z)[kind])
        values.square().sum().backward()
        results.append((values.detach(), z.grad))
    assert_same(*results)


def test_several_reductions_share_a_pass():
    z = torch.cat(views(2, n=6)).requires_grad_()
    some = [REDUCTIONS[k] for k in ("lse", "kernel", "sum of kernels", "linear sum")]
    pairs = in_batch([z[:6], z[6:]])[0]
    together = reduce(pairs, *some)
    sum(v.sum() for v in together).backward()
    grad, z.grad = z.grad, None
    pairs = in_batch([z[:6], z[6:]])[0]
    alone = [reduce(pairs, r)[0] for r in some]
    sum(v.sum() for v in alone).backward()
    torch.testing.assert_close(together, tuple(alone))
    torch.testing.assert_close(grad, z.grad)


@pytest.mark.parametrize("edge", [2, 100])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("labelled", "banked among")])
def test_any_function_of_a_row_equals_the_dense_expression(kind, edge):
    weight = torch.tensor([0.7, 0.3], dtype=torch.float64, requires_grad=True)

    def two_nearest(positives, negatives):
        return (negatives.topk(2, dim=1).values * weight).sum(1) - positives.mean(1) ** 2

    z = torch.cat(views(2, n=6)).requires_grad_()
    pairs = blocks(z)[kind]
    with tile_size(edge):
        values = apply_rows(pairs, two_nearest, parameters=[weight])
    values.square().sum().backward()
    found = (z.grad, weight.grad)
    z.grad = weight.grad = None
    pairs = blocks(z)[kind]
    candidates = pairs.queries if pairs.candidates is None else pairs.candidates
    s = pairs.queries @ candidates.T
    hidden = torch.zeros_like(s)
    pairs.hidden.hide(hidden, slice(0, len(s)), slice(0, s.shape[1]), 1.0)
    s = s.masked_fill(hidden == 1, -math.inf)
    s = torch.cat([s, s.T]) if pairs.mutual else s
    expected = two_nearest(pairs.positives, s)
    expected.square().sum().backward()
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(found, (z.grad, weight.grad))


@pytest.mark.parametrize("period", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("edge", [1, 2, 3, 4, 12])
def test_periodic_mask_hides_congruent_entries_only(period, edge):
    n = m = 12
    seen = torch.zeros(n, m)
    for i in range(0, n, edge):
        for j in range(0, m, edge):
            tile = torch.zeros(min(edge, n - i), min(edge, m - j))
            Periodic(period).hide(tile, slice(i, i + len(tile)), slice(j, j + tile.shape[1]), 1.0)
            seen[i : i + len(tile), j : j + tile.shape[1]] = tile
    i = torch.arange(n)
    assert torch.equal(seen == 1, (i[:, None] - i) % period == 0)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_rows_by_their_numbers_hide_the_same(kind):
    pairs = blocks(torch.cat(views(2, n=6)))[kind]
    n, m = len(pairs.queries), len(pairs.queries if pairs.candidates is None else pairs.candidates)
    whole = torch.zeros(n, m)
    pairs.hidden.hide(whole, slice(0, n), slice(0, m), 1.0)
    rows = torch.tensor([2, 0, 1])
    some = torch.zeros(3, m)
    pairs.hidden.hide_rows(some, rows, 1.0)
    assert torch.equal(some, whole[rows])


LISTED = Listed(torch.tensor([4, 1, 5, 0, 3, 2]), torch.tensor([0, 2, 2, 6]), (6, 6))
"""Rows 0 and 3 list columns 4 and 1, rows 1 and 4 none, rows 2 and 5 the others."""


@pytest.mark.parametrize("edge", [1, 2, 4, 6])
def test_listed_entries_are_found_in_every_tile(edge):
    lists = {0: [1, 4], 1: [], 2: [0, 2, 3, 5]}
    for mask, inside in ((LISTED, True), (Only(LISTED), False)):
        for i in range(0, 6, edge):
            for j in range(0, 6, edge):
                tile = torch.zeros(min(edge, 6 - i), min(edge, 6 - j))
                mask.hide(tile, slice(i, i + tile.shape[0]), slice(j, j + tile.shape[1]), 1.0)
                for r, c in torch.cartesian_prod(*map(torch.arange, tile.shape)).tolist():
                    assert bool(tile[r, c]) == ((j + c in lists[(i + r) % 3]) == inside)


@pytest.mark.parametrize("mean", [False, True])
def test_those_nearest_to_a_set_are_the_best_of_its_scores(mean):
    sets, c = [v / v.norm(dim=1, keepdim=True) for v in views(3, n=6)], views(1, n=14, seed=2)[0]
    scores = torch.stack([z @ c.T for z in sets])
    scores = scores.mean(0) if mean else scores.amax(0)
    with tile_size(4):
        listed = nearest_to_sets(sets, c, Nothing(), rows=12, top_k=3, above=0.3, mean=mean)
    hidden = torch.zeros(12, 14)
    listed.hide(hidden, slice(0, 12), slice(0, 14), 1.0)
    for i in range(12):
        best = sorted(range(14), key=lambda j, i=i: -scores[i % 6, j])[:3]
        assert hidden[i].nonzero()[:, 0].tolist() == sorted(j for j in best if scores[i % 6, j] > 0.3)
    assert listed.counts.tolist() == hidden.sum(1).tolist()
    with tile_size(4):
        assert nearest(sets[0], c).tolist() == [max(range(14), key=lambda j, z=z: float(z @ c[j])) for z in sets[0]]


EITHER = Either(Same(torch.tensor([9, 1, 9, 9, 8, 9]), torch.tensor([1, 0, 0, 8, 0, 0])), LISTED)


@pytest.mark.parametrize("mask", [LISTED, Only(LISTED), EITHER, LISTED.transposed()])
def test_whole_rows_of_lists_hide_the_same(mask):
    whole = torch.zeros(6, 6)
    mask.hide(whole, slice(0, 6), slice(0, 6), 1.0)
    for rows in (torch.tensor([5, 0, 3]), torch.tensor([1]), torch.arange(6)):
        some = torch.zeros(len(rows), 6)
        mask.hide_rows(some, rows, 1.0)
        assert torch.equal(some, whole[rows])


@pytest.mark.parametrize("edge", [2, 100])
@pytest.mark.parametrize("mask", [LISTED, EITHER])
def test_nearest_negatives_outside_of_a_list_with_and_without_ties(mask, edge):
    results = []
    for way in (lambda p: reduce(p, REDUCTIONS["lse"], top_k=1)[0], lambda p: dense(p, REDUCTIONS["lse"], top_k=1)):
        z = (torch.cat(views(2, n=6)) * 4).round() / 4  # products of these are exact, so that copies tie
        z[10] = z[7]  # the only two candidates of rows 2 and 5
        z.requires_grad_()
        with tile_size(edge):
            values = way(Pairs(z[:6], z[6:], z.new_zeros(6, 1), mask, 1))
        values.square().sum().backward()
        results.append((values.detach(), z.grad))
    assert_same(*results)


@pytest.mark.parametrize(
    "mask",
    [
        Nothing(),
        Periodic(3),
        Same(torch.tensor([5, 1, 1, 0, 9, 2]), torch.tensor([1, 0, 5, 5, 7, 1])),
        Unlike(Same(torch.arange(6) % 2, torch.arange(6) % 2), Same(torch.arange(6), torch.arange(6))),
        LISTED,
        Only(LISTED),
        EITHER,
    ],
)
def test_hidden_total_is_the_sum_of_what_hide_hides(mask):
    q, c = views(2, n=6)
    for left, right, m in ((q, c, mask), (c, q, mask.transposed())):
        hidden = torch.zeros(6, 6, dtype=torch.float64)
        m.hide(hidden, slice(0, 6), slice(0, 6), 1.0)
        torch.testing.assert_close(m.hidden_total(left, right), (left @ right.T * hidden).sum(1))


@pytest.mark.parametrize("loss", [nn.NTXentLoss, nn.DCLLoss, nn.HardContrastiveLoss, nn.InfoNCELoss, nn.SigLIPLoss])
@pytest.mark.parametrize("queue", [False, True])
def test_learnable_temperature_gets_the_exact_gradient(loss, queue):
    z = views(2)
    more = {"negatives": views(1, n=9, seed=1)[0]} if queue else {}

    def value(log_tau):
        return loss(temperature=log_tau.exp())(*z, **more)

    at = torch.tensor(math.log(0.3), dtype=torch.float64, requires_grad=True)
    for edge in (2, 100):
        with tile_size(edge):
            assert torch.autograd.gradcheck(value, at)
    module = loss(temperature=T.Learnable(0.3).double())
    module(*z, **more).backward()
    (expected,) = torch.autograd.grad(value(at), at)
    torch.testing.assert_close(module.temperature.log_temperature.grad, expected)


def test_a_learnable_temperature_of_two_functions_gets_both_gradients():
    z = torch.cat(views(2, n=6))

    def value(tau, way):
        return way(in_batch([z[:6], z[6:]])[0], Expectation(T.scaled(tau), T.scaled(tau, 2.0)))

    tau = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    ours, theirs = (torch.autograd.grad(value(tau, way).sum(), tau) for way in (lambda p, r: reduce(p, r)[0], dense))
    torch.testing.assert_close(ours, theirs)


def test_temperature_module_is_trained_with_the_loss():
    loss = nn.NTXentLoss(temperature=T.Learnable(0.5))
    assert [name for name, _ in loss.named_parameters()] == ["temperature.log_temperature"]
    z = [v.float() for v in views(2, n=32)]
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)
    before = loss(*z).item()
    for _ in range(20):
        optimizer.zero_grad()
        loss(*z).backward()
        optimizer.step()
    assert loss(*z).item() < before


def test_a_learnable_temperature_outside_its_range_can_come_back():
    tau = T.Learnable(0.02, lowest=0.01)
    with torch.no_grad():
        tau.log_temperature.fill_(math.log(0.001))
    assert tau.value().item() == pytest.approx(0.01)
    tau.value().backward()
    assert tau.log_temperature.grad.item() > 0


def test_queue_gets_a_gradient_only_if_it_wants_one():
    z = [v.requires_grad_() for v in views(2)]
    for name in ("NTXentLoss", "CACRLoss", "HardSimpleLoss", "SimpleContrastiveLoss"):
        queue = views(1, n=9, seed=1)[0].requires_grad_()
        assert torch.autograd.gradcheck(lambda q, name=name: getattr(nn, name)()(*z, negatives=q), queue)
        nn.NTXentLoss()(*z, negatives=queue.detach()).backward()
        assert queue.grad is None


@pytest.mark.parametrize("tau", [0.001, 0.015, 0.019, 0.021, 0.2])
def test_float32_is_accurate_on_both_sides_of_the_exponent_limit(tau):
    z = views(2, n=40, d=8)
    exact = [v.clone().requires_grad_() for v in z]
    single = [v.float().requires_grad_() for v in z]
    value = nn.NTXentLoss(tau)(*exact)
    value.backward()
    other = nn.NTXentLoss(tau)(*single)
    other.backward()
    assert other.item() == pytest.approx(value.item(), rel=2e-4 if tau < 0.01 else 2e-5)
    worst = (single[0].grad - exact[0].grad).abs().max() / exact[0].grad.abs().max()
    assert worst < (5e-3 if tau < 0.01 else 2e-4)  # similarities carry 1e-7, times 1/τ


def test_ties_with_the_last_of_the_nearest_all_count():
    z = torch.tensor([[1.0, 0], [0, 1], [0, 1], [0, 1]], dtype=torch.float64)
    value = nn.HardSimpleLoss(top_k=1, weight=1.0, reduction="none")(z[:1], z[:1], negatives=z[1:])
    assert value.item() == -1.0  # three tied negatives of similarity 0
    pairs = Pairs(z[:1], z[1:], z.new_zeros(1, 1), Nothing(), 3)
    (count,) = reduce(pairs, Total(Gaussian(0.0)), top_k=1)
    assert count.item() == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the compiler itself
@pytest.mark.parametrize("loss", [nn.NTXentLoss(), nn.CACRLoss(), nn.HardContrastiveLoss(alpha=0.5)], ids=repr)
def test_the_loss_runs_inside_a_compiled_model(loss):
    torch.manual_seed(0)
    encoder = torch.nn.Linear(8, 4)
    x = torch.randn(2, 16, 8)

    def step(x):
        return loss(encoder(x[0]), encoder(x[1]))

    expected = step(x)
    expected.backward()
    gradient, encoder.weight.grad = encoder.weight.grad, None
    value = torch.compile(step)(x)
    value.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(encoder.weight.grad, gradient)


@pytest.mark.parametrize(
    "temperature",
    [
        lambda s: 0.05 + 0.1 * torch.arccos(s),
        lambda s: 0.05 + 0.1 * torch.sqrt(1 - s * s),
        lambda s: s.abs_().mul_(0.1).add_(0.05),  # works in place
        lambda s: 0.2,
    ],
)
def test_any_temperature_function_on_the_sphere_is_safe(temperature):
    """Rounding takes self-similarities beyond 1, where such functions end; and a duplicate lies exactly at 1."""
    z = [v.float() for v in views(2, n=40, d=16)]
    z[0][1] = z[0][0]
    z = [v.requires_grad_() for v in z]
    value = nn.NTXentLoss(temperature=temperature)(*z)
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(v.grad).all() for v in z)
    exact = nn.NTXentLoss(temperature=temperature)(*(v.detach().double() for v in z))
    assert value.item() == pytest.approx(exact.item(), rel=2e-3)  # a root at s = 1 magnifies rounding


def test_singular_slopes_at_hidden_entries_do_not_leak():
    z = [v.float().requires_grad_() for v in views(2, n=40, d=16)]
    (pairs,) = in_batch(z)
    (value,) = reduce(pairs, LogSumExp(Smooth(lambda s: -5 * torch.acos(s.clamp(-1, 1)))))
    value.sum().backward()
    assert torch.isfinite(z[0].grad).all()


@pytest.mark.parametrize("loss", [nn.HardSimpleLoss(top_k=1, weight=1.0), nn.TripletLimitLoss()], ids=repr)
def test_the_nearest_negative_is_found_again_with_other_threads(loss):
    generator = torch.Generator().manual_seed(1)
    z = [torch.randn(513, 128, generator=generator).requires_grad_() for _ in range(2)]

    def gradient(forward, backward):
        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(forward)
            value = loss(*z)
            torch.set_num_threads(backward)
            return torch.autograd.grad(value, z)[0]
        finally:
            torch.set_num_threads(threads)

    torch.testing.assert_close(gradient(1, 2), gradient(2, 2), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("apart", [0.0, 1e-8, 1e-7, 1e-6, 1e-5])
@pytest.mark.parametrize("edge", [7, 64])
@pytest.mark.parametrize("queue", [False, True])
def test_both_passes_count_the_same_nearest_however_close_the_next_is(apart, edge, queue):
    """Σ of the nearest similarities s_ij is q_i · dL/dq_i, if q_i asks alone and the gradient is of those summed."""
    generator = torch.Generator().manual_seed(0)
    items = torch.randn(60, 37, generator=generator).repeat(4, 1)
    items += apart * torch.randn(items.shape, generator=generator)
    z = torch.nn.functional.normalize(items, dim=1).requires_grad_()
    hidden = Nothing() if queue else Periodic(len(z))
    pairs = Pairs(z, z.detach() if queue else None, z.new_zeros(len(z), 1), hidden, len(z))
    with tile_size(edge):
        (sums,) = reduce(pairs, Total(Linear()), top_k=3)
    sums.sum().backward()
    if queue:
        torch.testing.assert_close((z * z.grad).sum(1), sums, rtol=1e-5, atol=1e-5)
    else:
        torch.testing.assert_close((z * z.grad).sum() / 2, sums.sum(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-20, 1e-8, 1e8, 1e25])
@pytest.mark.parametrize("loss", [nn.NTXentLoss(0.021), nn.CACRLoss(), nn.DCLLoss(0.021)], ids=repr)
def test_the_size_of_the_upstream_gradient_does_not_matter(loss, factor):
    close = torch.ones(8, 16) + 1e-3 * torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    for batch in ([close, close.flip(0)], [v.float() for v in views(2, n=8, d=16)]):
        z = [v.clone().requires_grad_() for v in batch]
        plain = torch.autograd.grad(loss(*z), z)
        scaled = torch.autograd.grad(loss(*z) * factor, z)
        for a, b in zip(plain, scaled, strict=True):
            assert (b / factor - a).norm() < 1e-3 * a.norm()  # near-identical embeddings cancel most of it


def test_macl_keeps_value_and_gradient_as_the_positive_wins():
    torch.manual_seed(0)
    common = torch.randn(64, 128)
    z = [common + 0.05 * torch.randn(64, 128) for _ in range(2)]
    results = []
    for dtype in (torch.float32, torch.float64):
        a = [v.detach().to(dtype, copy=True).requires_grad_() for v in z]
        value = nn.MACLLoss(temperature=0.005)(*a)
        value.backward()
        results.append((value.item(), a[0].grad.double()))
    assert results[0][0] == pytest.approx(1.0)
    assert (results[0][1] - results[1][1]).norm() < 1e-3 * results[1][1].norm()


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_alignment_sees_positives_that_nearly_coincide(alpha):
    torch.manual_seed(0)
    a = torch.randn(64, 32, dtype=torch.float64)
    b = a + 1e-4 * torch.randn(64, 32, dtype=torch.float64)
    exact = nn.AlignUniformLoss(alpha=alpha, weight=0.0)(a, b).item()
    assert nn.AlignUniformLoss(alpha=alpha, weight=0.0)(a.float(), b.float()).item() == pytest.approx(exact, rel=1e-2)
    assert nn.AlignUniformLoss(alpha=alpha)(torch.ones(4, 3), torch.ones(4, 3)).item() == pytest.approx(0, abs=1e-6)


def test_a_number_can_take_the_place_of_a_learnable_temperature():
    z = views(2)
    loss = nn.NTXentLoss(temperature=T.Learnable(0.3))
    loss.temperature = T.CosineSchedule(0.1, 1.0, 4).at(1)
    assert not list(loss.parameters())
    torch.testing.assert_close(loss(*z), nn.NTXentLoss(0.55)(*z))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "labelled"])
@pytest.mark.parametrize(
    "loss", [nn.NTXentLoss(), nn.AlignUniformLoss(), nn.CACRLoss(cost="rbf"), nn.DCLWLoss()], ids=repr
)
def test_a_loss_takes_blocks_of_any_pairing(loss, kind):
    z = torch.cat(views(2, n=6)).requires_grad_()
    loss.of([blocks(z)[kind]]).backward()
    assert torch.isfinite(z.grad).all()
