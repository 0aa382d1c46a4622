"""SwAV and DINO against their papers written as loops; what they remember; what they refuse."""

import math

import numpy as np
import pytest
import torch

from isotherm.methods.prototypes import sinkhorn, swapped_prediction
from small_methods import WIDTH, batch, built, taught


def directions(z):
    return [row / math.sqrt(sum(v * v for v in row)) for row in np.asarray(z.detach(), dtype=np.float64)]


def scores_of(z, prototypes):
    """(n, K): products of unit embeddings with the prototypes, one by one."""
    rows = [[sum(a * b for a, b in zip(u, c, strict=True)) for c in prototypes] for u in directions(z)]
    return np.array(rows)


def codes_of(scores, epsilon, iterations):
    """Sinkhorn-Knopp as SwAV's appendix has it: K × B, rows to 1/K, then columns to 1/B."""
    q = np.exp(scores.T / epsilon)
    q /= q.sum()
    count, items = q.shape
    for _ in range(iterations):
        for k in range(count):
            q[k] *= 1 / count / q[k].sum()
        for b in range(items):
            q[:, b] *= 1 / items / q[:, b].sum()
    return (q * items).T


def softmax(row, temperature):
    weights = [math.exp((v - max(row)) / temperature) for v in row]
    return [w / sum(weights) for w in weights]


