"""An encoder on other data, as it is typed: the numbers of scikit-learn on the same features, and what is refused."""

import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from isotherm.cli import main
from isotherm.evaluate.models import open_model
from isotherm.evaluate.targets import open_target
from isotherm.evaluate.transfer import assess_on
from small_runs import run

pytest_plugins = ("browser",)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "a"
    run(out, epochs=2)
    return out


@pytest.fixture(scope="module")
def stripes(tmp_path_factory):
    """Another set: stripes in three directions, in colour, of another size."""
    folder = tmp_path_factory.mktemp("stripes")
    rng = np.random.default_rng(0)
    arrays = {}
    for split, n in (("train", 240), ("test", 120)):
        labels = rng.integers(0, 3, n)
        y, x = np.mgrid[:12, :12]
        phase = rng.uniform(0, 6.28, (n, 1, 1))
        along = np.choose(labels[:, None, None], (x[None], y[None], (x + y)[None] / 1.4))
        waves = 127 + 70 * np.sin(along + phase) + rng.normal(0, 25, (n, 12, 12))
        arrays |= {f"{split}_images": np.repeat(waves[..., None], 3, 3).clip(0, 255).astype(np.uint8)}
        arrays |= {f"{split}_labels": labels}
    np.savez(folder / "stripes.npz", **arrays)
    return f"arrays:{folder}/stripes.npz"


def features(trained, stripes):
    model = open_model(str(trained))
    target = open_target(stripes, model)
    parts = [target.features(model, part) for part in ("train", "test")]
    return *parts, target.train.labels.numpy(), target.test.labels.numpy()


def test_knn_and_the_linear_probe_are_scikit_learn_s_on_the_same_features(trained, stripes):
    found = assess_on(str(trained), [stripes], ("knn", "linear")).sets[0].scores
    train, test, labels, asked = features(trained, stripes)
    x, q = (torch.nn.functional.normalize(z).double().numpy() for z in (train, test))
    for k in (1, 20):
        near = KNeighborsClassifier(k, metric="cosine", algorithm="brute", weights=lambda d: np.exp(-d / 0.07))
        assert found[f"knn, k = {k}"].accuracy == near.fit(x, labels).score(q, asked)
    scale = StandardScaler().fit(train.double())
    strength = 1 / (found["linear"].settings["regularisation"] * len(train))
    logistic = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000).fit(scale.transform(train.double()), labels)
    expected = logistic.score(scale.transform(test.double()), asked)
    assert found["linear"].accuracy == pytest.approx(expected, abs=0.002)


def test_other_data_are_typed_and_come_out_as_table_json_and_page(trained, stripes, tmp_path, capsys, browser):
    page, numbers = tmp_path / "t.html", tmp_path / "t.json"
    words = ["evaluate", str(trained), "--on", f"{stripes},digits", "--probe", "knn,linear,fewshot,finetune"]
    words += ["--epochs", "2", "--images", "200", "--html", str(page), "--json", str(numbers)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "colours shown as grey" in out
    assert "images of 8×8, 1 channels" in out
    found = json.loads(numbers.read_text())["sets"]
    assert set(found) == {stripes, "digits"}
    assert found[stripes]["train"] == 200
    assert {"knn, k = 20", "linear", "linear, 5 per class", "finetune"} <= set(found[stripes]["probes"])
    assert 0 < found["digits"]["probes"]["finetune"]["auc"] <= 1
    text = page.read_text()
    for said in ("Confusion matrix", "95 % interval", "most confident", "nearest to them", 'class="gallery"'):
        assert said in text, said
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    broken = "return [...document.images].filter(i => !i.complete || !i.naturalWidth).length"
    assert browser.run(broken) == 0
    assert min(browser.contrasts())[0] >= 4.5


def test_a_fine_tuning_that_is_done_leaves_no_state(trained, stripes, tmp_path, capsys):
    words = ["evaluate", str(trained), "--on", stripes, "--probe", "finetune", "--lr", "search", "--epochs", "1"]
    assert main([*words, "--out", str(tmp_path / "state")]) == 0
    assert list((tmp_path / "state").glob("*")) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"train_labels": np.zeros(240, int)}, "has one class in its training part"),
        ({"test_labels": np.full(120, -1)}, "no labels in its test part"),
        ({"test_labels": np.full(120, 7)}, "no class of the test part is in the training part"),
    ],
)
def test_sets_that_cannot_be_asked_are_told_in_a_sentence(change, said, trained, stripes, tmp_path, capsys):
    arrays = {**np.load(stripes.removeprefix("arrays:")), **change}
    np.savez(tmp_path / "bad.npz", **arrays)
    assert main(["evaluate", str(trained), "--on", f"arrays:{tmp_path}/bad.npz"]) == 2
    assert said in capsys.readouterr().err


def test_test_items_without_a_label_are_left_out_and_counted(trained, stripes, tmp_path):
    arrays = dict(np.load(stripes.removeprefix("arrays:")))
    arrays["test_labels"][:7] = -1
    np.savez(tmp_path / "some.npz", **arrays)
    on = assess_on(str(trained), [f"arrays:{tmp_path}/some.npz"], ("knn",)).sets[0]
    assert len(on.target.test) == 113
    assert any("7 test images left out: without a label" in note for note in on.target.notes)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--on", "cifar11"], "did you mean 'cifar10'?"),
        (["--on", "STRIPES", "--probe", "knm"], "did you mean 'knn'?"),
        (["--on", ""], "names no set"),
        (["--on", "digits", "--suite", "elevater"], "say one of the two"),
        (["--on", "STRIPES", "--probe", "fewshot", "--shots", "200"], "cannot draw 200"),
        (["--suite", "elevator"], "did you mean 'elevater'?"),
        (["--suite", "elevater", "--lr", "search"], "belong to --on"),
        (["--suite", "elevater", "--probe", "lineal"], "did you mean 'linear'?"),
        (["--on", "digits", "--lr", "fast"], "a number or 'search'"),
    ],
)
def test_mistakes_are_told_in_one_line(words, said, trained, stripes, capsys):
    try:
        code = main(["evaluate", str(trained), *(w.replace("STRIPES", stripes) for w in words)])
    except SystemExit as ended:
        code = ended.code
    err = capsys.readouterr().err
    assert code == 2
    assert said in err
    assert "Traceback" not in err
