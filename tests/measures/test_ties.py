"""Whose class the nearest neighbour has where many are equally near, or nearly so: against scipy in float64."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import isotherm
from isotherm import measures as M

RANDOM = np.random.default_rng(0)
CASES = {
    "one point": (np.ones((300, 16)), 4),
    "nearly one point": (1 + 1e-4 * RANDOM.standard_normal((300, 16)), 4),
    "signs, 8": (RANDOM.choice([-1.0, 1.0], (1000, 8)), 4),
    "signs, 16": (RANDOM.choice([-1.0, 1.0], (1000, 16)), 4),
    "signs, 32": (RANDOM.choice([-1.0, 1.0], (1000, 32)), 10),
    "whole numbers": (RANDOM.integers(1, 4, (400, 4)).astype(np.float64), 3),
    "ordinary": (RANDOM.standard_normal((400, 16)), 5),
}


def expected(z, labels):
    """By scipy's distances of all pairs in float64; equally near ones share an item's vote."""
    z = z.astype(np.float64)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    distances = cdist(z, z)  # differences, not products: exact where points are close
    np.fill_diagonal(distances, np.inf)
    near = distances <= distances.min(1, keepdims=True) + 1e-9
    return ((labels[:, None] == labels) & near).sum(1) / near.sum(1)


@pytest.mark.parametrize("case", CASES)
def test_equally_near_items_share_the_vote_whatever_the_labels_are(case):
    z, kinds = CASES[case]
    z = z.astype(np.float32)
    labels = np.random.default_rng(1).integers(0, kinds, len(z))
    wanted = expected(z, labels)
    np.testing.assert_allclose(M.pairwise(z, labels).agreement, wanted, atol=1e-12)
    assert isotherm.inspect(z, labels).values["nearest_agreement"] == pytest.approx(wanted.mean(), abs=0.01)


def test_the_order_of_the_rows_does_not_matter_to_ties():
    z, labels = np.ones((60, 4), dtype=np.float32), np.arange(60) % 3
    assert isotherm.inspect(z, labels).values["nearest_agreement"] == pytest.approx(19 / 59)
    assert isotherm.inspect(z, np.sort(labels)).values["nearest_agreement"] == pytest.approx(19 / 59)


@pytest.mark.parametrize("width", [3, 7, 16, 100])
def test_one_point_is_never_more_than_one_point(width):
    z = torch.rand(1, width, generator=torch.Generator().manual_seed(width)).expand(300, width).contiguous()
    values = isotherm.inspect(z, np.arange(300) % 3).values
    assert values["uniformity"] <= 0
    assert M.uniformity(z) <= 0
    assert max(values[name] for name in ("mean_similarity", "nearest_similarity", "tolerance")) <= 1
