"""`isotherm export --to onnx`: from a run's folder to features, by what is written there alone."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

import onnxruntime

from isotherm.cli import main
from isotherm.data.sets import load
from isotherm.encoders.onnx_graph import TOLERANCE
from isotherm.train import runs
from small_runs import run


def test_an_image_run_is_fed_as_its_json_says(tmp_path, capsys):
    run(tmp_path / "run", epochs=1)
    out = tmp_path / "run.onnx"
    assert main(["export", str(tmp_path / "run"), "--to", "onnx", "--out", str(out)]) == 0
    assert "agrees with torch" in capsys.readouterr().out
    about = json.loads(out.with_suffix(".json").read_text())
    assert about["checked"]["largest_difference"] <= about["checked"]["tolerance"]
    assert main(["embed", str(tmp_path / "run"), "digits", "--split", "test", "--out", str(tmp_path / "z.npz")]) == 0
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    assert about["preprocessing"]["then"] == "nothing"  # these images are not normalized
    pixels = load("digits", "test").pixels.numpy().astype(np.float32) / 255
    got = session.run([about["output"]["name"]], {about["input"]["name"]: pixels})[0]
    wanted = np.load(tmp_path / "z.npz")["embeddings"]
    assert np.abs(got - wanted).max() <= TOLERANCE * np.abs(wanted).max()


def test_a_run_on_sentences_comes_with_its_tokenizer(tmp_path, capsys):
    tokenizers = pytest.importorskip("tokenizers", reason="the extra 'text' is not installed")
    (tmp_path / "corpus.txt").write_text("".join(f"sentence number {i}\n" for i in range(12)))
    small = {"encoder.width": 16, "encoder.heads": 2, "encoder.vocabulary": 300, "encoder.widths": None}
    words = [w for k, v in small.items() if v is not None for w in (f"--{k}", str(v))]
    train = [
        "train",
        "--data",
        f"text:{tmp_path}/corpus.txt",
        "--epochs",
        "1",
        "--batch",
        "6",
        "--monitor",
        "0",
        *words,
    ]
    assert main([*train, "--out", str(tmp_path / "run")]) == 0
    out = tmp_path / "text.onnx"
    assert main(["export", str(tmp_path / "run"), "--to", "onnx", "--out", str(out)]) == 0
    about = json.loads(out.with_suffix(".json").read_text())["preprocessing"]
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / about["tokenizer"]))
    tokenizer.enable_truncation(about["longest"])
    tokenizer.enable_padding(pad_id=about["padding"])
    sentences = ["sentence number 3", "something else altogether, longer"]
    rows = tokenizer.encode_batch(sentences)
    fed = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows]}
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    (got,) = session.run(["sentence_embedding"], {name: np.array(value) for name, value in fed.items()})
    assert torch.allclose(torch.from_numpy(got), runs.load_encoder(tmp_path / "run").encode(sentences), atol=1e-5)


def test_mistakes_are_told_before_the_work(tmp_path, capsys):
    run(tmp_path / "run", epochs=1)
    here = str(tmp_path / "run")
    for words, message in (
        (["export", here, "--to", "onnx", "--out", "x.pt"], "must end in .onnx"),
        (["export", here, "--to", "onnx", "--out", str(tmp_path / "no/x.onnx")], "no folder"),
        (["export", str(tmp_path / "no"), "--to", "onnx", "--out", str(tmp_path / "x.onnx")], "is no run"),
        (["export", here, "--to", "torchvision", "--opset", "18", "--out", "x.pth"], "--opset belongs to --to onnx"),
        (["export", here, "--to", "onnx", "--opset", "0", "--out", "x.onnx"], "must be a whole number"),
    ):
        try:
            code = main(words)
        except SystemExit as leaving:
            code = leaving.code
        assert code == 2
        said = capsys.readouterr().err.strip()
        assert message in said
        assert "\n" not in said
    assert not list(tmp_path.glob("x*"))
