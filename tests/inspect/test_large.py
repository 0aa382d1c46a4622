"""Files larger than memory: a sample of the rows, its errors, how long it takes; and no more memory than its share."""

import subprocess
import sys

import numpy as np
import pytest

from isotherm import inspect as inspection

PEAK = """
import sys
from pathlib import Path
from isotherm.inspect.reading import read
import isotherm.measures.catalogue
def now(field):
    return next(int(l.split()[1]) // 1024 for l in Path("/proc/self/status").open() if l.startswith(field))
before = now("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
read(sys.argv[1], sample=2000)
print(now("VmHWM") - before)
"""


def clustered(n, d=16, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, n)
    return (rng.standard_normal((5, d))[y] + rng.standard_normal((n, d))).astype(np.float16), y


def test_errors_of_a_sample_are_those_of_samples(tmp_path):
    """What is said to be a standard error is the deviation of the measure over samples, and covers the file's value."""
    z, y = clustered(6000)
    np.savez(tmp_path / "z.npz", z=z, labels=y)
    whole = inspection.run(tmp_path / "z.npz", layout="none")
    assert whole.errors == {}
    samples = [
        inspection.run(tmp_path / "z.npz", inspection.Reading(sample=1024, seed=s), layout="none") for s in range(8)
    ]
    for name in ("uniformity", "tolerance", "mean_similarity"):
        values = np.array([h.values[name] for h in samples])
        errors = np.array([h.errors[name] for h in samples])
        assert 0.4 < values.std(ddof=1) / errors.mean() < 2.5, name
        assert (abs(values - whole.values[name]) < 4 * errors).all(), name
    said = next(f.text for f in samples[0].findings if "Standard errors" in f.text)
    assert "uniformity ± " in said
    assert "nearest neighbour" in said.partition("depends on the number of rows")[2]


def test_a_long_examination_says_how_long(tmp_path, monkeypatch):
    np.save(tmp_path / "z.npy", clustered(600)[0])
    monkeypatch.setattr(inspection, "SOON", 0.0)
    said = []
    inspection.run(tmp_path / "z.npy", layout="none", note=lambda stage, detail: said.append(stage))
    assert said == ["examining all pairs of 600 × 16: about 0 s"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's count of resident pages")
def test_a_sample_of_a_large_file_does_not_bring_the_file_into_memory(tmp_path):
    """200 MB on the disk, two thousand rows of it: the pages touched are given back."""
    rows = np.lib.format.open_memmap(tmp_path / "z.npy", "w+", np.float16, (200_000, 512))
    rows[:] = 1
    rows.flush()
    del rows
    ended = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path / "z.npy")], capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) < 60, ended.stdout
