"""A run judges itself at its end: collapse of several kinds, and features that have become worse."""

import json

import pytest

from isotherm.cli import main
from isotherm.train.outcome import Learnt, warnings
from small_runs import SMALL, command, run

GOOD = {"uniformity": -2.0, "effective_rank": 20.0, "knn": 0.9}


def said(measures, learnt=None, compares=True, labels=False):
    return " ".join(warnings(measures, learnt, compares, labels))


def test_a_run_that_collapses_behind_bn_says_so_in_its_last_line_and_in_its_result(tmp_path, capsys):
    """In training BN keeps the similarity of different items below 0.98."""
    out = tmp_path / "a"
    assert main(command(out, "--quiet", settings={**SMALL, "epochs": 4, "lr": 100})) == 0
    last = capsys.readouterr().err.splitlines()
    assert last[0].startswith("isotherm: warning: the embedding has collapsed")
    assert last[-1].startswith("isotherm: warning: the features are worse than before the first step")
    notes = json.loads((out / "result.json").read_text())["notes"]
    assert [f"isotherm: {note}" for note in notes if note.startswith("warning")] == last
    assert main(command(out, "--quiet", "--resume", settings={**SMALL, "epochs": 4, "lr": 100})) == 0
    assert capsys.readouterr().err.splitlines() == last  # whoever asks again is told again


def test_a_run_that_learns_has_nothing_to_complain_of(tmp_path):
    assert run(tmp_path / "a", epochs=6).warnings == ()


@pytest.mark.parametrize(
    ("measures", "why"),
    [
        ({**GOOD, "uniformity": -0.01}, "at nearly one point"),
        ({**GOOD, "uniformity": -0.69, "effective_rank": 1.0}, "along one direction only"),
        ({"knn": 0.1}, "no direction or are not finite"),
    ],
)
def test_every_kind_of_collapse_is_told(measures, why):
    assert why in said(measures)
    assert not said(GOOD)


def test_what_is_no_collapse_is_not_called_one():
    two_clusters = {**GOOD, "effective_rank": 1.0}
    assert not said(two_clusters, labels=True)  # two classes, each at its own point, are what was asked for
    assert not said({**GOOD, "uniformity": -0.01}, compares=False)  # a VAE's features may lie in a cone


def test_features_are_worse_only_beyond_chance():
    assert said(GOOD, Learnt(0.95, 0.85, 360))
    assert not said(GOOD, Learnt(0.95, 0.94, 360))
    assert not said(GOOD, Learnt(0.80, 0.93, 360))


def test_the_part_to_judge_on_is_looked_for_before_the_first_step(tmp_path, capsys):
    out = tmp_path / "a"
    assert main(command(out, "--test", "nope")) == 2
    assert "no split 'nope'" in capsys.readouterr().err
    assert not (out / "metrics.jsonl").exists()
