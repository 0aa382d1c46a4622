"""What is said of embeddings about which little can be said: one point, and few items."""

import json

import numpy as np
import pytest

import isotherm
from isotherm.cli import main
from isotherm.inspect import describe

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("noise", [0, 1e-4])
def test_one_point_is_called_one_point_and_nothing_of_it_healthy(noise):
    z = 1 + noise * RANDOM.standard_normal((300, 16))
    look = isotherm.inspect(z, np.arange(300) % 4)
    said = " ".join(finding.text for finding in look.findings)
    assert "all items are almost one point" in said
    assert "which is fine" not in said
    assert "same order" not in said
    assert not [row.measure.name for row in describe(look.health) if row.healthy.level == "good"]


def test_classes_that_are_points_in_one_narrow_cone_are_not_fine():
    labels = np.arange(300) % 4
    z = 1 + 0.01 * np.eye(4, 16)[labels] + 1e-6 * RANDOM.standard_normal((300, 16))
    look = isotherm.inspect(z, labels)
    assert look.values["nearest_agreement"] == 1
    assert "which is fine" not in " ".join(finding.text for finding in look.findings)


@pytest.mark.parametrize(("n", "few"), [(40, True), (60, False)])
def test_few_items_are_called_too_few(n, few):
    look = isotherm.inspect(RANDOM.standard_normal((n, 16)))
    assert any(f"{n} items are too few" in finding.text for finding in look.findings) == few
    assert any(row.healthy.level == "good" for row in describe(look.health)) != few


def test_a_temperature_is_one_for_a_loss_on_these_vectors():
    advice = isotherm.inspect(RANDOM.standard_normal((300, 16))).health.advice
    assert advice.reasoning.startswith("For a loss on these vectors: between τ")
    assert "isotherm embed" in advice.more


@pytest.mark.parametrize("words", [["--json"], ["--json", "-"]])
def test_json_alone_goes_to_standard_output(tmp_path, capsys, words):
    np.save(tmp_path / "z.npy", RANDOM.standard_normal((60, 8)))
    assert main(["inspect", str(tmp_path / "z.npy"), *words]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 60


def texts(look):
    return [f"{finding.level}: {finding.text}" for finding in look.findings]


def test_a_column_that_outweighs_all_others_is_named(tmp_path):
    z = RANDOM.standard_normal((300, 32))
    columns = {**{f"e{i}": z[:, i] for i in range(32)}, "price": RANDOM.uniform(0, 1000, 300)}
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "z.csv").write_text("\n".join(rows))
    collapsed, *_ = texts(isotherm.inspect(tmp_path / "z.csv"))
    assert collapsed.startswith("bad: Uniformity")
    assert "nearly collapsed; all items are almost one point. Column 'price' holds nearly all of the" in collapsed
    assert "stop-gradient" not in collapsed
    z[:, 3] += 200
    assert "Column 3 holds nearly all of the squared length, so that cosines" in texts(isotherm.inspect(z))[0]


def test_columns_that_outweigh_without_a_collapse_are_worth_a_look():
    z = RANDOM.standard_normal((300, 32))
    z[:, [4, 9]] *= 50
    look = isotherm.inspect(z)
    assert list(look.health.heavy_columns) in (["4", "9"], ["9", "4"])
    assert [t for t in texts(look) if t.startswith("look: Columns") and "hold 98% of the squared length: cosines" in t]


def test_no_column_is_named_where_the_length_is_everybody_s():
    z = RANDOM.standard_normal((300, 16))
    assert isotherm.inspect(z).health.heavy_columns == {}
    assert isotherm.inspect(1 + 1e-4 * z).health.heavy_columns == {}
    assert isotherm.inspect(z[:, :2] * [100, 1]).health.heavy_columns == {}
