"""`isotherm embed RUN DATA`: a set's embeddings, labels and ids in one file, which `isotherm inspect` reads."""

import numpy as np
import pytest
import torch

from isotherm import inspect
from isotherm.cli import main
from isotherm.data.sets import load
from isotherm.encoders import features
from isotherm.train import runs
from small_runs import run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "digits"
    run(out, epochs=1)
    return out


def embed(*words):
    return main(["embed", *map(str, words)])


def test_a_set_is_embedded_with_its_labels_and_ids(trained, tmp_path, capsys):
    assert embed(trained, "digits", "--split", "test", "--out", tmp_path / "z.npz") == 0
    said = capsys.readouterr().out
    assert "embeddings 360 × " in said
    assert "without the head whose output the run's loss sees" in said
    images = load("digits", "test")
    with np.load(tmp_path / "z.npz") as z:
        wanted = features(runs.load_encoder(trained), images.pixels.float() / 255)
        assert np.allclose(z["embeddings"], wanted.numpy(), atol=1e-6)
        assert z["ids"].tolist() == images.ids.tolist()
        assert z["labels"].tolist() == [images.classes[label] for label in images.labels]
    read = inspect.read(tmp_path / "z.npz")
    assert torch.equal(read.z, torch.from_numpy(np.load(tmp_path / "z.npz")["embeddings"]))
    assert read.classes == images.classes
    assert torch.equal(read.labels, images.labels)


def test_a_folder_of_classes_keeps_their_names_and_encode_is_the_same_command(trained, tmp_path):
    from PIL import Image  # noqa: PLC0415 - extra `lab`

    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
    for i, image in enumerate(pixels):
        (tmp_path / "photos" / f"kind {i % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "photos" / f"kind {i % 2}" / f"{i}.png")
    for command in ("embed", "encode"):
        words = [command, str(trained), f"folder:{tmp_path}/photos", "--out", str(tmp_path / f"{command}.npz")]
        assert main(words) == 0
    first, second = (np.load(tmp_path / f"{command}.npz") for command in ("embed", "encode"))
    assert sorted(first["labels"]) == ["kind 0"] * 3 + ["kind 1"] * 3
    assert np.array_equal(first["embeddings"], second["embeddings"])


def test_sentences_are_embedded_by_a_run_on_sentences(tmp_path, capsys, trained):
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"sentence number {i}\n" for i in range(12)))
    small = ["--encoder.width", "16", "--encoder.heads", "2", "--encoder.vocabulary", "300", "--monitor", "0"]
    train = ["train", "--data", f"text:{corpus}", "--epochs", "1", "--batch", "6", *small, "--out", str(tmp_path / "t")]
    assert main(train) == 0
    assert embed(tmp_path / "t", f"text:{corpus}", "--out", tmp_path / "z.npz") == 0
    with np.load(tmp_path / "z.npz") as z:
        assert sorted(z.files) == ["embeddings", "ids"]
        own = runs.load_encoder(tmp_path / "t").encode(["sentence number 3"])
        assert np.allclose(z["embeddings"][3], own[0].numpy(), atol=1e-6)
    capsys.readouterr()
    for words, message in (
        ((tmp_path / "t", "digits"), "digits holds images"),
        ((trained, f"text:{corpus}"), "holds sentences"),
        ((trained, "digits", "digits"), "is a set, which is embedded alone"),
        ((trained, "digts"), "did you mean 'digits'?"),
        ((trained, corpus, "--split", "test"), "--split is a part of a set"),
        ((trained, "digits", "--split", "nope"), "no split 'nope'"),
        ((trained, "folder:/nonexistent"), "/nonexistent"),
        (("digits", trained), f"did you swap RUN and DATA? isotherm embed {trained} digits"),
    ):
        assert embed(*words, "--out", tmp_path / "x.npz") == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("isotherm:") == 1
    assert not (tmp_path / "x.npz").exists()
