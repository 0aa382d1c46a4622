"""Suites: what runs here and what is skipped, kept results, paired differences; and drops under imbalance."""

import json
import math

import numpy as np
import pytest
import torch

from isotherm.cli import main
from isotherm.data.sets import load
from isotherm.evaluate import suite_run
from isotherm.evaluate.elevater import TABLE, elevater
from isotherm.evaluate.measured import Measured, read_suited
from isotherm.evaluate.models import open_model
from isotherm.evaluate.paired import paired
from isotherm.evaluate.suite import Entry, Suite, read_suite
from isotherm.evaluate.suite_compare import difference
from isotherm.probes import few_shot
from isotherm.probes.extract import features_of
from small_runs import run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "a"
    run(out, epochs=3)
    return out


def test_elevater_has_its_twenty_sets_with_their_metrics(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    suite = elevater()
    suite.check()
    assert len(suite.entries) == len({row[0] for row in TABLE}) == 20
    assert suite.seeds == (0, 1, 2)
    assert all(entry.shots == 5 for entry in suite.entries)
    metrics = [entry.metric for entry in suite.entries]
    assert (metrics.count("mean-per-class"), metrics.count("roc-auc"), metrics.count("11-point-map")) == (4, 1, 1)
    assert sum(entry.classes for entry in suite.entries) == 1151  # as the paper counts its concepts
    assert all(entry.missing for entry in suite.entries)  # nothing is here


def test_a_suite_runs_what_is_here_names_what_is_not_and_keeps_what_is_done(trained, tmp_path, capsys, monkeypatch):
    file, numbers = tmp_path / "s.yaml", tmp_path / "n.json"
    file.write_text(
        "name: mine\nepochs: 2\nseeds: [0, 1]\nsets:\n- digits\n"
        "- {data: digits, name: few, shots: 2, metric: roc-auc}\n"
        f"- {{data: 'folder:{tmp_path}/photos', name: photos}}\n- {{data: digits, name: many, shots: 500}}\n"
    )
    words = ["evaluate", str(trained), "--suite", str(file), "--json", str(numbers), "--out", str(tmp_path / "kept")]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "2 sets skipped: photos, many" in out
    assert "cannot draw 500" in out
    found = read_suited(numbers)
    assert [(m.set, m.probe) for m in found.measured] == [
        ("digits", "linear"), ("digits", "finetune"), ("few", "linear"), ("few", "finetune")
    ]  # fmt: skip
    model = open_model(str(trained))
    train, test = load("digits"), load("digits", "test")
    x, q = (features_of(model.encoder, images, model.recipe, model.size) for images in (train, test))
    expected = few_shot(x, train.labels, q, test.labels, 5, seeds=(0, 1))
    assert found.measured[0].values == tuple(score.accuracy for score in expected.scores)
    for name in ("chosen", "finetuned"):
        monkeypatch.setattr(suite_run, name, lambda *given, **more: pytest.fail("done already"))
    assert main(words) == 0
    assert read_suited(numbers) == found
    with pytest.raises(pytest.fail.Exception, match="done already"):  # of other shots it is another result
        main([*words, "--shots", "3", "--probe", "linear"])


def test_two_models_are_held_against_each_other(trained, tmp_path, capsys):
    file, numbers = tmp_path / "s.yaml", tmp_path / "c.json"
    file.write_text("probes: [linear, knn]\nsets: [digits, {data: digits, name: classes, metric: mean-per-class}]\n")
    words = ["compare", str(trained), f"random:{trained}", "--suite", str(file), "--json", str(numbers)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "mean" in out
    assert "wins" in out
    ((_, rows),) = json.loads(numbers.read_text())["against"].items()
    assert [(r["set"], r["probe"]) for r in rows] == [
        (name, probe) for name in ("digits", "classes") for probe in ("linear", "knn")
    ]
    for row in rows:
        low, high = row["difference"]["interval"]
        assert low < row["first"] - row["other"] < high
        assert row["difference"]["value"] == pytest.approx(row["first"] - row["other"], abs=1e-6)


def test_models_are_compared_on_ones_own_data_in_one_line(trained, capsys):
    assert main(["compare", str(trained), f"random:{trained}", "--on", "digits"]) == 0
    out = capsys.readouterr().out
    assert "difference (95 %)" in out
    assert "random:a" in out
    assert main(["compare", str(trained), f"random:{trained}", "--on", "digits,folder:nowhere"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "isotherm: --on folder:nowhere: nowhere is not there."


def test_a_suite_s_name_may_be_left_out(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["compare", "--suite", str(trained), f"random:{trained}"]) == 2
    assert "no set of the suite elevater can be run here (caltech101" in capsys.readouterr().err


def test_an_interval_has_the_chance_of_seeds_and_of_items():
    items = torch.tensor([1.0, 0.0, -1.0, 1.0] * 25)
    both = paired([0.2, 0.3, 0.25], items)
    seeds = 4.302652729911275 * np.std([0.2, 0.3, 0.25], ddof=1) / math.sqrt(3)
    chance = 1.959963984540054 * float(items.std()) / 10
    assert both.value == pytest.approx(0.25)
    assert both.interval[1] - both.value == pytest.approx(math.hypot(seeds, chance))
    assert paired([0.2, 0.3, 0.25]).interval[1] - 0.25 == pytest.approx(seeds)
    assert paired([0.25], items).interval[1] - 0.25 == pytest.approx(chance)
    assert paired([0.25]) is None


def test_items_weigh_so_that_classes_count_the_same():
    labels = torch.tensor([0, 0, 0, 1])
    weights = suite_run._weights(labels)
    right = [torch.tensor([True, True, False, False]), torch.tensor([True, True, True, True])]
    values = tuple(float((r.double() * weights).mean()) for r in right)
    assert values == pytest.approx(((2 / 3) / 2, 1.0))
    how = ("s", "linear", "mean-per-class")
    a, b = (
        Measured(*how, (v,), (0,), "x", Measured.packed([r]), Measured.weighed(weights), 4)
        for v, r in zip(values, right, strict=True)
    )
    assert difference(b, a).value == pytest.approx(values[1] - values[0])
    assert float(b.items().mean() - a.items().mean()) == pytest.approx(values[1] - values[0], abs=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sets: []", "names no sets"),
        ("sets: digits", "'sets' must list"),
        ("sets: [{metric: accuracy}]", "has 'data'"),
        ("sets: [{data: digits, metric: acuracy}]", "metric must be one of"),
        ("sets: [{data: digits, shot: 3}]", "did you mean 'shots'"),
        ("sets: [digits]\nshots: none", "whole number from 1, or 'all'"),
        ("sets: [digits]\nprobes: [nearest]", "probes must be one of"),
        ("sets: [digits, digits]", "two sets called 'digits'"),
        ("sets: [digits]\nseeds: [1, 1]", "seeds must be different"),
    ],
)
def test_a_suite_that_is_none_is_told_in_a_sentence(text, said, tmp_path):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises((ValueError, TypeError), match=said):
        read_suite(tmp_path / "s.yaml")


def test_a_suite_of_nothing_that_is_here_is_refused(trained, tmp_path):
    suite = Suite("gone", (Entry("photos", f"folder:{tmp_path}/no"),))
    with pytest.raises(ValueError, match="no set of the suite gone can be run here"):
        suite_run.run_suite(suite, open_model(str(trained)))
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ValueError, match="is no result of"):
        read_suited(tmp_path / "a.json")


def test_drops_under_imbalance_are_paired_by_seed_and_image(tmp_path, capsys):
    numbers = tmp_path / "r.json"
    small = ["--epochs", "1", "--batch", "64", "--monitor", "0", "--encoder.widths", "[8, 16]"]
    words = ["robustness", "--loss", "NTXentLoss,DCLLoss", "--imbalance", "linear", "--seeds", "0,1", *small]
    words += ["--out", str(tmp_path / "r"), "--json", str(numbers)]
    assert main(words) == 0
    assert "drop" in capsys.readouterr().out
    rows = json.loads(numbers.read_text())["rows"]
    assert [row["loss"] for row in rows] == ["NTXentLoss", "DCLLoss"]
    assert rows[0]["images"][0] == 1437
    assert rows[0]["images"][1] < 900
    for row in rows:
        drops = [a - b for a, b in zip(row["regular"], row["unequal"], strict=True)]
        assert row["drop"]["value"] == pytest.approx(np.mean(drops))
        assert "2 seeds and 360 items" in row["drop"]["over"]
    assert rows[0]["against_first"] is None
    first, second = (row["drop"]["value"] for row in rows)
    assert rows[1]["against_first"]["value"] == pytest.approx(second - first)
    assert len(list((tmp_path / "r/runs").iterdir())) == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--imbalance", "none"], "name imbalances only"),
        (["--seeds", "a"], "--seeds must be whole numbers"),
        (["--los", "X"], "no setting"),
    ],
)
def test_mistakes_about_robustness_are_told_in_one_line(words, said, tmp_path, capsys):
    assert main(["robustness", "--out", str(tmp_path / "r"), *words]) == 2
    assert said in capsys.readouterr().err


