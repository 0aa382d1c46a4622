"""Runs side by side: the settings that differ come first, seeds are paired, curves lie over each other."""

import json

import numpy as np
import pytest
from scipy import stats

from isotherm import inspect as inspection
from isotherm.cli import main
from isotherm.inspect import comparison_page

KNN = {"a": (0.50, 0.52, 0.51), "b": (0.53, 0.56, 0.55), "c": (0.52, 0.50, 0.51)}


def write(folder, seed, knn, **settings):
    folder.mkdir()
    config = {"data": "cifar10", "test": "test", "loss": {"name": "NTXentLoss"}, "batch": 64, **settings, "seed": seed}
    measures = {"knn": knn, "uniformity": -3.0 - knn}
    (folder / "result.json").write_text(json.dumps({"config": config, "measures": measures}))
    lines = [json.dumps({"step": s, "loss": 1.0 / s}) for s in range(1, 2001)]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 20']))
    return folder


@pytest.fixture
def runs(tmp_path):
    changed = {"a": {}, "b": {"loss": {"name": "NTXentLoss", "temperature": 0.1}}, "c": {"batch": 128, "later": 1}}
    return [
        write(tmp_path / f"{arm}-{seed}", seed, knn, **changed[arm])
        for arm, values in KNN.items()
        for seed, knn in enumerate(values)
    ]


def test_only_settings_that_differ_are_told_and_the_seed_last(runs):
    settings = dict(inspection.compare(runs).settings)
    assert list(settings) == ["batch", "loss.temperature", "seed"]  # `later` came with a later version
    assert settings["loss.temperature"] == [""] * 3 + ["0.1"] * 3 + [""] * 3


def test_arms_are_compared_seed_by_seed_with_students_interval(runs):
    differences = {(d.measure, d.arm): d for d in inspection.compare(runs).differences}
    assert {arm for _, arm in differences} == {"b-0", "c-0"}
    found = differences["knn", "b-0"]
    wanted = stats.ttest_rel(KNN["b"], KNN["a"]).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(wanted))
    assert (found.seeds, found.better) == (3, "b-0")
    assert differences["knn", "c-0"].better is None
    assert differences["uniformity", "b-0"].better == "b-0"  # lower is better


def test_one_seed_gives_no_interval_and_a_file_no_settings(runs, tmp_path):
    assert inspection.compare([runs[0], runs[3]]).differences == ()
    np.save(tmp_path / "z.npy", np.random.default_rng(0).normal(size=(200, 8)))
    mixed = inspection.compare([runs[0], tmp_path / "z.npy"])
    assert (mixed.settings, mixed.differences) == ((), ())


def test_the_page_has_the_settings_the_pairs_and_the_curves(runs):
    comparison = inspection.compare(runs)
    page = comparison_page.page_of(comparison).html()
    for text in ("What differs", "loss.temperature", "Seed by seed", "NTXentLoss over training"):
        assert text in page
    steps, values = comparison.entries[0].run.curves["loss"]
    assert len(steps) == 400
    assert values[0] == pytest.approx(np.mean([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]))


def test_the_verdict_says_for_which_measures_no_uncertainty_is_known(runs):
    said = inspection.compare([runs[0], runs[2]]).verdict
    assert said.level == "look"
    assert said.text.startswith("No measure whose uncertainty is known tells them apart beyond chance; for uniformity")
    assert said.text.endswith("none is known. Several seeds of each would tell.")


def test_the_verdict_counts_what_the_seeds_tell(runs):
    said = inspection.compare(runs).verdict
    assert said.level == "good"
    assert "b-0 leads in kNN accuracy, uniformity" in said.text


def test_the_terminal_has_the_verdict_of_the_page(runs, capsys):
    assert main(["compare", str(runs[0]), str(runs[2])]) == 0
    assert "for uniformity none is known" in capsys.readouterr().out
