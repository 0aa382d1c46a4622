"""`isotherm evaluate`, `inspect` and `compare` as they are typed."""

import json

import numpy as np
import pytest
import torch

from isotherm.cli import main
from isotherm.evaluate import images
from isotherm.experiments.trained.images import TrainedImages
from isotherm.probes.extract import features_of
from isotherm.probes.knn import knn
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from isotherm.train.monitor import knn_of
from small_runs import stopped_after_a_step

SMALL = {"images": 400, "batch": 100, "epochs": 2, "monitor": 0, "encoder.widths": [8, 16]}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "a"
    train(configure(SMALL), Runtime(out=out, quiet=True))
    return out


def test_a_run_is_probed_and_its_embedding_examined(run, tmp_path, capsys):
    page, numbers = tmp_path / "a.html", tmp_path / "a.json"
    before = runs.load_encoder(run).state_dict()
    words = ["evaluate", str(run), "--probe", "knn, linear,fewshot", "--html", str(page), "--json", str(numbers)]
    assert main(words) == 0
    out = capsys.readouterr().out
    for said in ("knn, k = 1", "linear, 5 per class", "uniformity"):
        assert said in out
    found = json.loads(numbers.read_text())
    assert {"knn, k = 1", "knn, k = 20", "linear", "linear, 5 per class"} <= set(found["probes"])
    assert found["probes"]["linear"]["n"] == 360
    assert "alignment" in found["measures"]
    assert "</html>" in page.read_text()
    after = runs.load_encoder(run).state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_a_run_that_has_not_ended_is_said_to_be_unfinished(run, tmp_path, capsys):
    out, numbers = tmp_path / "a", tmp_path / "a.json"
    stopped_after_a_step(out, SMALL)
    assert main(["evaluate", str(out), "--probe", "knn", "--json", str(numbers)]) == 0
    shown = capsys.readouterr()
    assert f"warning: {out}: step 1 of 8: unfinished" in shown.err
    assert "The run is at step 1 of 8: unfinished" in shown.out  # a finding, which the page shows first
    assert "step 1 of 8" in json.loads(numbers.read_text())["unfinished"]
    assert images.assess(run, ("knn",)).unfinished == ""


def test_the_features_are_those_of_the_exported_encoder(run):
    opened = runs.open_run(run)
    a = features_of(opened.network.encoder, opened.test, opened.recipe)
    b = features_of(runs.load_encoder(run), opened.test, opened.recipe)
    assert torch.equal(a, b)


@pytest.mark.slow
def test_small_alexnet_is_probed_at_fc7_by_evaluate_by_studies_and_on_the_way(tmp_path):
    settings = {**SMALL, "images": 60, "batch": 30, "epochs": 1, "encoder": "small_alexnet", "encoder.width": 4}
    settings |= {"size": 16, "head": "none"}
    settings = {k: v for k, v in settings.items() if k != "encoder.widths"}
    train(configure(settings), Runtime(out=tmp_path / "a", quiet=True))
    opened = runs.open_run(tmp_path / "a")
    fc7 = [features_of(opened.network.encoder, x, opened.recipe, layer="fc7") for x in (opened.images, opened.test)]
    assert fc7[0].shape[1] == 4096
    expected = knn(fc7[0], opened.images.labels, fc7[1], opened.test.labels, ks=(20,))[20]
    found = images.assess(tmp_path / "a", ("knn", "linear"))
    assert found.scores["knn, k = 20"] == expected
    studied = TrainedImages(opened)
    on_the_way = knn_of(opened.network.encoder, opened.images, opened.test, opened.recipe)
    assert studied.knn == expected.accuracy == on_the_way
    assert studied.linear == found.scores["linear"].accuracy