def predicted(targets, scores, temperature):
    """The mean over targets t and other views v of the cross-entropy of v's softmax with target t."""
    terms = []
    for t, q in enumerate(targets):
        for v, s in enumerate(scores):
            if v != t:
                for target, row in zip(q, s, strict=True):
                    p = softmax(row, temperature)
                    terms.append(-sum(a * math.log(b) for a, b in zip(target, p, strict=True)))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_sinkhorn_is_the_papers_loop(iterations):
    scores = torch.rand(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    codes = sinkhorn(scores, 0.05, iterations)
    np.testing.assert_allclose(codes, codes_of(scores.numpy(), 0.05, iterations), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(codes.sum(1), torch.ones(7, dtype=torch.float64))


def test_sinkhorn_gives_all_prototypes_the_same_share_in_the_end_and_takes_any_epsilon():
    scores = torch.rand(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sinkhorn(scores, 0.2, 200).sum(0), torch.full((4,), 2.0, dtype=torch.float64))
    sharp = sinkhorn(scores.float(), 1e-4)  # e^{1/ε} is far beyond float32
    assert torch.isfinite(sharp).all()
    assert torch.equal(sinkhorn(torch.ones(3, 4)), torch.full((3, 4), 0.25))


@pytest.mark.parametrize(("targets", "views"), [(2, 2), (2, 5), (3, 4)])
def test_swapped_prediction_is_the_papers_loop(targets, views):
    torch.manual_seed(0)
    q = [torch.softmax(torch.randn(5, 4, dtype=torch.float64), 1) for _ in range(targets)]
    s = [torch.randn(5, 4, dtype=torch.float64) for _ in range(views)]
    paper = predicted([v.tolist() for v in q], [v.tolist() for v in s], 0.1)
    assert swapped_prediction(q, s, 0.1).item() == pytest.approx(paper, rel=1e-10)
    flat = [torch.ones_like(v) for v in s]
    assert swapped_prediction(q, flat, 0.1).item() == pytest.approx(math.log(4), rel=1e-12)


def swav_by_hand(m, b, queue=None):
    z = [m.network(v) for v in b.views]
    prototypes = m.prototypes.detach().numpy()
    scores = [scores_of(v, prototypes) for v in z]
    codes = []
    for t in range(len(z) - m.small_crops):
        past = np.zeros((0, len(prototypes))) if queue is None else queue[t] @ prototypes.T
        codes.append(codes_of(np.concatenate([past, scores[t]]), 0.05, 3)[len(past) :])
    return predicted(codes, scores, 0.1)


@pytest.mark.parametrize("small", [0, 3])
def test_swav_is_algorithm_1(small):
    m, b = built("swav", small=small, prototypes=4), batch(n=6, small=small)
    assert m.compare(b).item() == pytest.approx(swav_by_hand(m, b), rel=1e-6)
    m.at(20, 100, 10)  # the prototypes move now; the value is the same
    torch.testing.assert_close(m.prototypes.detach().norm(dim=1), torch.ones(4, dtype=torch.float64), atol=1e-6, rtol=0)
    assert m.compare(b).item() == pytest.approx(swav_by_hand(m, b), rel=1e-10)


def test_codes_are_constants_to_the_gradient():
    m, b = built("swav", prototypes=4, freeze=0.0), batch(n=6)
    m.compare(b).backward()
    ours = [p.grad.clone() for p in m.parameters()]
    m.zero_grad()
    z = [torch.nn.functional.normalize(m.network(v), dim=1) @ m.prototypes.T for v in b.views]
    q = [torch.tensor(codes_of(s.detach().numpy(), 0.05, 3)) for s in z]
    paper = -((q[0] * (z[1] / 0.1).log_softmax(1)).sum(1) + (q[1] * (z[0] / 0.1).log_softmax(1)).sum(1)).mean() / 2
    paper.backward()
    torch.testing.assert_close(ours, [p.grad for p in m.parameters()], rtol=1e-9, atol=1e-12)


def test_prototypes_stand_still_at_first_and_have_length_one_after_every_step():
    m, b = built("swav", prototypes=4, freeze=1.5), batch(n=6)
    for step, learns in ((0, False), (14, False), (15, True)):
        m.zero_grad()
        m.at(step, 100, 10)
        m.compare(b).backward()
        assert (m.prototypes.grad is not None) == learns
        assert all(p.grad is not None for p in m.network.parameters())
    with torch.no_grad():
        m.prototypes.mul_(3)
    m.after_step()
    torch.testing.assert_close(m.prototypes.detach().norm(dim=1), torch.ones(4, dtype=torch.float64))


def test_the_queue_fills_from_its_start_on_and_is_used_when_it_is_full():
    m = built("swav", small=1, prototypes=4, queue=7, queue_start=1.0)
    told = [[], []]
    for step in range(6):
        m.at(step, 100, 2)
        b = batch(n=5, small=1, seed=step)
        full = len(told[0]) >= 7
        queue = np.array([view[-7:] for view in told]) if full else None
        assert m.compare(b).item() == pytest.approx(swav_by_hand(m, b, queue), rel=1e-6)
        m.after_step()
        if step >= 2:
            for t in range(2):
                told[t] += directions(m.network(b.views[t]))
    assert full
    other = built("swav", small=1, prototypes=4, queue=7, queue_start=1.0)
    other.load_state_dict(m.state_dict())
    assert torch.equal(other.compare(b), m.compare(b))


def dino_by_hand(m, b, center, tau):
    last, slow_last = (np.array(directions(layer.directions)) for layer in (m.last, m.slow_last.network))
    if m.last.gain is not None:
        last, slow_last = last * m.last.gain.detach().numpy(), slow_last * m.slow_last.network.gain.numpy()
    scores = [scores_of(m.network(v), last) for v in b.views]
    large = b.views[: len(b.views) - m.small_crops]
    teacher = [scores_of(m.slow.network(v), slow_last) for v in large]
    said = [[softmax([a - c for a, c in zip(row, center, strict=True)], tau) for row in view] for view in teacher]
    return predicted(said, scores, 0.1), np.concatenate(teacher).mean(0)


@pytest.mark.parametrize(("small", "norm"), [(0, True), (3, False)])
def test_dino_is_algorithm_1(small, norm):
    m = taught(built("dino", small=small, prototypes=5, norm_last_layer=norm, freeze=0.0))
    if not norm:
        with torch.no_grad():
            m.last.gain.mul_(torch.linspace(0.5, 2, 5, dtype=torch.float64)[:, None])
            m.slow_last.network.gain.mul_(1.3)
    center = np.zeros(5)
    for step, tau in ((0, 0.04), (15, 0.055), (30, 0.07), (99, 0.07)):
        m.at(step, 100)
        b = batch(n=6, small=small, seed=step)
        value, mean = dino_by_hand(m, b, center, tau)
        assert m.compare(b).item() == pytest.approx(value, rel=1e-10)
        m.after_step()
        center = 0.9 * center + 0.1 * mean
        np.testing.assert_allclose(m.center, center, rtol=1e-10)


def test_dinos_teacher_follows_with_its_last_layer_and_gets_no_gradient():
    m, b = built("dino", prototypes=5, momentum=0.9, momentum_end=0.9), batch(n=6)
    m.compare(b).backward()
    slow = [*m.slow.parameters(), *m.slow_last.parameters()]
    assert all(p.grad is None for p in slow)
    assert m.last.directions.grad is None  # frozen for an epoch
    before, fast = [p.clone() for p in slow], [*m.network.parameters(), *m.last.parameters()]
    with torch.no_grad():
        for p in fast:
            p.add_(1.0)
    m.after_step()
    for old, now, p in zip(before, slow, fast, strict=True):
        torch.testing.assert_close(now, 0.9 * old + 0.1 * p)
    m.at(1, 10)
    m.compare(b).backward()
    assert m.last.directions.grad is not None


@pytest.mark.parametrize("name", ["swav", "dino"])
def test_neither_the_order_of_the_batch_nor_the_swap_of_views_matters(name):
    b, order = batch(n=6, small=2), torch.randperm(6, generator=torch.Generator().manual_seed(0))
    values = [
        built(name, small=2, prototypes=5).compare(b._replace(views=views))
        for views in (b.views, [v[order] for v in b.views], [b.views[i] for i in (1, 0, 3, 2)])
    ]
    torch.testing.assert_close(values[1], values[0], rtol=1e-10, atol=0)
    torch.testing.assert_close(values[2], values[0], rtol=1e-10, atol=0)


def test_dinos_gradient_is_that_of_finite_differences():
    m, b = built("dino", small=1, prototypes=5, freeze=0.0), batch(n=4, small=1)
    z, targets = [e.detach().requires_grad_() for e in m.embed(b)], m.targets(b)
    assert torch.autograd.gradcheck(lambda *views: m.objective(views, targets, b), z)


REFUSED = [
    ("swav", {"prototypes": 21}, "SwAV cannot place 20 items among 21 prototypes.*--method.prototypes 2"),
    ("dino", {"prototypes": 65536}, "DINO cannot place 20 items among 65,536 prototypes"),
    ("swav", {"prototypes": 1}, "prototypes must be 2 or more, got 1"),
    ("swav", {"epsilon": 0.0}, "epsilon must be a positive number"),
    ("swav", {"queue": -1}, "queue must be 0 or more"),
    ("swav", {"iterations": 0}, "iterations must be 1 or more"),
    ("dino", {"teacher_temperature": 0}, "teacher_temperature must be a positive number"),
    ("dino", {"center_momentum": 1.0}, r"center_momentum lies in \[0, 1\), got 1.0"),
    ("dino", {"momentum": 1.1}, "momentum lies between 0 and 1"),
]


@pytest.mark.parametrize(("name", "settings", "why"), REFUSED, ids=[f"{n}-{next(iter(s))}" for n, s, _ in REFUSED])
def test_settings_that_make_no_sense_are_refused_with_a_reason(name, settings, why):
    with pytest.raises(ValueError, match=why):
        built(name, **settings)


def test_prototypes_are_the_papers_unless_the_items_are_few():
    assert built("swav", items=40_000).prototypes.shape == (3000, WIDTH)
    assert built("dino", items=40_000).center.shape == (4000,)
    assert built("swav", items=1437).prototypes.shape == (143, WIDTH)
    with pytest.raises(ValueError, match="'swav' needs 2 or more views of each item beside its small crops, got 1"):
        built("swav", small=4).check_views(1)
