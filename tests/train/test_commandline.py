"""Settings as they are typed: their order, their keys, their help, and what is refused."""

from pathlib import Path

import pytest

from isotherm.cli import main
from isotherm.train.build import build
from isotherm.train.commandline import configure, parse
from isotherm.train.config import Config
from isotherm.train.layers import LATER, differences, nested
from isotherm.train.specifications import specifications


def test_printed_configuration_round_trips(tmp_path, capsys):
    words = ["--preset", "cacr-cifar10-k4", "--loss.t_neg", "0.7", "--lr", "0.02", "--milestones", "[3, 5]"]
    assert main(["train", *words, "--print_config"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "c.yaml").write_text(printed)
    assert main(["train", "--config", str(tmp_path / "c.yaml"), "--print_config"]) == 0
    assert capsys.readouterr().out == printed
    config, _, _ = parse(["--config", str(tmp_path / "c.yaml")])
    assert config.loss["t_neg"] == 0.7
    assert config.milestones == [3, 5]
    assert config == parse(words)[0]


def test_a_list_is_typed_with_or_without_brackets():
    for words in ("--milestones 3,5 --log tensorboard", "--milestones [3,5] --log [tensorboard]"):
        config, place, _ = parse(["--schedule", "step", *words.split()])
        assert (config.milestones, place.log) == ([3, 5], ["tensorboard"])
    assert parse(["--encoder.widths", "8"])[0].encoder.settings["widths"] == [8]


def test_settings_override_in_order_and_another_loss_starts_afresh(tmp_path):
    (tmp_path / "c.yaml").write_text("loss: {name: HardContrastiveLoss, temperature: 0.9}\nepochs: 7\n")
    file = ["--preset", "wang-liu-cifar10", "--config", str(tmp_path / "c.yaml")]
    config, place, _ = parse([*file, "--epochs", "9", "--out", "x", "--resume"])
    assert (config.epochs, config.loss["temperature"], config.batch) == (9, 0.9, 128)
    assert place.resume
    assert place.out == Path("x")
    other, _, _ = parse([*file, "--loss", "NTXentLoss"])
    assert other.loss == {"name": "NTXentLoss", "temperature": 0.2}


def test_of_epochs_and_steps_the_upper_layer_counts(tmp_path):
    (tmp_path / "c.yaml").write_text("steps: 70\n")
    file = ["--preset", "wang-liu-cifar10", "--config", str(tmp_path / "c.yaml")]
    assert (parse(file)[0].epochs, parse(file)[0].steps) == (None, 70)
    config = parse([*file, "--epochs", "9"])[0]
    assert (config.epochs, config.steps) == (9, None)
    config = parse(["--preset", "wang-liu-cifar10", "--steps", "9"])[0]
    assert (config.epochs, config.steps) == (None, 9)
    assert configure(config.as_dict()) == config
    assert nested(config.as_dict()) == config.as_dict()  # as a run's folder has it
    with pytest.raises(ValueError, match="say one thing in two ways"):
        configure({"epochs": 3, "steps": 5})


def test_settings_that_came_later_are_in_no_key_unless_they_are_given():
    assert configure({}).key == "1e3e922efc06a4e0"
    assert len({configure(s).key for s in ({}, {"steps": 280}, {"warmup_part": 0.1}, {"warmup": 4.0})}) == 4


def test_options_of_the_data_are_given_like_those_of_any_part():
    dotted, _, _ = parse(["--data", "imagenette", "--data.size", "72"])
    whole, _, _ = parse(["--data", "imagenette", "--data_options", "{size: 72}"])
    assert dotted == whole
    assert dotted.data_options == {"size": 72}


def test_place_does_not_change_the_key_and_science_does():
    a, _, _ = parse(["--out", "a", "--device", "cpu", "--checkpoint", "3"])
    b, _, _ = parse(["--out=b"])
    c, _, _ = parse(["--out", "b", "--loss.temperature=0.3"])
    assert a.key == b.key == Config(**a.__dict__).key
    assert c.key != a.key
    assert differences(a.as_dict(), c.as_dict()) == ["loss.temperature: 0.2 → 0.3"]


VAE = {
    "data": "mnist",
    "recipe": "none",
    "views": 1,
    "encoder": "vae",
    "head": "none",
    "method": "vae",
    "randbit": 8,
    "epochs": 50,
    "batch": 128,
    "optimizer": "adam",
    "lr": 1e-3,
    "weight_decay": 0.0,
}
AS_BEFORE = {
    "1e3e922efc06a4e0": configure({}),
    "dc3cafca4f86aca6": configure({"digits": 5, "randbit": 3}),
    "56020467844c1989": configure(VAE),
}
"""Keys that version 0.2 gave."""


def test_settings_that_came_later_change_no_key_where_they_mean_as_before():
    assert {config.key: config for config in AS_BEFORE.values()} == AS_BEFORE
    others = [
        {"digits": 5, "randbit": 3, "digit_source": "mnist"},
        {"digits": 5, "randbit": 3, "digit_size": 14},
        {"digits": 5, "randbit": 3, "digit_places": "grid"},
        {"digits": 5, "randbit": 3, "digit_blend": "sum"},
    ]
    vaes = [
        {"method.plane_weight": "area"},
        {"method.beta": 0.5},
        {"encoder.widths": [32, 64, 64]},
        {"encoder.bn": True},
        {"encoder.padding": 0},
    ]
    keys = {configure(o).key for o in others} | {configure({**VAE, **v}).key for v in vaes}
    assert len(keys - AS_BEFORE.keys()) == len(others) + len(vaes)


@pytest.mark.parametrize(("part", "name"), LATER)
def test_the_value_that_means_as_before_is_the_default(part, name):
    names = {"encoder": "convnet", "head": "none", "predictor": "none", "method": "simclr", "loss": "NTXentLoss"}
    specs = specifications({p: {"name": n} for p, n in {**names, part: name}.items()})
    for setting, value in LATER[part, name].items():
        assert specs[f"{part}.{setting}"][1] == value


@pytest.mark.parametrize("command_line", ["--loss DCLLoss --loss.temperature 0.3", "--method bank --loss.alpha 0.1"])
def test_a_temperature_can_be_anything_that_has_a_name(command_line):
    if "alpha" in command_line:
        with pytest.raises(ValueError, match="has no setting 'alpha'"):
            parse(command_line.split())
        return
    assert parse(command_line.split())[0].loss["temperature"] == 0.3
    cosine = configure({"loss.temperature": {"name": "Cosine", "tau_min": 0.1, "tau_max": 0.3}})
    assert build(cosine).method.loss.temperature.tau_max == 0.3


MISTAKES = [
    ("--loss.temprature 0.1", "did you mean '--loss.temperature'?"),
    ("--epoch 3", "did you mean '--epochs'?"),
    ("--batch many", "batch must be a whole number; got 'many'"),
    ("--batch 0", "batch must be 1 or more, got 0"),
    ("--lr -1", "lr must be positive"),
    ("--method mocov22", "did you mean 'mocov2'?"),
    ("--loss NTXent", "did you mean 'NTXentLoss'?"),
    ("--encoder resnet19", "did you mean 'resnet18'?"),
    ("--head simclr2", "did you mean 'simclr'?"),
    ("--data digit", "did you mean 'digits'?"),
    ("--preset wang-liu", "did you mean 'wang-liu-"),
    ("--config nowhere.yaml", "cannot read nowhere.yaml"),
    ("--digit_source mnists", "digit_source must be one of digits, mnist; got 'mnists'"),
    ("--digit_size 0", "digit_size must be 1 or more, got 0"),
    ("--method vae --method.plane_weight much", "plane_weight must be a number or area; got 'much'"),
    ("--schedule sometimes", "schedule must be one of constant, step, cosine, linear; got 'sometimes'"),
    ("--optimizer", "--optimizer"),
    ("--loss.temperature -1", "temperature must be a positive number, got -1.0"),
    ("--loss.temperature {name:Cos}", "{name: …}"),
    ("--method byol --loss NTXentLoss", "it takes BYOLLoss or SimSiamLoss"),
    ("--method supervised --loss NTXentLoss", "takes no loss"),
    ("--method bank --views 2", "one view of each image"),
    ("--views 1", "method 'simclr' needs 2 or more views"),
    ("--batch 9999", "larger than digits"),
    ("--log_every 0", "log_every must be 1 or more"),
    ("--prefetch -1", "prefetch and checkpoint must be 0 or more"),
    ("--epochs 3 --steps 9", "epochs (3) and steps (9) say one thing in two ways: give one of them"),
    ("--epochs null", "a run needs a length: give epochs or steps"),
    ("--steps 0", "steps must be 1 or more, got 0"),
    ("--warmup 1 --warmup_part 0.1", "warmup (1) and warmup_part (0.1) say one thing in two ways"),
    ("--warmup_part 1", "warmup_part lies in [0, 1), got 1"),
    ("--steps 4 --warmup 1", "leaves no other steps"),
    ("--head.affine_last shift", "head.affine_last must be true or false or scale; got 'shift'"),
    ("--clip many", "clip must be a number or null; got 'many'"),
    ("--lr null", "lr must be a number; got 'null'"),
    ("--loss.temperature {name:\u00a0Cosine,\u00a0tau:\u00a01}", "Cosine has no setting 'tau'"),
    ("--milestones [3]", "milestones belong to --schedule step"),
    ("--normalize cifar10", "for 3 channels; digits has 1"),
    ("--device tpu", "device must be auto, cpu, cuda or mps"),
    ("--images 99999", "cannot take 99999"),
    ("--precision 16-mixed", "16-mixed needs a GPU"),
    ("--log paper", "log takes tensorboard or wandb"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[w for w, _ in MISTAKES])
def test_a_mistake_is_told_in_one_line(words, said, tmp_path, capsys):
    given = [w.replace("\u00a0", " ") if w != "paper" else '["paper"]' for w in words.split(" ")]
    assert main(["train", *given, "--out", str(tmp_path / "a")]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_help_names_every_setting_preset_and_method(capsys):
    assert main(["train", "--help", "--loss", "CACRLoss"]) == 0
    text = capsys.readouterr().out
    for word in ("--epochs", "--loss.t_neg", "--resume", "wang-liu-cifar10", "mocov3", "examples:"):
        assert word in text


def test_a_method_that_would_ignore_what_it_is_named_for_is_told_before_anything_runs(tmp_path, capsys):
    assert main(["train", "--method", "supcon", "--loss", "NTXentLoss", "--out", str(tmp_path / "a")]) == 2
    assert "use --loss SupConLoss, or --method simclr" in capsys.readouterr().err
    assert main(["train", "--loss", "SupConLoss", "--out", str(tmp_path / "a")]) == 2
    assert "use --method supcon" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    (tmp_path / "mine.py").write_text(
        "from isotherm.nn import *\nclass Mine(CACRLoss): pass\nclass Other(NTXentLoss): pass\n"
    )
    assert configure({"method": "cacr", "loss": f"{tmp_path}/mine.py:Mine"})
    assert configure({"method": "cacr", "loss": "UAURLoss"})
    assert configure({"loss": f"{tmp_path}/mine.py:Other"})
    with pytest.raises(ValueError, match="use --method simclr for that loss"):
        configure({"method": "cacr", "loss": f"{tmp_path}/mine.py:Other"})


BOMB = "{a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9, 0], b: &b [*a, *a, *a, *a, *a, *a], c: &c [*b, *b, *b, *b, *b, *b, *b, *b], "
BOMB += "d: &d [*c, *c, *c, *c, *c, *c, *c], e: &e [*d, *d, *d, *d, *d, *d, *d, *d], f: [*e, *e, *e, *e, *e, *e, *e]}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "more than 10,000 values"),
        ("{a: &a [1, *a]}", "more than 10,000 values"),
        ("[" * 700 + "]" * 700, "nested too deeply"),
        ("{size: 32, size: 64}", "says 'size' twice"),
    ],
    ids=["bomb", "itself", "deep", "twice"],
)
def test_yaml_that_cannot_be_meant_is_refused(text, why, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(f"data_options: {text}\n")
    for words in (["--config", str(file)], ["--data_options", text]):
        with pytest.raises(ValueError, match=why):
            parse(words)
    file.write_text("#" * 1_000_001)
    with pytest.raises(ValueError, match="more than 1,000,000 characters"):
        parse(["--config", str(file)])


def test_a_number_that_no_float_holds_is_a_sentence(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("lr: 1" + ":59" * 300)  # YAML's sexagesimal numbers
    for words in (["--config", str(file)], ["--lr", "9" * 400]):
        with pytest.raises(ValueError, match="larger than any that can be computed with"):
            parse(words)


def test_aliases_that_repeat_a_little_are_read(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("encoder: {name: convnet, widths: &w [8, 16]}\ndata_options: {sizes: *w}\n")
    config = parse(["--config", str(file)])[0]
    assert config.data_options == {"sizes": [8, 16]}


def test_a_wrong_value_in_a_file_is_told_as_it_stands_there(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("epochs: soon\n")
    assert main(["train", "--config", str(tmp_path / "a.yaml"), "--epochs", "1", "--out", str(tmp_path / "r")]) == 2
    assert "epochs must be a whole number or null; got 'soon'." in capsys.readouterr().err


def test_a_seed_that_no_generator_takes_is_refused():
    with pytest.raises(ValueError, match="seed must be below"):
        configure({"seed": 1 << 63})
