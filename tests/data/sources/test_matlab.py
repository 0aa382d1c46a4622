"""Arrays of MATLAB 5 files as scipy writes and reads them, and files at which scipy's reader crashes."""

import contextlib

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from isotherm.data.sources.matlab import arrays

KINDS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_those_that_scipy_reads(kind, packed, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "a.mat"
    content = {
        "X": rng.integers(0, 100, (3, 4, 2, 5)).astype(kind),
        "y": np.array([[7]], kind),
        "row": rng.integers(0, 9, (1, 3)).astype(kind),
        "none": np.zeros((0, 2), kind),
        "words": "not asked for",
    }
    savemat(path, content, do_compression=packed)
    wanted = ("X", "y", "row", "none")
    found, theirs = arrays(path, wanted), loadmat(path)
    assert set(found) == set(wanted)
    for name in wanted:
        assert found[name].dtype == theirs[name].dtype
        np.testing.assert_array_equal(found[name], theirs[name])


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_that_is_changed_or_missing_is_a_sentence_or_numbers(packed, tmp_path):
    path = tmp_path / "a.mat"
    savemat(path, {"X": np.arange(24, dtype=np.uint8).reshape(2, 3, 4), "y": np.ones((4, 1))}, do_compression=packed)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(124, len(whole)):
        path.write_bytes(whole[:place] + bytes([rng.integers(256)]) + whole[place + 1 :])
        _refused_or_read(path)
        path.write_bytes(whole[:place])
        _refused_or_read(path)


def _refused_or_read(path):
    found = {}
    with contextlib.suppress(ValueError):
        found = arrays(path, ("X", "y"))
    assert all(array.size < 1000 for array in found.values())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"X": np.array([1 + 2j])}, "X holds no real numbers"),
        ({"X": "words"}, "X holds no real numbers"),
    ],
)
def test_what_is_no_array_of_real_numbers_is_refused(content, words, tmp_path):
    savemat(tmp_path / "a.mat", content)
    with pytest.raises(ValueError, match=words):
        arrays(tmp_path / "a.mat", ("X",))
