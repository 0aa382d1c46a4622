"""`isotherm bench data` at a small size: it runs everybody, counts, and judges; no time is asserted."""

import pytest

from isotherm.bench import data
from isotherm.cli import main


@pytest.mark.slow
def test_the_data_benchmark_runs_and_judges(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    monkeypatch.setenv("ISOTHERM_WORKERS", "1")
    for name, value in {"BATCH": 4, "BATCHES": 1, "SIZE": 32, "DIFFERENT": 3}.items():
        monkeypatch.setattr(data, name, value)
    assert main(["bench", "data", "--rounds", "1", "--images", "40"]) == 0
    told = capsys.readouterr().out
    for words in (data.OURS, data.OURS_SHARDS, data.PILLOW, "≥ 1.5×", "< 2 GiB"):
        assert words in told


def test_the_best_of_the_rounds_is_judged():
    result = data.Result(
        rates={data.OURS: [30.0, 10.0, 40.0], data.OURS_SHARDS: [1.0] * 3, data.PILLOW: [10.0, 10.0, 20.0]},
        work={data.OURS: [0.005, 0.004], data.OURS_SHARDS: [0.005], data.PILLOW: [0.007, 0.0058]},
        memory={data.OURS: 1 << 30, data.OURS_SHARDS: 3 << 30},
    )
    speed, work, memory = data.targets(result)
    assert (speed.measured, speed.met) == ("2.00×", True)
    assert (work.measured, work.met) == ("1.45×", False)
    assert (memory.measured, memory.met) == ("3.00 GiB", False)


def test_jpegs_are_files_of_ten_classes(tmp_path):
    data.write_jpegs(tmp_path / "train", 12)
    files = sorted(tmp_path.rglob("*.jpg"))
    assert len(files) == 12
    assert len({file.parent for file in files}) == 10
    assert all(40_000 < file.stat().st_size < 200_000 for file in files)