def test_every_probe_has_a_name_that_works(run):
    quick = [p for p in images.PROBES if p not in ("finetune", "fewshot-finetune") and "augmented" not in p]
    found = images.assess(run, quick)
    assert all(0 <= getattr(s, "accuracy", getattr(s, "mean", -1)) <= 1 for s in found.scores.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "nowhere"], "no folder nowhere"),
        (["evaluate", "RUN", "--probe", "knm"], "did you mean 'knn'?"),
        (["evaluate", "RUN", "--probe", ""], "no probe is named; there is: knn"),
        (["inspect", "nowhere.npy"], "nowhere.npy"),
        (["inspect", "RUN/config.yaml"], "config.yaml"),
        (["compare", "RUN"], "at least 2"),
    ],
)
def test_mistakes_are_told_in_one_line(words, said, run, capsys):
    assert main([w.replace("RUN", str(run)) for w in words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_images_without_labels_or_test_are_refused(tmp_path, capsys):
    np.save(tmp_path / "u.npy", np.random.default_rng(0).integers(0, 256, (64, 8, 8), np.uint8))
    settings = {**SMALL, "images": None, "batch": 32, "data": f"arrays:{tmp_path}/u.npy"}
    train(configure(settings), Runtime(out=tmp_path / "a", quiet=True))
    assert main(["evaluate", str(tmp_path / "a")]) == 2
    assert "no part 'test'" in capsys.readouterr().err


def test_an_embedding_file_is_inspected_and_compared(tmp_path, run, capsys):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "z.npy", rng.normal(size=(200, 16)).astype(np.float32))
    np.save(tmp_path / "y.npy", np.arange(200) % 4)
    words = ["inspect", str(tmp_path / "z.npy"), "--labels", str(tmp_path / "y.npy"), "--map", "pca"]
    assert main([*words, "--html", str(tmp_path / "z.html"), "--json", str(tmp_path / "z.json")]) == 0
    assert "uniformity" in capsys.readouterr().out
    assert f"isotherm inspect {tmp_path}/z.npy --labels {tmp_path}/y.npy" in (tmp_path / "z.html").read_text()
    assert main(["compare", str(tmp_path / "z.npy"), str(run)]) == 0
    assert "uniformity" in capsys.readouterr().out


def test_the_images_are_examined_as_training_looked_at_them(run):
    recorded = json.loads((run / "result.json").read_text())["measures"]
    measured = images.assess(run, ["knn"]).health.values
    for name in ("uniformity", "tolerance", "effective_rank", "alignment"):
        assert measured[name] == pytest.approx(recorded[name], rel=1e-5), name


def test_the_page_of_an_evaluation_says_what_the_probes_said_first(run, tmp_path):
    assert main(["evaluate", str(run), "--probe", "knn,linear", "--html", str(tmp_path / "a.html")]) == 0
    text = (tmp_path / "a.html").read_text()
    assert '<p class="kicker">Isotherm evaluate</p><h1>Evaluation of a</h1>' in text
    verdict = text.partition('<p class="verdict')[2].partition("</p>")[0]
    assert "Embedding: " in verdict
    assert "knn" not in verdict  # the embedding's mark is none of the accuracy
    text = text[text.index("<main>") :]
    assert text.index("knn, k = 20") < text.index(">Embedding<") < text.index(">Findings<")
    assert "95 % interval" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["evaluate", "HERE/z.npy"],
            "HERE/z.npy is a file, a run's folder is wanted. Embeddings: isotherm inspect HERE",
        ),
        (["inspect", "RUN"], "RUN is a folder; an embedding file is wanted"),
        (["inspect", "RUN"], "A run: isotherm evaluate RUN"),
        (["inspect", "HERE/z.npy", "b.npy"], "side by side: isotherm compare HERE/z.npy b.npy"),
        (["inspect", "HERE/z.npy", "--html", "HERE/no/q.html"], "no folder HERE/no to write q.html into"),
        (["inspect", "HERE/z.npy", "--json", "HERE/no/q.json"], "no folder HERE/no to write q.json into"),
        (["compare", "HERE/z.npy", "HERE/z.npy", "--html", "HERE/no/q.html"], "no folder HERE/no"),
        (["evaluate", "RUN", "--html", "HERE/no/q.html"], "no folder HERE/no"),
        (["inspect", "HERE/z.npy", "--html", "-"], "a page goes into a file"),
        (["inspect", "HERE/text.npy"], "HERE/text.npy cannot be read as .npy: it does not begin like one"),
        (["inspect", "HERE/thin.npy"], "HERE/thin.npy holds 200 × 1: one number an item"),
    ],
)
def test_whoever_is_in_the_wrong_place_is_sent_to_the_right_one(words, said, run, tmp_path, capsys):
    np.save(tmp_path / "z.npy", np.random.default_rng(0).normal(size=(200, 4)))
    np.save(tmp_path / "thin.npy", np.zeros((200, 1)))
    (tmp_path / "text.npy").write_text("a,b\n1,2\n")
    assert main([w.replace("RUN", str(run)).replace("HERE", str(tmp_path)) for w in words]) == 2
    assert said.replace("RUN", str(run)).replace("HERE", str(tmp_path)) in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("words", [["inspect", "A"], ["compare", "A", "A"], ["evaluate", "RUN", "--probe", "knn"]])
def test_numbers_go_to_standard_output_for_a_dash(words, run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "z.npy", np.random.default_rng(0).normal(size=(60, 4)))
    places = {"A": str(tmp_path / "z.npy"), "RUN": str(run)}
    assert main([*(places.get(w, w) for w in words), "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out).keys() & {"values", "rows", "probes"}
    assert "uniformity" in captured.err
    assert not (tmp_path / "-").exists()


def test_where_some_images_have_no_label_the_others_are_probed_with(tmp_path):
    """As with STL-10's train+unlabeled."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    pixels = (40 + 80 * labels[:, None, None] + rng.integers(0, 9, (60, 8, 8))).astype(np.uint8)
    known = np.where(np.arange(60) < 30, labels, -1)
    parts = {"train_images": pixels, "train_labels": known, "test_images": pixels, "test_labels": labels}
    np.savez(tmp_path / "some.npz", **parts)
    settings = {**SMALL, "data": f"arrays:{tmp_path}/some.npz", "images": None, "batch": 20, "monitor": 1}
    train(configure({**settings, "encoder.widths": [8]}), Runtime(out=tmp_path / "a", quiet=True))
    assert runs.open_run(tmp_path / "a").images.labels.min() == -1
    last = json.loads((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["knn"] == images.assess(tmp_path / "a", ["knn"]).scores["knn, k = 20"].accuracy
