"""The largest entries of a row against a stable sort, whatever ties there are."""

import math

import numpy as np
import pytest
import torch

from isotherm.engine.select import LAYERS, kth_largest, largest, largest_values, nearest


def rows_with_ties(levels, seed, n=1000, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(-levels, levels, (50, n), generator=generator).to(dtype) / levels
    rows[3] = 0.0
    rows[4] = -0.0
    rows[5, 7:] = -math.inf
    return rows


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_kth_largest_is_exact_with_ties_and_hidden_entries(k):
    rows = torch.tensor([[3.0, 1, 2, 3, -1, 0, 2, 2, 5], [-math.inf, 1, 1, 1, 1, 1, 1, 1, 1]])
    expected = np.sort(rows.numpy(), axis=1)[:, ::-1][:, k - 1]
    np.testing.assert_array_equal(kth_largest(rows, k).numpy(), expected)
    on_other_devices = rows.topk(k, dim=1, sorted=False).values.amin(1)
    np.testing.assert_array_equal(on_other_devices.numpy(), expected)


@pytest.mark.parametrize("k", [1, 7, 40, 333, 1000])
@pytest.mark.parametrize("levels", [4, 10_000])
def test_selection_equals_a_stable_sort_whatever_ties_there_are(k, levels):
    rows = rows_with_ties(levels, k)
    expected = torch.sort(rows, dim=1, descending=True, stable=True)
    for layers in (1, 2, 3, 5, 7):  # 3 and 7 leave entries over
        if layers == 1 or rows.shape[1] // layers > k:
            values, indices = largest(rows, k, layers)
            assert torch.equal(values, expected.values[:, :k])
            assert torch.equal(indices, expected.indices[:, :k])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1000, 1003])
@pytest.mark.parametrize("k", [1, 10, 15, 16, 300])
def test_largest_values_are_the_first_of_a_sort_folded_or_not(dtype, n, k):
    rows = rows_with_ties(10_000, k, n, dtype)
    assert 4 * 15 <= n // LAYERS < 4 * 16  # 15 is folded, 16 is not
    values = largest_values(rows, k)
    assert values.dtype == dtype
    assert torch.equal(values, rows.sort(dim=1, descending=True).values[:, :k])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("levels", [4, 10_000])
@pytest.mark.parametrize("k", [1, 7, 40, 333, 990, 1000])
def test_the_nearest_come_with_the_least_of_them_and_what_follows(k, levels, threads):
    rows = rows_with_ties(levels, k)
    ordered = rows.sort(dim=1, descending=True).values
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        values, least, following = nearest(rows.clone(), k)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(values.sort(dim=1, descending=True).values, ordered[:, :k])
    assert torch.equal(least, ordered[:, k - 1])
    assert torch.equal(following, ordered[:, k] if k < 1000 else torch.full((50,), -math.inf))