SEVERAL = """
from dataclasses import replace

import torch

from isotherm.data.sets import load


def several(split="train"):
    images = load("digits", split)
    columns = {"even": (images.labels % 2 == 0).long(), "large": (images.labels > 4).long()}
    return replace(images, labels=torch.full_like(images.labels, -1), classes=tuple(columns), more_labels=columns)
"""


def test_images_that_show_several_classes_are_judged_by_average_precision(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("isotherm.doors._allowed", set())
    code, file, numbers = tmp_path / "mine.py", tmp_path / "s.yaml", tmp_path / "n.json"
    code.write_text(SEVERAL)
    file.write_text(
        f"seeds: [0, 1]\nepochs: 2\nsets:\n- {{data: '{code}:several', name: both, metric: 11-point-map}}\n"
        f"- {{data: '{code}:several', name: wrong}}\n"
    )
    words = ["evaluate", str(trained), "--suite", str(file), "--json", str(numbers)]
    assert main(words) == 2
    assert "whose code would be run" in capsys.readouterr().err
    assert main([*words, "--trust-code"]) == 0
    found = read_suited(numbers)
    assert [(m.probe, len(m.values), m.right) for m in found.measured] == [("linear", 2, ()), ("finetune", 2, ())]
    assert all(0 < value <= 1 for m in found.measured for value in m.values)
    assert [name for name, _ in found.skipped] == ["wrong"]
    assert main(["evaluate", str(trained), "--on", f"{code}:several", "--probe", "linear"]) == 0
    assert "mAP" in capsys.readouterr().out
    assert main(["evaluate", str(trained), "--on", f"{code}:several", "--probe", "knn"]) == 2
    assert "knn cannot say that" in capsys.readouterr().err
