"""Each measure against brute-force numpy, and in the direction the papers say on constructed embeddings."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise_distances

from found import views
from isotherm import measures as M
from isotherm.engine import tile_size
from isotherm.measures import sweep

Z0, Z1 = views(2, n=23, d=6)
LABELS = torch.arange(23) % 4


def unit(z):
    z = z.numpy()
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def distances(z):
    return pairwise_distances(unit(z)) ** 2


def test_uniformity_is_the_log_mean_kernel_over_distinct_pairs():
    d = distances(Z0)[~np.eye(23, dtype=bool)]
    for t in (0.5, 2.0, 5.0):
        assert M.uniformity(Z0, t) == pytest.approx(math.log(np.mean(np.exp(-t * d))), rel=1e-10)
    with tile_size(4):
        assert M.uniformity(Z0) == pytest.approx(math.log(np.mean(np.exp(-2 * d))), rel=1e-10)


def test_tolerance_is_the_mean_over_same_class_pairs():
    s, same = unit(Z0) @ unit(Z0).T, LABELS[:, None].numpy() == LABELS.numpy()
    assert M.tolerance(Z0, LABELS) == pytest.approx(s[same & ~np.eye(23, dtype=bool)].mean(), rel=1e-10)
    assert M.tolerance(Z0, LABELS * 7 - 3) == pytest.approx(M.tolerance(Z0, LABELS))


def test_alignment_is_the_mean_squared_distance_of_views():
    assert M.alignment(Z0, Z1) == pytest.approx(np.mean(((unit(Z0) - unit(Z1)) ** 2).sum(1)), rel=1e-10)


def test_interclass_uniformity_is_that_of_the_centres():
    centres = np.stack([unit(Z0)[LABELS.numpy() == c].mean(0) for c in range(4)])
    d = (pairwise_distances(centres) ** 2)[~np.eye(4, dtype=bool)]
    assert M.interclass_uniformity(Z0, LABELS) == pytest.approx(math.log(np.mean(np.exp(-2 * d))), rel=1e-10)


def test_conditional_entropy_is_that_of_the_repulsion_weights():
    d = distances(Z0)
    values = []
    for i in range(23):
        e = np.exp(-3.0 * np.delete(d[i], i))
        p = e / e.sum()
        values.append(-(p * np.log(p)).sum())
    assert M.conditional_entropy(Z0, t_neg=3.0) == pytest.approx(np.mean(values), rel=1e-10)


def test_rankme_is_the_entropy_of_the_raw_singular_values():
    sigma = np.linalg.svd(3 * Z0.numpy() + 1, compute_uv=False)
    total = 0.0
    for value in sigma:
        p = value / sigma.sum() + 1e-7
        total -= p * math.log(p)
    assert M.rankme(3 * Z0 + 1) == pytest.approx(math.exp(total), rel=1e-10)
    assert M.rankme(7 * Z0) == pytest.approx(M.rankme(Z0), rel=1e-10)
    assert M.rankme(torch.eye(5)) == pytest.approx(5, rel=1e-4)
    assert M.rankme(torch.ones(9, 4)) == pytest.approx(1, rel=1e-4)
    for wrong in (torch.zeros(3, 2), torch.full((3, 2), math.nan), torch.ones(3), torch.ones(3, 2).long()):
        with pytest.raises(ValueError, match="rankme"):
            M.rankme(wrong)


def test_local_separation_sorts_the_other_items():
    s = unit(Z0) @ unit(Z1).T
    positive, nearest = M.local_separation(Z0, Z1, k=5)
    assert positive == pytest.approx(np.mean(np.diag(s)), rel=1e-10)
    others = np.sort(np.stack([np.delete(s[i], i) for i in range(23)]), axis=1)[:, ::-1][:, :5]
    np.testing.assert_allclose(nearest.numpy(), others.mean(0), rtol=1e-10)


def test_local_separation_of_many_items_is_that_of_a_sort():
    z0, z1 = views(2, n=1003, d=6)
    others = np.where(np.eye(1003, dtype=bool), -9, unit(z0) @ unit(z1).T)
    wanted = np.sort(others, axis=1)[:, ::-1]
    for k in (1, 10, 15, 1002):
        np.testing.assert_allclose(M.local_separation(z0, z1, k)[1].numpy(), wanted[:, :k].mean(0), rtol=1e-10)


def test_effective_rank_is_the_entropy_of_the_spectrum():
    spectrum = np.linalg.eigvalsh(np.cov(unit(Z0).T, bias=True))
    p = spectrum / spectrum.sum()
    assert M.effective_rank(Z0) == pytest.approx(math.exp(-(p * np.log(p)).sum()), rel=1e-8)
    axes = torch.eye(8, dtype=torch.float64)
    assert M.effective_rank(torch.cat([axes, -axes])) == pytest.approx(8, rel=1e-10)


def test_spectrum_is_that_of_the_covariance():
    wanted = np.linalg.eigvalsh(np.cov(unit(Z0).T, bias=True))[::-1]
    np.testing.assert_allclose(M.spectrum(Z0).numpy(), wanted, atol=1e-12)
    few = Z0[:4]
    wanted = np.linalg.eigvalsh(np.cov(unit(few).T, bias=True))[::-1]
    np.testing.assert_allclose(M.spectrum(few).numpy(), wanted, atol=1e-12)


def test_projections_of_even_points_are_those_of_the_prior():
    sphere = torch.randn(20_000, 32, generator=torch.Generator().manual_seed(0))
    seen = M.projections(sphere, count=8)
    assert seen.shape == (8, 20_000)
    np.testing.assert_allclose(seen.var(1).numpy(), 1 / 32, rtol=0.05)
    assert torch.equal(seen, M.projections(sphere, count=8))
    assert not torch.equal(seen, M.projections(sphere, count=8, seed=1))
    assert M.prior_distance(sphere) < 0.05
    point = torch.ones(500, 32)
    assert M.prior_distance(point, count=2000) == pytest.approx(math.sqrt(2), rel=0.05)  # 2,000 random directions
    assert M.prior_distance(sphere[:, :2]) < M.prior_distance(torch.eye(2)[torch.arange(500) % 2])


@pytest.mark.parametrize(("n", "block"), [(23, 1024), (23, 5), (24, 8), (700, 512)])
def test_one_pass_gives_what_loops_over_pairs_give(monkeypatch, n, block):
    monkeypatch.setattr(sweep, "BLOCK", block)  # so that a small case has many tiles
    z, labels = views(1, n=n, d=6)[0], torch.from_numpy(np.random.default_rng(0).integers(0, 5, n))
    labels[3] = 99  # one of its kind
    found = M.pairwise(z, labels)
    s, same = unit(z) @ unit(z).T, (labels[:, None] == labels).numpy()
    apart = ~np.eye(n, dtype=bool)
    upper = np.triu(apart)
    edges = np.linspace(-1, 1, M.BINS + 1)
    np.testing.assert_array_equal(found.histogram.numpy(), np.histogram(s[upper], edges)[0])
    np.testing.assert_array_equal(found.same_class.numpy(), np.histogram(s[upper & same], edges)[0])
    np.testing.assert_allclose(found.nearest.numpy(), np.where(apart, s, -9).max(1))
    lonely = [3, *[i for i in range(n) if same[i].sum() == 1]]
    assert torch.isinf(found.nearest_same[lonely]).all()
    several = np.setdiff1d(np.arange(n), lonely)
    np.testing.assert_allclose(found.nearest_same.numpy()[several], np.where(apart & same, s, -9).max(1)[several])
    np.testing.assert_allclose(found.nearest_other.numpy(), np.where(same, -9, s).max(1))
    assert found.uniformity == pytest.approx(M.uniformity(z), rel=1e-10)
    assert found.conditional_entropy == pytest.approx(M.conditional_entropy(z), rel=1e-10)
    assert found.mean_similarity == pytest.approx(s[apart].mean(), rel=1e-10)
    plain = M.pairwise(z)
    assert torch.equal(plain.histogram, found.histogram)
    np.testing.assert_allclose(plain.nearest.numpy(), found.nearest.numpy())
    assert plain.same_class is None


def test_one_pass_in_float32_is_that_of_the_engine():
    z = torch.randn(3000, 16, generator=torch.Generator().manual_seed(1))
    found = M.pairwise(z)
    assert int(found.histogram.sum()) == 3000 * 2999 // 2
    assert found.uniformity == pytest.approx(M.uniformity(z), rel=1e-5)  # float32
    assert found.conditional_entropy == pytest.approx(M.conditional_entropy(z), rel=1e-5)


def test_hardness_is_a_share_that_low_temperature_gives_to_the_nearest():
    s = torch.tensor([0.9, 0.5, -0.5], dtype=torch.float64)
    r = M.hardness(s, 0.1)
    np.testing.assert_allclose(r.numpy(), np.exp(s.numpy() / 0.1) / np.exp(s.numpy() / 0.1).sum())
    assert M.hardness(s, 0.01)[0] > 0.999
    assert M.hardness(s, 100.0)[0] < 0.34


def test_measures_move_as_the_papers_say():
    generator = torch.Generator().manual_seed(0)
    n, d, classes = 600, 16, 6
    labels = torch.arange(n) % classes
    sphere = torch.randn(n, d, generator=generator)
    centres = torch.linalg.qr(torch.randn(d, d, generator=generator)).Q[:classes]
    clusters = centres[labels] + 0.02 * torch.randn(n, d, generator=generator)
    one = torch.ones(n, d) + 0.1 * torch.randn(n, d, generator=generator)
    point = torch.ones(n, d)
    assert M.uniformity(sphere) < M.uniformity(clusters) < M.uniformity(one) < M.uniformity(point) + 1e-6
    assert M.uniformity(point) == pytest.approx(0, abs=1e-5)
    assert M.tolerance(sphere, labels) < 0.05
    assert 0.95 < M.tolerance(clusters, labels) < M.tolerance(point, labels) + 1e-6
    assert M.interclass_uniformity(clusters, labels) < M.interclass_uniformity(one, labels)
    assert M.effective_rank(point) == 0
    assert M.effective_rank(clusters) < classes < 0.9 * d < M.effective_rank(sphere)
    assert M.conditional_entropy(point) == pytest.approx(math.log(n - 1), rel=1e-5)
    assert M.conditional_entropy(clusters) < M.conditional_entropy(sphere)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: M.uniformity(Z0[:1]), "at least 2 embeddings"),
        (lambda: M.uniformity(Z0[0]), r"shape \(N, D\)"),
        (lambda: M.uniformity(Z0, t=0), "t must be a positive number"),
        (lambda: M.tolerance(Z0, LABELS[:5]), r"shape \(23,\); got \(5,\)"),
        (lambda: M.tolerance(Z0, torch.arange(23)), "one class with 2 items"),
        (lambda: M.interclass_uniformity(Z0, torch.zeros(23)), "at least 2 classes"),
        (lambda: M.alignment(Z0, Z1[:5]), "one shape"),
        (lambda: M.local_separation(Z0, Z1, k=23), "between 1 and the 22 other items"),
        (lambda: M.uniformity(torch.full((3, 2), float("nan"))), "z holds NaN"),
        (lambda: M.conditional_entropy(Z0, t_neg=math.inf), "t_neg must be a finite number"),
        (lambda: M.local_separation(Z0, Z1, k=2.5), "got 2.5"),
        (lambda: M.pairwise(Z0[:1]), "at least 2 embeddings"),
        (lambda: M.pairwise(Z0.float(), t=60), "pairwise takes t up to 22, got 60"),
        (lambda: M.pairwise(Z0, LABELS[:5]), r"shape \(23,\); got \(5,\)"),
        (lambda: M.projections(Z0, count=0), "at least 1 direction"),
    ],
)
def test_bad_input_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_what_is_no_array_is_named():
    with pytest.raises(TypeError, match=r"z must be a tensor of shape \(N, D\), got int"):
        M.uniformity(3)
