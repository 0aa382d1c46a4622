"""Losses, encoders, data, temperatures from the user's files: as they are typed, recorded, trusted and refused."""

import json

import pytest
import torch
import yaml

from installed import install
from isotherm import doors
from isotherm.cli import main
from isotherm.train import runs
from isotherm.train.commandline import configure, parse
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from small_runs import OWN_LOSS, weights

SMALL = {"images": 256, "batch": 64, "epochs": 2, "monitor": 0, "encoder.widths": [8]}
WORDS = ["--images", "256", "--batch", "64", "--epochs", "2", "--monitor", "0", "--quiet"]
pytestmark = pytest.mark.usefixtures("nobody_is_trusted")


@pytest.fixture
def mine(tmp_path):
    """A file in a folder whose name has spaces."""
    path = tmp_path / "my own" / "mine.py"
    path.parent.mkdir()
    path.write_text(OWN_LOSS)
    return path


def refused(words, said, capsys):
    capsys.readouterr()
    assert main([str(w) for w in words]) == 2
    err = capsys.readouterr().err
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err
    return err


# losses


def test_a_loss_from_a_file_trains_and_its_settings_are_its_constructor_s(mine, tmp_path):
    words = ["--loss", f"{mine}:Mine", "--loss.scale", "3", *WORDS, "--encoder.widths", "[8]"]
    assert main(["train", *words, "--out", str(tmp_path / "a")]) == 0
    recorded = yaml.safe_load((tmp_path / "a/config.yaml").read_text())["loss"]
    assert recorded == {"name": f"{mine}:Mine", "code": doors.digest(str(mine)), "temperature": 0.2, "scale": 3.0}
    assert list(recorded)[:2] == ["name", "code"]
    train(configure(SMALL), Runtime(out=tmp_path / "ours", quiet=True))
    losses = [json.loads((tmp_path / f"{n}/metrics.jsonl").read_text().splitlines()[0]) for n in ("a", "ours")]
    assert losses[0]["loss_mean"] == pytest.approx(3 * losses[1]["loss_mean"], rel=0.1)  # the weights part ways


def test_a_loss_without_a_value_per_query_is_refused_at_the_first_step(tmp_path, capsys):
    path = tmp_path / "mean.py"
    path.write_text("from isotherm.nn import Loss\nclass Mean(Loss):\n    def per_query(self, pairs):\n")
    path.write_text(f"{path.read_text()}        return (1 - pairs.positives).mean()\n")
    words = ["train", "--loss", f"{path}:Mean", *WORDS, "--encoder.widths", "[8]", "--out", tmp_path / "a"]
    refused(words, "Mean.per_query must give one value per query, shape (queries,); it gave shape ()", capsys)


def test_settings_without_annotations_are_read_as_yaml_and_unknown_ones_refused(mine):
    config, _, _ = parse(["--loss", f"{mine}:Typed", "--loss.scale", "5"])
    assert config.loss.settings == {"temperature": 0.3, "scale": 5}
    with pytest.raises(ValueError, match=r"temperature must be a number or \{name: …\}; got 'many'"):
        parse(["--loss", f"{mine}:Mine", "--loss.temperature", "many"])
    with pytest.raises(ValueError, match=r"did you mean '--loss\.scale'"):
        parse(["--loss", f"{mine}:Mine", "--loss.scal", "5"])


def test_an_edited_file_is_another_run_and_the_same_file_resumes(mine, tmp_path, capsys):
    words = ["train", "--loss", f"{mine}:Mine", *WORDS, "--encoder.widths", "[8]", "--out", tmp_path / "a"]
    assert main([str(w) for w in words]) == 0
    whole = weights(tmp_path / "a")
    before = configure({"loss": f"{mine}:Mine"})
    (tmp_path / "a/result.json").unlink()
    assert main([*map(str, words), "--resume"]) == 0
    assert all(torch.equal(v, weights(tmp_path / "a")[k]) for k, v in whole.items())
    mine.write_text(OWN_LOSS + "\n# edited\n")
    assert configure({"loss": f"{mine}:Mine"}).key != before.key
    refused([*words, "--resume"], f"loss.code: {before.loss.code} → {doors.digest(str(mine))}", capsys)


