"""`isotherm push` and `pull`: a run as a model, in a folder, and on a hub that the real client talks to."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from isotherm.cli import main
from isotherm.experiments.claims.verdict import Evidence, Verdict
from isotherm.experiments.judging import Judged
from isotherm.share.facts import command_of, facts_of, public
from isotherm.studies.temperature import STUDY
from isotherm.train import runs
from isotherm.train.commandline import configure, parse
from isotherm.train.config import Runtime
from isotherm.train.layers import flat
from isotherm.train.loop import train
from isotherm.train.unread import is_unread
from small_hub import hub
from small_runs import run

NO_PICTURE = ["--map", "none"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "digits"
    run(out, epochs=1, lr=0.05)
    return out


@pytest.fixture(scope="module")
def pushed(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pushed") / "model"
    assert main(["push", str(trained), str(folder), "--license", "mit", "--map", "pca"]) == 0
    return folder


def weights(encoder):
    return {name: tensor.clone() for name, tensor in encoder.state_dict().items()}


def same(a, b):
    a, b = weights(a), weights(b)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def refused(capsys, words, message):
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert "\n" not in said


def test_a_pushed_folder_has_the_hubs_layout_and_the_runs_encoder(trained, pushed):
    assert {p.name for p in pushed.iterdir()} == {"README.md", "config.json", "model.safetensors", "map.png"}
    assert same(runs.load_encoder(pushed), runs.load_encoder(trained))
    assert (pushed / "map.png").read_bytes().startswith(b"\x89PNG")
    entry = json.loads((pushed / "config.json").read_text())["isotherm"]
    assert entry["data"] == "digits"


def test_the_hubs_own_client_reads_the_card(trained, pushed):
    hub_client = pytest.importorskip("huggingface_hub")
    card = hub_client.ModelCard.load(pushed / "README.md")
    assert card.data.library_name == "isotherm"
    assert card.data.license == "mit"
    assert {"isotherm", "simclr", "NTXentLoss"} <= set(card.data.tags)
    result = runs.read_result(trained)
    assert {e.metric_type: e.metric_value for e in card.data.eval_results} == dict(result.measures)
    assert "map.png" in card.content
    assert facts_of(trained).command in card.content


def test_the_cards_command_is_the_run(trained):
    config = facts_of(trained).config
    again, _, _ = parse([*shlex.split(command_of(config))[2:], "--out", "x"])
    assert again.key == config.key


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "barlow", "loss": "BarlowTwinsLoss", "head": "barlow", "head.layers": 2},
        {"method": "byol", "predictor": "byol", "predictor.hidden": 64, "monitor": 0},
        {"method": "cacr", "loss": "CACRLoss", "loss.repulsion": "uniform", "loss.t_neg": 0.9},
        {"method": "simclr", "warmup": 1.0, "warmup_part": 0.0, "steps": 9, "epochs": None},
        {"method": "vae", "encoder": "vae", "head": "none", "method.plane_weight": "area", "views": 1},
    ],
    ids=lambda s: s["method"],
)
def test_a_cards_command_is_the_run_whatever_its_head(settings):
    config = configure({"data": "digits", **settings})
    again, _, _ = parse([*shlex.split(command_of(config))[2:], "--out", "x"])
    ours, theirs = flat(config.as_dict()), flat(again.as_dict())
    assert ours.keys() == theirs.keys()
    assert all(is_unread(name, config) for name, value in ours.items() if theirs[name] != value)


def test_a_pulled_folder_is_an_encoder_wherever_one_is_taken(trained, pushed, tmp_path):
    assert main(["pull", str(pushed), "--out", str(tmp_path / "pulled")]) == 0
    assert same(runs.load_encoder(tmp_path / "pulled"), runs.load_encoder(trained))
    for source in (trained, tmp_path / "pulled"):
        words = ["embed", str(source), "digits", "--split", "test", "--out", str(tmp_path / f"{source.name}.npz")]
        assert main(words) == 0
    a, b = (np.load(tmp_path / f"{name}.npz")["embeddings"] for name in ("digits", "pulled"))
    assert np.array_equal(a, b)


def test_the_hubs_client_brings_what_it_took(trained, tmp_path, monkeypatch, capsys):
    pytest.importorskip("huggingface_hub")
    with hub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_TOKEN", "hf_nobody")
        assert main(["push", str(trained), "hf:me/digits", *NO_PICTURE]) == 0
        assert set(server.models["me/digits"]) == {"README.md", "config.json", "model.safetensors"}
        refused(capsys, ["push", trained, "hf:me/digits", *NO_PICTURE], "is there already; --replace")
        assert main(["push", str(trained), "hf:me/digits", "--replace", *NO_PICTURE]) == 0
        server.models["me/digits"]["steal.py"] = b"print('never')"
        assert main(["pull", "hf:me/digits", "--out", str(tmp_path / "pulled")]) == 0
        assert {p.name for p in (tmp_path / "pulled").iterdir()} == {"README.md", "config.json", "model.safetensors"}
        assert same(runs.load_encoder(tmp_path / "pulled"), runs.load_encoder(trained))
        del server.models["me/digits"]["README.md"]
        refused(capsys, ["pull", "hf:me/digits", "--out", tmp_path / "x"], "has no card (README.md)")
        server.models["me/digits"]["config.json"] = b"{}"
        refused(capsys, ["pull", "hf:me/digits", "--out", tmp_path / "x"], "was not pushed by Isotherm")
        refused(capsys, ["pull", "hf:me/nothing", "--out", tmp_path / "x"], "cannot pull hf:me/nothing")
    assert not list(tmp_path.glob("*x*"))
    monkeypatch.setenv("HF_ENDPOINT", "http://no-such-host.invalid")
    refused(capsys, ["pull", "hf:me/digits", "--out", tmp_path / "x"], "no network: no-such-host.invalid")
    refused(capsys, ["push", trained, "hf:me/digits", *NO_PICTURE], "no network")


def test_mistakes_are_a_sentence(trained, pushed, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for words, message in (
        (["push", tmp_path / "empty", tmp_path / "x"], "is no run"),
        (["push", trained, pushed], "is there already; name a folder that is not"),
        (["push", trained, tmp_path / "empty", "--replace"], "holds no shared model"),
        (["push", trained, tmp_path / "no/x"], "no folder"),
        (["push", trained, "hf:nobody"], "say hf:OWNER/NAME"),
        (["push", trained, tmp_path / "x", "--private"], "--private is for the hub"),
        (["pull", tmp_path / "empty", "--out", tmp_path / "x"], "is no model: it has no config.json"),
        (["pull", tmp_path / "no"], "no folder"),
        (["pull", pushed, "--out", pushed], "is that folder already"),
        (["pull", pushed, "--out", tmp_path / "empty"], "is there already"),
    ):
        refused(capsys, words, message)
    damaged = tmp_path / "damaged"
    shutil.copytree(pushed, damaged)
    content = bytearray((damaged / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (damaged / "model.safetensors").write_bytes(content)
    refused(capsys, ["pull", damaged, "--out", tmp_path / "x"], "is damaged or another's")
    assert not (tmp_path / "x").exists()


def test_a_folder_that_may_not_be_written_is_a_sentence(trained, tmp_path, capsys):
    refused(capsys, ["push", trained, "/proc/model", *NO_PICTURE], "cannot write /proc/model")


def test_paths_of_this_machine_are_left_out():
    assert public("folder:/home/me/photos/") == "folder:photos"
    assert public({"a": ["/x/y.txt", 3, "digits"]}) == {"a": ["y.txt", 3, "digits"]}
    assert public("hf:sentence-transformers/all-MiniLM-L6-v2") == "hf:sentence-transformers/all-MiniLM-L6-v2"
    assert public(str(Path("~/photos"))) == "photos"


@pytest.mark.slow
def test_sentences_load_with_transformers_and_sentence_transformers(tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    (tmp_path / "corpus.txt").write_text("".join(f"sentence number {i}\n" for i in range(12)))
    small = ["--encoder.width", "16", "--encoder.heads", "2", "--encoder.vocabulary", "300", "--monitor", "0"]
    train = ["train", "--data", f"text:{tmp_path}/corpus.txt", "--epochs", "1", "--batch", "6", *small]
    assert main([*train, "--out", str(tmp_path / "run")]) == 0
    assert main(["push", str(tmp_path / "run"), str(tmp_path / "model"), "--map", "pca"]) == 0
    said = (tmp_path / "model/README.md").read_text()
    assert "library_name: sentence-transformers" in said
    assert "text:corpus.txt" in said
    assert str(tmp_path) not in said + (tmp_path / "model/config.json").read_text()
    ours = runs.load_encoder(tmp_path / "model").encode(["sentence number 3"])
    assert torch.equal(ours, runs.load_encoder(tmp_path / "run").encode(["sentence number 3"]))
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert np.allclose(theirs.encode(["sentence number 3"]), ours.numpy(), atol=1e-6)
    assert transformers.AutoModel.from_pretrained(tmp_path / "model").config.hidden_size == 16


def test_a_run_of_a_study_has_its_seeds_intervals_and_claims_on_the_card(trained, tmp_path):
    place = tmp_path / "study" / "runs" / "a"
    shutil.copytree(trained, place)
    result = runs.read_result(place)
    records = [
        {"arm": "plain", "varied": {}, "seed": seed, "key": result.key, "folder": name, "seconds": 1.0}
        | {"measures": {"knn": value}, "config": dict(result.config)}
        for name, seed, value in (("a", 0, 0.5), ("b", 1, 0.6), ("c", 2, 0.7))
    ]
    (tmp_path / "study/records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (tmp_path / "study/study.json").write_text(json.dumps({"command": "isotherm study mine"}))
    held = Judged(
        replace(STUDY.claims[0], claim="It learns", paper="somebody 2021"), Verdict("held", None, Evidence()), ()
    )
    (tmp_path / "study/claims.json").write_text(json.dumps([held.as_dict()]))
    spread = facts_of(place).spreads["knn"]
    assert (spread.mean, spread.seeds) == (pytest.approx(0.6), 3)
    half = 4.30265 * 0.1 / 3**0.5  # t of two degrees of freedom, from a table
    assert (spread.low, spread.high) == (pytest.approx(0.6 - half, abs=1e-5), pytest.approx(0.6 + half, abs=1e-5))
    assert main(["push", str(place), str(tmp_path / "model"), *NO_PICTURE]) == 0
    said = (tmp_path / "model/README.md").read_text()
    assert "3 seeds" in said
    assert "| It learns | somebody 2021 | held |" in said
    assert "isotherm study mine" in said


@pytest.mark.slow
def test_a_resnet_with_the_usual_stem_is_one_of_timms(tmp_path):
    few = {"images": 32, "batch": 16, "epochs": 1, "size": 32, "encoder": {"name": "resnet18", "small": False}}
    train(configure({"monitor": 0, **few}), Runtime(out=tmp_path / "run", quiet=True))
    assert main(["push", str(tmp_path / "run"), str(tmp_path / "model"), *NO_PICTURE]) == 0
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["architecture"] == "resnet18"
    assert config["pretrained_cfg"]["input_size"] == [1, 32, 32]
    assert "library_name: timm" in (tmp_path / "model/README.md").read_text()
    try:
        import timm  # noqa: PLC0415 - not in every environment
    except (ImportError, RuntimeError):  # a torchvision for another torch
        pytest.skip("timm does not import here")
    theirs = timm.create_model(f"local-dir:{tmp_path}/model", pretrained=True).eval()
    x = torch.rand(2, 1, 32, 32)
    with torch.no_grad():
        assert torch.allclose(theirs(x), runs.load_encoder(tmp_path / "model")(x), atol=1e-5)


OFFLINE = """
import sys
from isotherm.share import hub

try:
    hub.download("hf:somebody/something", None)
except ValueError as error:
    print(error)
"""


def test_without_a_network_the_hub_is_told_in_a_sentence_by_a_fresh_process():
    """huggingface_hub imports its parts when they are first asked for; another test may have asked."""
    nowhere = {**os.environ, "HF_ENDPOINT": "https://hub.invalid", "HF_HUB_OFFLINE": "0"}
    unset = {k: v for k, v in nowhere.items() if "proxy" not in k.lower()}
    line = [sys.executable, "-c", OFFLINE]
    said = subprocess.run(line, env=unset, check=True, capture_output=True, text=True).stdout
    assert said == "no network: hub.invalid is not known here. A folder needs none.\n"
