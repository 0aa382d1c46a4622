"""LiDAR and α-ReQ against their papers' formulas as loops; arrays of any kind."""

import math

import numpy as np
import pytest
import torch

from isotherm import measures
from isotherm.measures.catalogue import in_groups
from isotherm.measures.measure import take
from isotherm.measures.subject import Subject


def random_views(n=30, d=6, count=3, seed=0):
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n, d)) * np.linspace(3, 0.1, d)
    return [items + 0.4 * rng.standard_normal((n, d)) for _ in range(count)]


def lidar_of(views, delta=1e-4):
    """Thilak et al. 2023, §4: item by item, with the symmetric square root."""
    q, (n, d) = len(views), views[0].shape
    means = [sum(v[i] for v in views) / q for i in range(n)]
    middle = sum(means) / n
    between, within = np.zeros((d, d)), delta * np.eye(d)
    for i in range(n):
        between += np.outer(means[i] - middle, means[i] - middle) / n
        for v in views:
            within += np.outer(v[i] - means[i], v[i] - means[i]) / (n * q)
    values, vectors = np.linalg.eigh(within)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    spectrum = np.abs(np.linalg.eigvalsh(root @ between @ root))
    parts = [x / spectrum.sum() + 1e-7 for x in spectrum]
    return math.exp(-sum(p * math.log(p) for p in parts))


def alpha_of(z, first, last):
    """Agrawal et al. 2022: the eigenvalues of the covariance, and the slope of their logarithms, weighted by 1/k."""
    centred = z - z.mean(0)
    spectrum = sorted(np.linalg.svd(centred, compute_uv=False) ** 2 / len(z), reverse=True)
    ranks = range(first, min(last, len(spectrum)) + 1)
    rows = np.array([[-math.log(k), 1.0] for k in ranks])
    weights = np.diag([1 / k for k in ranks])
    y = np.array([math.log(spectrum[k - 1]) for k in ranks])
    return np.linalg.solve(rows.T @ weights @ rows, rows.T @ weights @ y)[0]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("shape", [(30, 6), (5, 8)], ids=["many items", "few items"])
def test_lidar_is_the_rank_of_a_discriminant_analysis(count, shape):
    views = random_views(*shape, count=count)
    assert measures.lidar(*views) == pytest.approx(lidar_of(views), rel=1e-6)
    assert measures.lidar(*views, delta=0.1) == pytest.approx(lidar_of(views, 0.1), rel=1e-6)


def test_lidar_counts_the_directions_that_tell_items_apart():
    rng = np.random.default_rng(1)
    items = np.zeros((400, 6))
    items[:, :2] = rng.standard_normal((400, 2))

    def noise():
        return np.concatenate([0.1 * rng.standard_normal((400, 2)), 10 * rng.standard_normal((400, 4))], 1)

    many = [items + noise() for _ in range(50)]
    assert measures.lidar(*many) == pytest.approx(2, abs=0.2)
    assert measures.rankme(many[0]) > 4  # which takes the noise of views for directions
    with pytest.raises(ValueError, match="2 views or more"):
        measures.lidar(items)


@pytest.mark.parametrize("shape", [(60, 20), (15, 40)], ids=["tall", "wide"])
def test_alpha_req_is_the_slope_of_the_spectrum(shape):
    (z,) = random_views(*shape, count=1)
    for first, last in ((1, 100), (5, 12)):
        wanted = alpha_of(z, first, min(last, shape[0] - 1))
        assert measures.alpha_req(z, first=first, last=last) == pytest.approx(wanted, rel=1e-6)


def test_alpha_req_finds_the_exponent_of_a_power_law():
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.standard_normal((400, 60)))[0]
    basis = np.linalg.qr(basis - basis.mean(0))[0]
    z = basis * np.arange(1, 61) ** (-1.3 / 2)
    assert measures.alpha_req(z) == pytest.approx(1.3, abs=1e-6)
    with pytest.raises(ValueError, match="fits directions 11 to 100, but the features vary in 3"):
        measures.alpha_req(z[:, :3])


def test_the_group_of_ranks_is_taken_of_a_subject_that_has_views_and_features():
    a, b = (torch.from_numpy(v) for v in random_views(40, 30, 2))
    subject = Subject(a, views=(a, b))
    assert take(in_groups(["ranks"]), subject) == {"lidar": measures.lidar(a, b)}
    alpha = next(m for m in in_groups(["ranks"]) if m.name == "alpha_req")
    subject.backbone = Subject(b)
    assert alpha.of(subject) == measures.alpha_req(b)
    subject.backbone = Subject(b[:, :4])
    assert alpha.of(subject) is None


class Wrapped:
    """What pandas, jax and others give: an object that knows how to become an array."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize(
    "kind", [Wrapped, np.asarray, np.asfortranarray, lambda z: z.tolist(), lambda z: z[::-1][::-1]]
)
def test_measures_take_arrays_of_any_kind(kind):
    a, b = (v.astype(np.float64) for v in random_views(40, 8, 2))
    labels = np.arange(40) % 3
    words = np.array(["cat", "ant", "bee"])[labels]
    x, y, given = torch.from_numpy(a), torch.from_numpy(b), kind(a)
    for name in ("uniformity", "effective_rank", "rankme", "conditional_entropy", "prior_distance"):
        assert getattr(measures, name)(given) == getattr(measures, name)(x), name
    assert measures.uniformity(given, t=np.float64(3)) == measures.uniformity(x, t=3.0)
    assert measures.alignment(given, kind(b)) == measures.alignment(x, y)
    tolerance = measures.tolerance(x, torch.from_numpy(labels))
    assert measures.tolerance(given, kind(labels)) == measures.tolerance(given, words) == tolerance
    assert measures.pairwise(given, kind(labels)).uniformity == measures.pairwise(x).uniformity
    torch.testing.assert_close(measures.hardness(given, 0.1), measures.hardness(x, 0.1))


def test_what_is_no_array_of_numbers_is_named():
    with pytest.raises(TypeError, match="z must hold real numbers, got complex128"):
        measures.uniformity(np.ones((3, 2), dtype=complex))
    with pytest.raises(TypeError, match="floating-point"):
        measures.uniformity(np.ones((3, 2), dtype=int))
    read_only = np.random.default_rng(0).standard_normal((5, 3))
    read_only.flags.writeable = False
    assert measures.uniformity(read_only) < 0
    assert measures.uniformity(read_only.astype(">f4")) < 0