BAD = {
    "does not import": ("import nothing_like_this\n", "Mine", "does not import: line 1: ModuleNotFoundError"),
    "does not parse": ("class Mine(:\n", "Mine", "SyntaxError"),
    "ends the program": ("import sys\nsys.exit(0)\n", "Mine", "ends the program when it is imported"),
    "has no such class": (OWN_LOSS, "Mne", "did you mean 'Mine'?"),
    "is no loss": ("class Mine:\n    pass\n", "Mine", "inherits from isotherm.nn.Loss"),
    "is no class": ("def Mine():\n    pass\n", "Mine", "Mine is a function; a loss is a class"),
    "is a file": (OWN_LOSS, None, "say what in it"),
}


@pytest.mark.parametrize(("code", "name", "said"), BAD.values(), ids=BAD)
def test_what_is_no_loss_is_told_in_one_line_and_nothing_is_written(code, name, said, mine, tmp_path, capsys):
    mine.write_text(code)
    address = f"{mine}:{name}" if name else str(mine)
    err = refused(["train", "--loss", address, *WORDS, "--out", tmp_path / "a"], said, capsys)
    assert err.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_a_file_that_is_not_there_and_a_constructor_that_fails_are_told(mine, tmp_path, capsys):
    refused(["train", "--loss", "./nowhere.py:Mine", "--out", tmp_path / "a"], "no file ./nowhere.py", capsys)
    mine.write_text(OWN_LOSS.replace("self.scale = scale", "raise RuntimeError('no luck')"))
    said = f"{mine}:Mine does not run: RuntimeError: no luck."
    refused(["train", "--loss", f"{mine}:Mine", *WORDS, "--out", tmp_path / "a"], said, capsys)


def test_what_a_file_prints_goes_to_standard_error(mine, capsys):
    mine.write_text("print('hello')\n" + OWN_LOSS)
    assert main(["train", "--loss", f"{mine}:Mine", "--print_config"]) == 0
    shown = capsys.readouterr()
    assert "hello" in shown.err
    assert yaml.safe_load(shown.out)["loss"]["name"] == f"{mine}:Mine"


# who may name code


def test_code_that_a_yaml_file_names_is_run_only_when_trusted_or_typed(mine, tmp_path, capsys):
    path, ran = tmp_path / "c.yaml", tmp_path / "ran"
    mine.write_text(f"open({str(ran)!r}, 'w').close()\n" + OWN_LOSS)
    for settings in (
        {"loss": {"name": f"{mine}:Mine", "scale": 2.0}},
        {"loss": {"name": "NTXentLoss", "temperature": {"name": f"{mine}:tau"}}},
        {"encoder": f"{mine}:Net"},
        {"data": f"{mine}:images"},
    ):
        path.write_text(yaml.safe_dump(settings))
        refused(["train", "--config", path, "--print_config"], "--trust-code", capsys)
        assert not ran.exists()
    path.write_text(yaml.safe_dump({"loss": {"name": f"{mine}:Mine", "scale": 2.0}}))
    assert main(["train", "--config", str(path), "--loss", "NTXentLoss", "--print_config"]) == 0  # another one
    assert not ran.exists()
    assert main(["train", "--config", str(path), "--loss", f"{mine}:Mine", "--print_config"]) == 0
    assert "scale: 2.0" in capsys.readouterr().out
    doors._allowed.clear()
    assert main(["train", "--config", str(path), "--trust-code", "--print_config"]) == 0


def test_a_run_is_probed_without_the_code_of_its_loss(mine, tmp_path):
    train(configure({**SMALL, "loss": f"{mine}:Mine"}), Runtime(out=tmp_path / "a", quiet=True))
    doors._allowed.clear()
    mine.write_text("raise RuntimeError('run again')\n")
    assert main(["evaluate", str(tmp_path / "a"), "--probe", "knn"]) == 0
    assert runs.open_run(tmp_path / "a").config.loss.name == f"{mine}:Mine"


