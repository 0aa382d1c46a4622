"""Runs on sentences evaluated: STS and SentEval, what is missing, what is damaged, what studies measure."""

import json
import shutil

import pytest

from isotherm.cli import main
from isotherm.evaluate.assessment import Options
from isotherm.evaluate.choose import noun_of
from isotherm.evaluate.sentences import assess, encoder_of
from isotherm.experiments import measuring
from isotherm.measures.catalogue import in_groups
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from small_text import run

pytest_plugins = ("small_text",)
pytestmark = pytest.mark.usefixtures("no_senteval")


def test_evaluate_judges_runs_folders_and_says_what_is_missing(corpus, senteval, tmp_path, capsys):
    out = run(tmp_path / "a", corpus, epochs=1)
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    words = ["--senteval", str(senteval), "--probe", "sts,senteval", "--html", str(page), "--json", str(numbers)]
    assert main(["evaluate", str(out), *words]) == 0
    shown = capsys.readouterr().out
    assert "STS-B" in shown
    assert "MR" in shown
    assert "SICK-R" in shown
    assert "STS.input.MSRvid.txt" in shown
    assert page.stat().st_size > 10_000
    found = json.loads(numbers.read_text())["probes"]
    assert set(found["sts"]["tasks"]) == {"STS12", "STS-B"}
    assert set(found["senteval"]["tasks"]) == {"MR"}
    (out / "result.json").unlink()  # as if it had been killed before its end
    assert "unfinished" in assess(str(out), ("sts",), Options(senteval=senteval)).as_dict()["unfinished"]
    folder = assess(str(out / "model"), ("sts",), Options(senteval=senteval))
    assert not folder.unfinished
    assert folder.sts.tasks["STS-B"].spearman == pytest.approx(found["sts"]["tasks"]["STS-B"]["spearman"], abs=1e-6)
    assert noun_of("minilm") == "sentences"
    assert noun_of("hf:somebody/something") == "sentences"
    assert noun_of(str(tmp_path)) == "images"


def test_evaluate_says_what_is_wrong_in_one_line(corpus, senteval, tmp_path, capsys):
    out = run(tmp_path / "a", corpus, epochs=1)
    for words, said in (
        ([str(out), "--probe", "knn"], "no probe 'knn' for sentences"),
        ([str(out), "--senteval", str(tmp_path / "no")], "with SentEval's data"),
        ([str(out), "--senteval", str(tmp_path)], "holds nothing for sts"),
        (["text_small", "--senteval", str(senteval)], "before it is trained"),
    ):
        assert main(["evaluate", *words]) == 2
        assert said in capsys.readouterr().err.splitlines()[-1]
    train(configure({"epochs": 1, "monitor": 0, "encoder.widths": [4]}), Runtime(out=tmp_path / "p", quiet=True))
    with pytest.raises(ValueError, match="learnt from images"):
        runs.open_text_encoder(tmp_path / "p")
    assert encoder_of(str(out)).width == 16


def test_what_is_missing_or_wrong_is_told_before_anything_is_encoded(corpus, senteval, tmp_path, capsys):
    out = run(tmp_path / "a", corpus, epochs=1)
    half = tmp_path / "half"
    shutil.copytree(senteval, half)
    shutil.rmtree(half / "MR")
    assert main(["evaluate", str(out), "--senteval", str(half), "--probe", "sts,senteval"]) == 0
    assert "senteval: nothing of it" in capsys.readouterr().out
    words = ["--senteval", str(senteval), "--probe", "senteval", "--html", str(tmp_path / "p.html")]
    assert main(["evaluate", str(out), *words]) == 0
    assert (tmp_path / "p.html").exists()
    (half / "STS/STSBenchmark/sts-test.csv").write_text("one\ttwo\n")
    capsys.readouterr()
    for words, said in (
        (["--senteval", str(half), "--probe", "sts"], "sts-test.csv"),
        (["--senteval", str(senteval), "--json", str(tmp_path / "no/x.json")], "no folder"),
        (["--senteval", str(senteval), "--probe", ","], "no probe is named"),
    ):
        assert main(["evaluate", str(out), *words]) == 2
        err = capsys.readouterr().err
        assert said in err.splitlines()[-1]
        assert "encoding" not in err
    assert main(["evaluate", "minilmm"]) == 2
    assert "minilm or hf:NAME" in capsys.readouterr().err


def test_every_group_about_sentences_gives_what_it_names(corpus, senteval, tmp_path, monkeypatch):
    root = tmp_path / "root"
    shutil.copytree(senteval, root / "senteval")
    monkeypatch.setenv("ISOTHERM_DATA", str(root))
    out = run(tmp_path / "a", corpus, epochs=1)
    for group in ("similarity", "sphere", "before", "transfer", "objective", "cost"):
        found = measuring.measure(runs.reopen(out), (group,))
        assert found
        assert found.keys() <= {m.name for m in in_groups([group])}
    assert measuring.measure(runs.reopen(out), ("similarity",)).keys() == {"sts12", "stsb"}
    with pytest.raises(ValueError, match="'probes' is not measured of sentences"):
        measuring.measure(runs.reopen(out), ("probes",))
