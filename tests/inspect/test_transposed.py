"""Arrays with more columns than rows: transposed, evidently or perhaps, or a few items with many dimensions."""

import numpy as np
import pytest

from isotherm.cli import main
from isotherm.inspect.reading import of_arrays

RANDOM = np.random.default_rng(0)
ITEMS = 3 * RANDOM.standard_normal((10, 32))[np.arange(500) % 10] + RANDOM.standard_normal((500, 32))
"""Ten classes in 32 dimensions."""


def unit(z):
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def level(z):
    return [f.level for f in of_arrays(z).notes if "more columns than rows" in f.text]


@pytest.mark.parametrize("z", [ITEMS.T, unit(ITEMS).T, unit(ITEMS[:, :31]).T])
def test_columns_that_look_like_items_are_bad(z, tmp_path, capsys):
    assert level(z) == ["bad"]
    np.save(tmp_path / "z.npy", z)
    assert main(["inspect", str(tmp_path / "z.npy"), "--fail-on", "bad", "--map", "none"]) == 3
    assert "the array is transposed" in capsys.readouterr().err


def few(n, d):
    return RANDOM.standard_normal((4, d))[np.arange(n) % 4] + RANDOM.standard_normal((n, d))


PIXELS = np.abs(few(64, 784)) * np.linspace(0, 1, 784)
WIDE = few(64, 2000)


@pytest.mark.parametrize(
    "z",
    [
        few(64, 768),
        unit(few(40, 768)),
        few(100, 1024) * RANDOM.uniform(0.1, 5, (100, 1)),
        PIXELS,
        unit(WIDE),
        (WIDE - WIDE.mean(0)) / WIDE.std(0),
        RANDOM.standard_normal((64, 20_000)),
    ],
)
def test_a_few_items_with_many_dimensions_are_only_asked_about(z):
    assert level(z) == ["look"]


def test_more_rows_than_columns_are_not_asked():
    assert level(ITEMS) == []
    basis = np.linalg.svd(ITEMS, full_matrices=False)[0]  # a spectral embedding: its columns have length 1
    assert level(basis) == []