# encoders

ENCODER = """
from torch import nn

class Net(nn.Module):
    def __init__(self, channels, width_: int = 8):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, width_, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.layers(x)

def flat(size: int, channels: int):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, 5))

def number():
    return 3
"""


def test_an_encoder_from_a_file_is_told_its_images_and_probed_once_trusted(mine, tmp_path, capsys):
    mine.write_text(ENCODER)
    settings = {k: v for k, v in SMALL.items() if "widths" not in k}
    out = tmp_path / "a"
    train(configure({**settings, "encoder": f"{mine}:Net", "encoder.width_": 6}), Runtime(out=out, quiet=True))
    assert json.loads((out / "encoder.json").read_text())["width"] == 6
    assert runs.load_encoder(out).width == 6
    doors._allowed.clear()
    refused(["evaluate", out, "--probe", "knn"], "--trust-code", capsys)
    with pytest.raises(ValueError, match="--trust-code"):
        runs.load_encoder(out)
    assert main(["evaluate", str(out), "--probe", "knn", "--trust-code"]) == 0
    mine.write_text(ENCODER.replace("nn.ReLU", "nn.Tanh"))
    refused(["evaluate", out, "--probe", "knn", "--trust-code"], "code has changed since this run", capsys)
    with pytest.raises(ValueError, match="has changed since"):
        runs.load_encoder(out)


def test_a_function_may_give_the_encoder_and_what_is_none_is_told(mine, tmp_path, capsys):
    mine.write_text(ENCODER)
    settings = {k: v for k, v in SMALL.items() if "widths" not in k}
    train(configure({**settings, "encoder": f"{mine}:flat"}), Runtime(out=tmp_path / "a", quiet=True))
    assert runs.load_encoder(tmp_path / "a").width == 5
    said = "number gives a int; an encoder is an nn.Module"
    refused(["train", "--encoder", f"{mine}:number", *WORDS, "--out", tmp_path / "b"], said, capsys)


# data

DATA = """
import numpy as np
from isotherm.data.sets import load

def images(split, bright: int = 0):
    return load("digits", split)

def pair():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (64, 8, 8, 1), np.uint8), np.arange(64) % 4

def parts():
    return {"train": pair(), "test": pair()}

def sentences():
    words = "the a cat dog bird sees eats likes one two red blue".split()
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(words, 6)) for _ in range(80)]

def nothing():
    return 3

def broken():
    return {}["key"]
"""


@pytest.mark.parametrize(("name", "knn"), [("images", True), ("parts", True), ("pair", False)])
def test_images_come_from_a_function(name, knn, mine, tmp_path):
    mine.write_text(DATA)
    settings = {**SMALL, "images": 64, "batch": 32, "data": f"{mine}:{name}"}
    result = train(configure(settings), Runtime(out=tmp_path / "a", quiet=True))
    assert ("knn" in result.measures) == knn
    assert result.config["data_options"] == {"code": doors.digest(str(mine))}
    assert len(runs.open_run(tmp_path / "a").images) == 64


def test_a_function_s_own_arguments_are_data_options(mine):
    mine.write_text(DATA)
    config = configure({"data": f"{mine}:images", "data_options": {"bright": 1}})
    assert config.data_options == {"code": doors.digest(str(mine)), "bright": 1}
    assert configure(config.as_dict()) == config
    assert configure({**config.as_dict(), "data": "digits", "data_options": {"code": "old"}}).data_options == {}


