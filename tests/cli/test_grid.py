"""A grid from the command line is a study's file that is written and run."""

import json

import pytest

from isotherm.cli import main

SMALL = ["--epochs", "1", "--images", "100", "--batch", "50", "--encoder.widths", "[4]", "--workers", "1"]


@pytest.mark.slow
def test_every_combination_is_trained_and_the_same_line_goes_on(tmp_path, capsys):
    words = ["grid", "--vary", "loss=NTXentLoss,DCLLoss", "--vary", "loss.temperature=0.1,5e-1", "--seeds", "2", *SMALL]
    words += ["--out", str(tmp_path / "grid")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    records = [json.loads(line) for line in (tmp_path / "grid" / "records.jsonl").read_text().splitlines()]
    points = {(r["arm"], r["varied"]["loss.temperature"], r["seed"]) for r in records}
    assert points == {(loss, tau, seed) for loss in ("NTXentLoss", "DCLLoss") for tau in (0.1, 0.5) for seed in (0, 1)}
    assert {r["state"] for r in records} == {"finished"}
    assert "DCLLoss" in shown
    before = (tmp_path / "grid" / "records.jsonl").read_bytes()
    assert main(words) == 0
    assert (tmp_path / "grid" / "records.jsonl").read_bytes() == before
    capsys.readouterr()
    assert main([*words[:2], "loss=NTXentLoss", *words[3:]]) == 2
    assert "has another grid" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "a grid needs something to vary"),
        (["--vary", "lr"], "wants a setting and its values"),
        (["--vary", "lr=0.1,0.1"], "has 0.1 twice"),
        (["--vary", "lr=0.1,[", *SMALL], "wants a setting and its values"),
        (["--vary", "lr=0.1,0.2", "--epoch", "1"], "did you mean 'epochs'?"),
        (["--vary", "loss.temprature=0.1,0.2", *SMALL], "did you mean 'loss.temperature'?"),
        (
            ["--vary", "loss=NTXentLoss,BarlowTwinsLoss", "--vary", "loss.temperature=0.1,0.2", *SMALL],
            "are arms of a study's file, as in docs/guides/first-study.md",
        ),
        (["--vary", "lr=0.1,0.2", "--resume"], "settings are written --name value"),
        (["--vary", "lr=0.1,0.2", "--seed", "3"], "--seed is for isotherm train"),
    ],
)
def test_a_wrong_grid_is_told_in_a_line_and_leaves_nothing(words, said, tmp_path, capsys):
    assert main(["grid", *words, "--out", str(tmp_path / "grid")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "grid").exists()
