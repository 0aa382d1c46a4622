"""Training on sentences: SimCSE and other methods, runs that resume, corpora with mistakes in them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from isotherm.cli import main
from isotherm.data import roots
from isotherm.train import runs
from isotherm.train.build import build
from isotherm.train.commandline import configure, help_text
from isotherm.train.config import Runtime
from isotherm.train.devices import fabric_for
from isotherm.train.loop import Run, run_to_end, train
from isotherm.train.presets import PRESETS
from small_runs import stopped_after_a_step
from small_text import QUICK, run, weights

pytest_plugins = ("small_text",)
pytestmark = pytest.mark.usefixtures("no_senteval")


def test_a_run_on_sentences_leaves_what_the_contract_names_and_other_libraries_load(corpus, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    out = run(tmp_path / "a", corpus, recipe="dropout")
    names = (
        "config.yaml",
        "metrics.jsonl",
        "checkpoint.pt",
        "encoder.safetensors",
        "result.json",
        "model/modules.json",
    )
    assert all((out / name).exists() for name in names)
    sentences = ["the cat sits", "a dog runs"]
    z = runs.open_text_encoder(out)[1].encode(sentences)
    torch.testing.assert_close(runs.load_encoder(out).encode(sentences), z)
    loaded = sentence_transformers.SentenceTransformer(str(out / "model"), device="cpu")
    np.testing.assert_allclose(loaded.encode(sentences), z.numpy(), atol=1e-6)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss_mean"] for line in lines if "loss_mean" in line]
    assert losses[-1] < losses[0]
    with pytest.raises(ValueError, match="learnt from sentences"):
        runs.open_run(out)


@pytest.mark.parametrize("settings", [{}, {"recipe": "crop", "data_options": {"bucket": 2}}])
def test_a_stopped_run_on_sentences_resumes_to_the_same_weights(corpus, tmp_path, settings):
    whole = weights(run(tmp_path / "whole", corpus, **settings))
    config = configure({"data": f"text:{corpus}", **QUICK, **settings})
    place = Runtime(out=tmp_path / "parts", quiet=True, resume=True)
    stopped_after_a_step(place.out, {"data": f"text:{corpus}", **QUICK, **settings})
    assert runs.last_checkpoint(place.out)["step"] == 1
    train(config, place)
    again = weights(place.out)
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[k], again[k]) for k in whole)


def test_a_run_on_sentences_that_has_just_ended_is_open_as_from_its_folder(corpus, tmp_path):
    config = configure({"data": f"text:{corpus}", **QUICK, "epochs": 1})
    finished = run_to_end(config, Runtime(out=tmp_path / "a", quiet=True))
    reopened = runs.reopen(tmp_path / "a")
    sentences = ["the cat sees a dog", "one bird"]
    assert torch.equal(finished.opened.encoder.encode(sentences), reopened.encoder.encode(sentences))
    assert finished.opened.config == reopened.config == config


def test_a_batch_in_parts_has_the_gradient_of_the_whole(corpus, tmp_path):
    still = {"encoder.dropout": 0.0, "recipe": "delete", "epochs": 1, "optimizer": "sgd", "lr": 0.1}
    a, b = (weights(run(tmp_path / str(n), corpus, parts=n, **still)) for n in (1, 4))
    for name in a:
        torch.testing.assert_close(a[name], b[name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "MACLLoss"},
        {
            "loss": "DySTreSSLoss",
            "loss.tau_min": 0.03,
            "loss.tau_max": 0.05,
            "loss.profile": "shifted",
            "loss.shift": -0.4,
        },
        {"loss": "CACRLoss", "views": 4},
        {"loss": "CACRLoss", "views": 3, "method.pairing": "own"},
        {"loss": "NTXentLoss", "method.pairing": "own"},
        {"loss": "HardContrastiveLoss", "loss.alpha": 0.5, "method.symmetric": True},
        {"loss": "VICRegLoss"},
        {"loss": "InfoNCELoss", "loss.temperature": {"name": "Learnable", "initial": 0.05}},
        {"method": "simclr"},
        {"method": "mocov2", "method.queue": 32, "encoder": "text_small"},
        {"method": "bank", "encoder": "text_small"},
        {"encoder.pooling": "first-last-avg", "head": "simclr", "precision": "bf16-mixed"},
        {"encoder.pooling": "cls", "ema": 0.9, "clip": 1.0},
    ],
    ids=str,
)
def test_every_loss_and_method_trains_on_sentences(corpus, tmp_path, settings):
    more = {"encoder": "text_small", "lr": 1e-3} if "method" in settings else {}
    out = run(tmp_path / "a", corpus, **{**more, **settings, "epochs": 1})
    assert np.isfinite(json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["loss_mean"])


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("simcse")])
def test_every_preset_of_sentences_takes_a_step(name, corpus, encoder, tmp_path):
    encoder.save(tmp_path / "bert")
    model = {**configure({}, preset=name).encoder, "name": f"hf:{tmp_path / 'bert'}"}
    tiny = {"data": f"text:{corpus}", "encoder": model, "batch": 40, "monitor": 0}
    assert train(configure(tiny, preset=name), Runtime(out=tmp_path / "a", quiet=True)).steps == 2
    assert runs.load_encoder(tmp_path / "a").pooling == "cls"


def test_pairs_and_triples_train_and_columns_choose_them(triples, tmp_path):
    for columns in (["sent0", "sent1"], ["sent0", "sent1", "hard_neg"]):
        options = {"data_options": {"columns": columns}, "epochs": 1, "batch": 8}
        built = build(configure({"data": f"text:{triples}", **QUICK, **options}))
        assert built.method.hard_negatives == (len(columns) == 3)
        assert built.material.views == len(columns)
        assert built.material.recipe.name == "dropout"  # pairs are views already
        run(tmp_path / str(len(columns)), triples, **options)


def test_the_usual_settings_are_simcse_s_own_and_lie_under_what_is_said(corpus):
    plain = configure({"data": f"text:{corpus}", "encoder": "minilm"})
    assert (plain.method["name"], plain.loss["name"], plain.loss["temperature"]) == ("simcse", "InfoNCELoss", 0.05)
    assert (plain.lr, plain.batch, plain.epochs, plain.optimizer, plain.schedule) == (3e-5, 64, 1, "adamw", "linear")
    said = configure({"data": f"text:{corpus}", "lr": 0.01, "loss": "NTXentLoss"})
    assert (said.lr, said.loss["temperature"], said.encoder["name"]) == (0.01, 0.2, "text_small")
    assert said.head["name"] == "none"
    assert configure({}).method["name"] == "simclr"
    shown = help_text(["--data", "text:x", "--help"])
    assert "--encoder.vocabulary" in shown
    assert "(0.005)" in next(line for line in shown.splitlines() if line.startswith("  --lr "))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encoder": "convnet"}, "holds sentences, which encoder 'convnet' does not read"),
        ({"randbit": 2}, "randbit is for images"),
        ({"recipe": "simclr"}, "no recipe 'simclr' for sentences"),
        ({"data_options": {"column": ["a"]}}, "no option 'column'; did you mean 'columns'"),
        ({"data_options": {"buckt": 3}}, "did you mean 'bucket'"),
        ({"data_options": {"bucket": "foo"}}, "bucket must be a whole number"),
        ({"ratio": 0.5}, "ratio is for images"),
        ({"split": "dev"}, "split is for images"),
        ({"encoder": "hf:"}, "'hf:' names no model"),
        ({"images": 1000}, "80 sentences; 1000 are asked for"),
        ({"encoder.width": 15}, "multiple of heads"),
        ({"encoder.pooling": "max"}, "pooling must be one of"),
        ({"views": 1}, "2 or more views"),
    ],
    ids=str,
)
def test_what_does_not_fit_sentences_is_refused(corpus, settings, said):
    small = {} if "encoder" in settings else QUICK
    with pytest.raises((ValueError, TypeError), match=said):
        build(configure({"data": f"text:{corpus}", **small, **settings}))


def test_a_refused_run_leaves_no_tokenizer_and_one_left_by_a_killed_run_is_not_used(corpus, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("".join(f"{i} 我们 句子 {i * i}\n" for i in range(40)))
    place = Runtime(out=tmp_path / "a", quiet=True)
    with pytest.raises(ValueError, match="larger than"):
        train(configure({"data": f"text:{other}", **QUICK, "batch": 64}), place)
    assert not (tmp_path / "a/tokenizer.json").exists()
    killed = configure({"data": f"text:{other}", **QUICK, "batch": 32})
    Run(fabric_for(killed, place), killed, place).metrics.close()
    assert (tmp_path / "a/tokenizer.json").exists()
    train(configure({"data": f"text:{corpus}", **QUICK}), place)
    fresh = run(tmp_path / "b", corpus)
    assert (tmp_path / "a/tokenizer.json").read_text() == (fresh / "tokenizer.json").read_text()


def test_a_run_whose_start_is_gone_can_be_judged(corpus, encoder, tmp_path):
    encoder.save(tmp_path / "start")
    settings = {"encoder": {"name": f"hf:{tmp_path / 'start'}"}, "batch": 40, "monitor": 0}
    config = configure({"data": f"text:{corpus}", **settings})
    train(config, Runtime(out=tmp_path / "a", quiet=True))
    before = runs.open_text_encoder(tmp_path / "a")[1].encode(["the cat"])
    shutil.rmtree(tmp_path / "start")
    torch.testing.assert_close(runs.open_text_encoder(tmp_path / "a")[1].encode(["the cat"]), before)


def test_triples_need_simcse_and_images_no_text_encoder(triples, tmp_path):
    options = {"data_options": {"columns": ["sent0", "sent1", "hard_neg"]}, "method": "simclr", "encoder": "text_small"}
    with pytest.raises(ValueError, match="hard negatives need --method simcse"):
        run(tmp_path / "a", triples, **options)
    with pytest.raises(ValueError, match="reads sentences; digits holds images"):
        build(configure({"data": "digits", "encoder": "text_small"}))


def test_a_file_with_one_sentence_and_an_empty_one_say_what_is_wrong(tmp_path, capsys):
    for name, content, said in (("one", "hello\n", "with its 1 sentences"), ("none", "\n\n", "no sentence")):
        (tmp_path / name).write_text(content)
        assert (
            main(["train", "--data", f"text:{tmp_path / name}", "--out", str(tmp_path / f"run-{name}"), "--quiet"]) == 2
        )
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1


def test_what_was_wrong_with_a_file_is_said_and_kept_with_the_result(tmp_path, capsys):
    long = ("word " * 20_000).encode()
    lines = [
        b"one sentence here",
        b"",
        b"one sentence here",
        b"caf\xe9",
        "emoji 🙂 und 我们".encode(),
        long,
        b"the last one",
    ]
    (tmp_path / "odd.txt").write_bytes(b"\n".join(lines))
    words = ["--batch", "3", "--encoder.width", "16", "--encoder.vocabulary", "300", "--monitor", "0"]
    assert main(["train", "--data", f"text:{tmp_path / 'odd.txt'}", *words, "--out", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().err
    notes = json.loads((tmp_path / "a/result.json").read_text())["notes"]
    assert len(notes) == 4
    assert all(note in said for note in notes)
    assert any("line 4 is not UTF-8 (byte 0xe9)" in note for note in notes)
    assert any("1 duplicate" in note for note in notes)


def test_a_damaged_or_partial_senteval_does_not_stop_a_run(corpus, senteval, tmp_path, monkeypatch):
    root = tmp_path / "root"
    shutil.copytree(senteval, root / "senteval")
    monkeypatch.setenv("ISOTHERM_DATA", str(root))
    dev = root / "senteval/STS/STSBenchmark/sts-dev.csv"
    dev.write_text("nothing\n")
    for name in ("damaged", "gone"):
        out = run(tmp_path / name, corpus, epochs=1, monitor=1)
        found = json.loads((out / "result.json").read_text())
        assert any("STS-B is not monitored" in note for note in found["notes"])
        assert "stsb_dev" not in found["measures"]
        dev.unlink(missing_ok=True)


def test_training_watches_sts_b_where_it_is(corpus, senteval, tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(senteval.parent / "root"))
    (senteval.parent / "root").mkdir(exist_ok=True)
    link = Path(senteval.parent / "root/senteval")
    if not link.exists():
        link.symlink_to(senteval)
    out = run(tmp_path / "a", corpus, monitor=2)
    found = json.loads((out / "result.json").read_text())["measures"]
    assert {"stsb_dev", "stsb_alignment", "stsb_uniformity", "uniformity", "effective_rank"} <= found.keys()
    best = torch.load(out / "best.pt", weights_only=True)
    assert best["stsb_dev"] >= found["stsb_dev"] - 1e-6


def test_an_encoder_begins_with_masked_words_that_are_made_once(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    begun = {"encoder.masked": 6, "encoder.dropout": 0.0, "epochs": 1}
    a = run(tmp_path / "a", corpus, **begun)
    (kept,) = roots.masked().iterdir()
    made = (kept / "result.json").stat().st_mtime_ns
    assert json.loads((kept / "result.json").read_text())["steps"] == 6
    b = run(tmp_path / "b", corpus, **begun)
    assert list(roots.masked().iterdir()) == [kept]
    assert (kept / "result.json").stat().st_mtime_ns == made
    assert any(kept.name in note for note in runs.read_result(tmp_path / "b").notes)
    assert all(torch.equal(value, weights(b)[name]) for name, value in weights(a).items())
    # the first weights are those of masked words, whatever the seed; the reopened run needs them no more
    config = configure({"data": f"text:{corpus}", **QUICK, **begun, "seed": 5})
    first = build(config).method.network.encoder
    masked = runs.load_encoder(kept)
    assert all(torch.equal(v, masked.state_dict()[k]) for k, v in first.state_dict().items())
    assert (tmp_path / "a" / "tokenizer.json").read_text() == (kept / "tokenizer.json").read_text()
    shutil.rmtree(roots.masked())
    assert runs.reopen(tmp_path / "a").encoder.encode(["the cat"]).shape == (1, 16)
    with pytest.raises(ValueError, match="masked is a number of steps"):
        run(tmp_path / "d", corpus, **{**begun, "encoder.masked": -1})
    other = configure({"data": f"text:{corpus}", **QUICK, **begun, "seed": 9})
    with pytest.raises(ValueError, match="other settings"):  # told before anything is made
        train(other, Runtime(out=tmp_path / "a", quiet=True))
    assert not roots.masked().exists()