def test_sentences_come_from_a_function(mine, tmp_path):
    pytest.importorskip("transformers")
    mine.write_text(DATA)
    small = {"encoder.width": 16, "encoder.layers": 1, "encoder.heads": 2, "encoder.vocabulary": 300}
    config = configure({"data": f"{mine}:sentences", "batch": 16, "epochs": 1, "monitor": 0, **small})
    assert (config.method.name, config.encoder.name) == ("simcse", "text_small")
    assert train(config, Runtime(out=tmp_path / "a", quiet=True)).steps == 5
    assert runs.open_text_encoder(tmp_path / "a")[1].width == 16


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nothing", "nothing gives a int; wanted is"),
        ("broken", "broken does not run: KeyError: 'key'."),
        ("pair --data_options {dark:\u00a01}", "has no option 'dark'"),
        ("sentences --encoder convnet --method simclr", "gives sentences"),
        ("missing", "has no 'missing'"),
    ],
)
def test_data_that_cannot_be_used_is_told_in_one_line(words, said, mine, tmp_path, capsys):
    mine.write_text(DATA)
    name, *more = words.split(" ")
    more = [w.replace("\u00a0", " ") for w in more]
    refused(["train", "--data", f"{mine}:{name}", *more, "--batch", "8", "--out", tmp_path / "a"], said, capsys)


# temperatures

TEMPERATURES = """
def tau(s, low=0.1):
    return low + 0.1 * s.detach().abs()

class Ramp:
    def __init__(self, low: float, high: float = 0.5):
        self.low, self.high = low, high

    def __call__(self, s):
        return self.low + (self.high - self.low) * s.detach().abs()

number = 3
"""


def test_a_temperature_from_a_file_is_a_function_or_a_class_with_settings(mine, tmp_path, capsys):
    mine.write_text(TEMPERATURES)
    config, _, _ = parse(["--loss.temperature", f"{mine}:Ramp", "--loss.temperature.low", "0.2"])
    code = doors.digest(str(mine))
    assert config.loss["temperature"] == {"name": f"{mine}:Ramp", "code": code, "low": 0.2}
    assert parse(["--loss.temperature", f"{mine}:tau"])[0].loss["temperature"] == {"name": f"{mine}:tau", "code": code}
    for i, tau in enumerate((f"{mine}:tau", {"name": f"{mine}:tau", "low": 0.2}, {"name": f"{mine}:Ramp", "low": 0.2})):
        train(configure({**SMALL, "loss.temperature": tau}), Runtime(out=tmp_path / str(i), quiet=True))
    assert not torch.equal(*(weights(tmp_path / n)["network.encoder.conv1.0.weight"] for n in "01"))
    words = ["train", *WORDS, "--out", tmp_path / "x", "--loss.temperature"]
    refused([*words, f"{mine}:number"], "number is a int; a temperature is a function", capsys)
    refused([*words, f"{mine}:Ramp"], "missing 1 required positional argument: 'low'", capsys)
    refused([*words, f"{mine}:tau", "--loss.temperature.lo", "1"], "did you mean 'low'?", capsys)


# installed packages


def test_what_an_installed_package_offers_is_found_like_our_own(tmp_path, monkeypatch):
    groups = {"losses": "Mine", "encoders": "Net", "data": "parts", "temperatures": "tau"}
    points = {group: f"their-{group} = theirs:{name}" for group, name in groups.items()}
    install(tmp_path, "theirs", OWN_LOSS + ENCODER + DATA + TEMPERATURES, **points)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = {k: v for k, v in SMALL.items() if "widths" not in k} | {"images": 64, "batch": 32}
    settings |= {"loss": "their-losses", "encoder": "their-encoders", "data": "their-data"}
    config = configure({**settings, "loss.temperature": {"name": "their-temperatures"}})
    assert config.loss["name"] == "their-losses"
    assert "knn" in train(config, Runtime(out=tmp_path / "a", quiet=True)).measures
    doors._allowed.clear()
    assert runs.open_run(tmp_path / "a").config == config
    with pytest.raises(ValueError, match="did you mean 'their-losses'"):
        configure({"loss": "their-loses"})


def test_a_module_is_named_with_dots(tmp_path, monkeypatch):
    (tmp_path / "importable_loss.py").write_text(OWN_LOSS)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = configure({**SMALL, "loss": "importable_loss:Mine"})
    assert "code" not in config.loss
    assert train(config, Runtime(out=tmp_path / "a", quiet=True)).steps == 8
