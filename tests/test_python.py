"""Python first: train, load, inspect from a notebook; what comes back says what it is."""

import json

import numpy as np
import pytest
import torch

import isotherm


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("python") / "a"
    loss = isotherm.nn.NTXentLoss(temperature=0.1)
    return isotherm.train(
        out, data="digits", images=300, loss=loss, epochs=2, batch=100, monitor_images=200, quiet=True
    )


def test_train_gives_a_run_that_says_what_it_is(run):
    assert run.result.config["loss"] == {"name": "NTXentLoss", "temperature": 0.1}
    assert json.loads((run.out / "result.json").read_text())["measures"] == dict(run.measures)
    assert repr(run).startswith(f"{run.out}: kNN accuracy")
    assert "6 steps" in repr(run)
    assert [step for step, _ in run.curves["knn"]][-1] == 6
    assert "srcdoc" in run._repr_html_()


def test_the_same_call_takes_the_run_that_is_there_and_another_is_refused(run):
    settings = {"data": "digits", "images": 300, "epochs": 2, "batch": 100, "monitor_images": 200, "quiet": True}
    again = isotherm.train(run.out, **settings, **{"loss.temperature": 0.1})
    assert again.result == run.result
    with pytest.raises(ValueError, match=r"holds a run with other settings .*\. Choose another folder\.$"):
        isotherm.train(run.out, **{**settings, "epochs": 3})


def test_an_encoder_is_loaded_by_its_path(run):
    images = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(isotherm.load_encoder(str(run.out))(images), run.encoder(images))


def test_mistakes_get_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="no setting 'epoch'; did you mean 'epochs'"):
        isotherm.train(tmp_path / "x", epoch=3)
    tau = isotherm.temperature.Learnable(0.1)
    with pytest.raises(ValueError, match="NTXentLoss has none: its temperature is no plain value"):
        isotherm.train(tmp_path / "x", loss=isotherm.nn.NTXentLoss(tau))
    with pytest.raises(ValueError, match="no encoder in"):
        isotherm.load_encoder(str(tmp_path))
    with pytest.raises(ValueError, match=r"no file or folder nowhere: a run's folder, or its encoder\.safetensors"):
        isotherm.load_encoder("nowhere")
    with pytest.raises(AttributeError, match="no attribute 'Moniter'; did you mean 'Monitor'"):
        isotherm.Moniter  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'fit'; it has: .*train"):
        isotherm.fit  # noqa: B018


def blobs(n=300, d=8):
    rng = np.random.default_rng(0)
    kinds = np.arange(n) % 3
    return (4 * np.eye(3, d)[kinds] + rng.standard_normal((n, d))).astype(np.float32), kinds


def test_inspect_takes_arrays_and_words_and_gives_what_the_command_gives(tmp_path):
    z, kinds = blobs()
    words = np.array(["ant", "bee", "cat"])[kinds]
    look = isotherm.inspect(z, words, views=torch.from_numpy(z) + 0.1, name="mine")
    np.savez(tmp_path / "z.npz", embeddings=z, labels=words, views=z + 0.1)
    path = tmp_path / "z.npz"
    assert dict(look.values) == pytest.approx(
        isotherm.inspect.run(path, isotherm.inspect.Reading(views="views")).values
    )
    assert dict(isotherm.inspect(path).values).keys() == look.values.keys() - {
        "alignment",
        "positive_similarity",
        "nearest_negative",
    }
    assert [c.name for c in look.health.classes] == ["ant", "bee", "cat"]
    said = repr(look)
    assert said.startswith("mine: 300 items, 8 dimensions; temperature ")
    assert "neighbours of one class" in said
    assert look.temperature is not None
    assert "srcdoc" in look._repr_html_()
    assert "ant" in look.write(tmp_path / "z.html", layout="none").read_text()


def test_inspect_names_what_is_wrong_with_an_array():
    z, kinds = blobs()
    with pytest.raises(ValueError, match=r"shape \(n, d\) with d of 2 or more, got \(8,\)"):
        isotherm.inspect(z[0])
    with pytest.raises(ValueError, match="labels has 5 rows for 300 embeddings"):
        isotherm.inspect(z, kinds[:5])
    z[3] = np.nan
    with pytest.raises(ValueError, match=r"row 3\. Mend them, or leave them out with --drop \(in Python drop=True\)"):
        isotherm.inspect(z, kinds)
    assert isotherm.inspect(z, kinds, drop=True).health.n == 299
