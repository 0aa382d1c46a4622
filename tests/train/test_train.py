"""Training as a user meets it: real processes, killed, stopped, resumed, in pairs; and what it refuses."""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
import yaml

from isotherm import nn, world
from isotherm.cli import main
from isotherm.data.imbalance import fraction
from isotherm.methods import METHODS
from isotherm.probes.extract import features_of
from isotherm.temperature import Learnable
from isotherm.train import runs
from isotherm.train.build import build, material
from isotherm.train.commandline import configure, parse
from isotherm.train.config import Config, Runtime
from isotherm.train.devices import fabric_for
from isotherm.train.layers import differences
from isotherm.train.loop import Diverged, Run, Stopped, monitor_due, run_to_end, train
from isotherm.train.modality.images import images_of
from isotherm.train.monitor import monitor
from isotherm.train.optimizers import LARS, optimizer
from isotherm.train.presets import PRESETS
from isotherm.train.schedule import Schedule, scaled_rate
from isotherm.train.state import load_checkpoint

SMALL = {"images": 512, "batch": 128, "epochs": 2, "monitor": 0, "encoder.widths": [8, 16]}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(out, **settings):
    return train(configure({**SMALL, **settings}), Runtime(out=out, quiet=True))


def weights(out):
    return torch.load(out / "checkpoint.pt", weights_only=True)["method"]


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def lines(out):
    found = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in found]


def command(out, *more, settings=SMALL):
    words = [w for name, value in settings.items() for w in (f"--{name}", json.dumps(value).strip('"'))]
    return [sys.executable, "-m", "isotherm.cli", "train", *words, "--out", str(out), *more]


# what it makes


def test_a_run_leaves_the_files_the_contract_names(tmp_path):
    out = tmp_path / "a"
    result = run(out)
    assert set(result.as_dict()) >= {"key", "config", "measures", "seconds", "versions", "seed"}
    assert json.loads((out / "result.json").read_text()) == result.as_dict()
    assert runs.read_result(out) == result
    assert 0 < result.measures["knn"] <= 1
    assert yaml.safe_load((out / "config.yaml").read_text()) == result.config
    saved = torch.load(out / "checkpoint.pt", weights_only=True)
    assert saved["step"] == 8
    encoder = runs.load_encoder(str(out))
    theirs = {k.removeprefix("network.encoder."): v for k, v in saved["method"].items() if "network.encoder" in k}
    assert same(dict(encoder.state_dict()), theirs)
    card = json.loads((out / "encoder.json").read_text())
    assert card["width"] == 16
    assert lines(out)[-1]["epoch"] == 2


@pytest.mark.parametrize("settings", [{}, {"ema": 0.9}, {"precision": "64-true"}, {"method": "byol"}], ids=str)
def test_a_run_that_has_just_ended_is_open_as_from_its_folder(settings, tmp_path):
    config, place = configure({**SMALL, **settings}), Runtime(out=tmp_path / "a", quiet=True, resume=True)
    finished = run_to_end(config, place)
    assert finished.result == runs.read_result(tmp_path / "a")
    opened, reopened = finished.opened, runs.open_run(tmp_path / "a")
    assert (opened.out, opened.config) == (reopened.out, reopened.config)
    for a, b in zip(opened.network.parameters(), reopened.network.parameters(), strict=True):
        assert (a.stride(), a.requires_grad, a.grad) == (b.stride(), b.requires_grad, b.grad)
    for network in ("network", "encoder"):
        ours, theirs = (r.network if network == "network" else r.network.encoder for r in (opened, reopened))
        a = features_of(ours, opened.test, opened.recipe)
        assert torch.equal(a, features_of(theirs, reopened.test, reopened.recipe))
    again = run_to_end(config, place)  # it had ended: from its folder
    assert again.result == finished.result
    assert torch.equal(a, features_of(again.opened.network.encoder, again.opened.test, again.opened.recipe))


def test_the_same_seed_gives_the_same_weights_and_another_gives_others(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(tmp_path / name, seed=seed)
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not same(weights(tmp_path / "a"), weights(tmp_path / "c"))
    assert lines(tmp_path / "a") == lines(tmp_path / "b")


LONGER = {
    "mocov2": {"method.queue": 512, "method.momentum": 0.9},
    "mocov3": {"method.momentum": 0.9},
    "byol": {"method.momentum": 0.9},
    "bank": {"loss.temperature": 0.3},
    "vae": {"lr": 3e-3, "optimizer": "adam", "weight_decay": 0.0, "recipe": "none", "epochs": 60},
    "barlow": {"lr": 0.01, "epochs": 20},
    "vicreg": {"lr": 0.02},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name != "simcse"])  # it reads sentences: test_text
def test_every_method_learns_more_than_its_untrained_encoder_knows(name, tmp_path):
    """kNN from a hundred labelled images: with all of them the untrained network is at 97 % already."""
    settings = {"method": name, "batch": 128, "epochs": 12, "monitor": 0, **LONGER.get(name, {})}
    config = configure(settings)
    built = build(config)
    test = images_of(config, "test")
    hundred = fraction(built.material.images, 100)
    built.method.eval()
    recipe = built.material.recipe
    before = monitor(built.method.network, hundred, test, recipe)["knn"]
    train(config, Runtime(out=tmp_path / "a", quiet=True))
    after = monitor(runs.open_run(tmp_path / "a").network, hundred, test, recipe)["knn"]
    assert after > before


def test_cacr_with_four_positives_and_a_momentum_queue_train(tmp_path):
    many = {"views": 5, "loss": "CACRLoss", "loss.t_neg": 0.9}
    queue = {"method.every_view": True, "method.intra_batch": True, "loss.detach_weights": "positive"}
    for i, more in enumerate(({"method": "cacr"}, {"method": "mocov2", "method.queue": 256, **queue})):
        run(tmp_path / str(i), **many, **more)
        losses = [line["loss_mean"] for line in lines(tmp_path / str(i))]
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", [name for name in PRESETS if not name.startswith("simcse")])  # test_text has those
def test_every_preset_takes_a_step_with_tiny_images(name, tmp_path):
    gray = name in ("digits", "chen-li-vae")
    rng = np.random.default_rng(0)
    shape = (8, 8, 8) if gray else (8, 32, 32, 3)
    arrays = {f"{s}_images": rng.integers(0, 256, shape, np.uint8) for s in ("train", "test")}
    arrays |= {f"{s}_labels": np.arange(8) % 2 for s in ("train", "test")}
    np.savez(tmp_path / "tiny.npz", **arrays)
    tiny = {"data": f"arrays:{tmp_path}/tiny.npz", "batch": 4, "epochs": 1, "monitor": 0, "images": 8}
    tiny |= {"size": 8 if gray else 32, "imbalance": "none", "precision": "32", "milestones": [], "warmup": 0.0}
    full = configure({}, preset=name)
    tiny["schedule"] = "cosine"
    if full.method["name"] == "mocov2":
        tiny["method.queue"] = 16
    if full.head["name"].startswith("mocov3"):
        tiny |= {"head.hidden": 32, "predictor.hidden": 32}
    if full.encoder["name"] in ("resnet50", "small_alexnet"):
        tiny["encoder"] = "convnet"  # the large ones are built below, and take their steps in other tests
        build(configure({**tiny, "encoder": full.encoder}, preset=name))
    result = train(configure(tiny, preset=name), Runtime(out=tmp_path / "a", quiet=True))
    assert result.steps == 2


# configuration


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


def test_every_preset_is_a_configuration_of_its_own():
    keys = {configure({}, preset=name).key for name in PRESETS}
    assert len(keys) == len(PRESETS)


def test_settings_override_in_order_and_another_loss_starts_afresh(tmp_path):
    (tmp_path / "c.yaml").write_text("loss: {name: HardContrastiveLoss, temperature: 0.9}\nepochs: 7\n")
    file = ["--preset", "wang-liu-cifar10", "--config", str(tmp_path / "c.yaml")]
    config, place, _ = parse([*file, "--epochs", "9", "--out", "x", "--resume"])
    assert (config.epochs, config.loss["temperature"], config.batch) == (9, 0.9, 128)
    assert place.resume
    assert place.out == Path("x")
    other, _, _ = parse([*file, "--loss", "NTXentLoss"])
    assert other.loss == {"name": "NTXentLoss", "temperature": 0.2}


def test_place_does_not_change_the_key_and_science_does():
    a, _, _ = parse(["--out", "a", "--device", "cpu", "--checkpoint", "3"])
    b, _, _ = parse(["--out=b"])
    c, _, _ = parse(["--out", "b", "--loss.temperature=0.3"])
    assert a.key == b.key == Config(**a.__dict__).key
    assert c.key != a.key
    assert differences(a.as_dict(), c.as_dict()) == ["loss.temperature: 0.2 → 0.3"]


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
    ("--schedule sometimes", "schedule must be one of constant, step, cosine, linear; got 'sometimes'"),
    ("--optimizer", "--optimizer"),
    ("--loss.temperature -1", "temperature must be a positive number, got -1.0"),
    ("--loss.temperature {name:Cos}", "{name: …}"),
    ("--method byol --loss NTXentLoss", "it takes BYOLLoss or SimSiamLoss"),
    ("--method supervised --loss NTXentLoss", "takes no loss"),
    ("--method bank --views 2", "one view of each image"),
    ("--views 1", "needs 2 or more views"),
    ("--batch 9999", "larger than digits"),
    ("--log_every 0", "log_every must be 1 or more"),
    ("--prefetch -1", "prefetch and checkpoint must be 0 or more"),
    ("--clip many", "clip must be a number or null; got 'many'"),
    ("--lr null", "lr must be a number; got 'null'"),
    ("--loss.temperature {name:\u00a0Cosine,\u00a0tau:\u00a01}", "unexpected keyword argument 'tau'"),
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


def test_a_run_needs_a_folder_of_its_own(tmp_path, capsys):
    words = ["train", *command("x")[4:-2]]
    assert main(words) == 2
    assert "--out DIR" in capsys.readouterr().err
    out = str(tmp_path / "a")
    assert main([*words, "--out", out, "--quiet"]) == 0
    assert main([*words, "--out", out]) == 2
    assert "--resume continues it" in capsys.readouterr().err
    assert main([*words, "--out", out, "--resume"]) == 0  # finished: nothing to do
    assert main([*words, "--out", out, "--resume", "--loss.temperature", "0.5"]) == 2
    assert "loss.temperature: 0.2 → 0.5" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").touch()
    assert main([*words, "--out", str(tmp_path / "full")]) == 2
    assert "not empty and holds no run" in capsys.readouterr().err


def test_help_names_every_setting_preset_and_method(capsys):
    assert main(["train", "--help", "--loss", "CACRLoss"]) == 0
    text = capsys.readouterr().out
    for word in ("--epochs", "--loss.t_neg", "--resume", "wang-liu-cifar10", "mocov3", "examples:"):
        assert word in text


# schedules and optimizers


def test_schedules_are_the_papers():
    step = [Schedule(0.03, 2000, 10, "step", [160, 190]).rate(e * 10) for e in (0, 159, 160, 189, 190, 199)]
    np.testing.assert_allclose(step, [0.03, 0.03, 0.003, 0.003, 0.0003, 0.0003])
    cosine = [Schedule(1.0, 100, 10, "cosine", warmup=1).rate(s) for s in (0, 9, 10, 55, 99)]
    np.testing.assert_allclose(cosine[:4], [0.1, 1.0, 1.0, 0.5], atol=1e-12)
    assert cosine[4] < 0.001
    assert Schedule(0.2, 100, 10, "constant").rate(70) == 0.2
    assert scaled_rate(0.12, 768, "linear") == pytest.approx(0.36)
    assert scaled_rate(0.075, 256, "sqrt") == pytest.approx(1.2)


def test_lars_is_its_formula_for_three_steps():
    torch.manual_seed(0)
    w = torch.randn(3, 2, dtype=torch.float64)
    b = torch.randn(2, dtype=torch.float64)
    weight, bias = w.clone().requires_grad_(), b.clone().requires_grad_()
    groups = [{"params": [weight], "weight_decay": 0.1}, {"params": [bias], "adapt": False}]
    made = LARS(groups, lr=0.5, momentum=0.9)
    v, u = torch.zeros_like(w), torch.zeros_like(b)
    for _ in range(3):
        made.zero_grad()
        ((weight**2).sum() + (bias**3).sum()).backward()
        g = 2 * w + 0.1 * w
        v = 0.9 * v + 0.001 * w.norm() / g.norm() * g
        u = 0.9 * u + 3 * b**2
        w, b = w - 0.5 * v, b - 0.5 * u
        made.step()
    torch.testing.assert_close(weight.detach(), w)
    torch.testing.assert_close(bias.detach(), b)


def test_weight_decay_spares_biases_norms_and_temperatures():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    module.add_module("loss", nn.NTXentLoss(Learnable(0.1)))
    spared = optimizer("sgd", module, 0.1, weight_decay=0.5, decay_all=False).param_groups
    assert [len(g["params"]) for g in spared] == [1, 4]
    assert [g["weight_decay"] for g in spared] == [0.5, 0.0]
    everything = optimizer("adamw", module, 0.1, weight_decay=0.5).param_groups
    assert [len(g["params"]) for g in everything] == [4, 1]


def test_temperature_follows_its_schedule_over_epochs(tmp_path):
    tau = {"name": "CosineSchedule", "tau_min": 0.1, "tau_max": 1.0, "period": 4}
    run(tmp_path / "a", epochs=3, **{"loss.temperature": tau})
    found = [line["temperature"] for line in lines(tmp_path / "a")]
    np.testing.assert_allclose(found, [1.0, 0.55, 0.1])


def test_a_large_seed_is_a_seed(tmp_path):
    assert run(tmp_path / "a", seed=20_000_000_000, epochs=1).seed == 20_000_000_000


def test_learnable_temperature_learns(tmp_path):
    run(tmp_path / "a", **{"loss.temperature": {"name": "Learnable", "initial": 0.2}})
    assert lines(tmp_path / "a")[-1]["temperature"] != 0.2


def test_measuring_happens_so_many_times_and_at_the_end():
    for epochs, times in ((40, 5), (7, 3), (3, 5), (10, 1), (5, 0)):
        when = [e for e in range(epochs) if monitor_due(e, epochs, times)]
        assert len(when) == min(epochs, times)
        assert not when or when[-1] == epochs - 1


# exactness


def test_parts_give_the_gradient_of_the_whole_batch(tmp_path):
    transformer = {"encoder": "vit_small", "encoder.depth": 1, "head": "mocov2", "epochs": 1, "lr": 0.01}
    for method in ("simclr", "mocov2"):
        queue = {"method.queue": 64} if method == "mocov2" else {}
        for parts in (1, 3):
            settings = {k: v for k, v in SMALL.items() if "widths" not in k} | transformer | queue
            train(
                configure({**settings, "method": method, "parts": parts}),
                Runtime(out=tmp_path / f"{method}{parts}", quiet=True),
            )
        whole, parted = weights(tmp_path / f"{method}1"), weights(tmp_path / f"{method}3")
        for name in whole:
            torch.testing.assert_close(parted[name], whole[name], rtol=1e-4, atol=1e-5)


def test_moving_average_is_what_is_exported(tmp_path):
    run(tmp_path / "a", ema=0.9)
    saved = torch.load(tmp_path / "a/checkpoint.pt", weights_only=True)
    encoder = runs.load_encoder(tmp_path / "a").state_dict()
    name = "conv1.0.weight"
    assert torch.equal(encoder[name], saved["average"][f"network.encoder.{name}"])
    assert not torch.equal(encoder[name], saved["method"][f"network.encoder.{name}"])
    assert torch.equal(runs.open_run(tmp_path / "a").network.encoder.state_dict()[name], encoder[name])


def test_mixed_precision_learns_clipped_and_with_channels_last(tmp_path):
    config = configure({**SMALL, "precision": "bf16-mixed", "clip": 1.0, "epochs": 3})
    train(config, Runtime(out=tmp_path / "a", quiet=True, channels_last=True))
    losses = [line["loss_mean"] for line in lines(tmp_path / "a")]
    assert losses[-1] < losses[0]
    assert weights(tmp_path / "a")["network.encoder.conv1.0.weight"].dtype == torch.float32


TWO = {
    "simclr": {},
    "cacr": {"method": "cacr", "views": 3},
    "bank": {"method": "bank", "method.negatives": 100},
    "mocov2": {"method": "mocov2", "method.queue": 200, "loss.temperature": 0.2},
    "algorithm 3": {
        "method": "mocov2",
        "method.queue": 200,
        "method.every_view": True,
        "method.intra_batch": True,
        "loss": "CACRLoss",
        "views": 3,
    },
    "unused": {"encoder": "vae", "head": "linear"},
    "mocov3": {"method": "mocov3", "optimizer": "lars", "lr": 1.0},
    "byol": {"method": "byol"},
    "barlow": {"method": "barlow", "lr": 0.001},
    "swd": {"loss": "GeneralizedContrastiveLoss", "lr": 0.001},
    "vae": {"method": "vae", "lr": 1e-3, "optimizer": "adam", "encoder": "vae"},
    "supervised": {"method": "supervised"},
    "parts": {"parts": 2, "encoder": "vit_small", "encoder.depth": 1, "head": "mocov2", "lr": 0.01},
}
FEW = {"images": 160, "batch": 33, "epochs": 2, "monitor": 0, "lr": 0.05, "precision": "64-true"}


def every_run(folder):
    for name, settings in TWO.items():
        train(configure({**FEW, **settings}), Runtime(out=Path(folder) / name, quiet=True))


def one_of_two(rank, folder, port):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GROUP_RANK": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "test"}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    every_run(folder)
    assert world.size() == 2
    with pytest.raises(Diverged):  # both notice, and neither waits for the other
        train(
            configure({**FEW, "lr": 1e300, "head": "mocov2", "epochs": 5}), Runtime(out=Path(folder) / "x", quiet=True)
        )
    world.leave()


@pytest.fixture(scope="module")
def one_and_two(tmp_path_factory):
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    every_run(one)
    mp.spawn(one_of_two, args=(str(two), 20000 + os.getpid() % 20000), nprocs=2)
    return one, two


@pytest.mark.slow
@pytest.mark.parametrize("name", TWO)
def test_two_processes_end_with_the_weights_of_one(name, one_and_two):
    one, two = (weights(folder / name) for folder in one_and_two)
    assert one.keys() == two.keys()
    for key in one:
        if "num_batches" not in key:
            torch.testing.assert_close(two[key], one[key], rtol=1e-6, atol=1e-8, msg=lambda m, key=key: f"{key}: {m}")
    a, b = (lines(folder / name)[0]["loss_mean"] for folder in one_and_two)
    assert b == pytest.approx(a, rel=1e-8)


@pytest.mark.slow
def test_torchrun_trains_and_one_process_finishes(tmp_path):
    """Two processes are stopped on the way; one goes on, and ends where one process ends."""
    settings = {**SMALL, "epochs": 30, "lr": 0.01}
    out = tmp_path / "a"
    words = command(out, "--checkpoint", "0", "--log_every", "1", "--device", "cpu", settings=settings)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port"]
    launch += [
        str(20000 + (os.getpid() + 7) % 20000),
        "-m",
        "--",
        *words[2:],
    ]  # else torchrun takes --monitor for its own
    process = subprocess.Popen(launch, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    wait_for_steps(out, 5, process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=180)  # torchrun gives its workers half a minute
    stopped_at = torch.load(out / "checkpoint.pt", weights_only=True)["step"]
    assert 5 <= stopped_at < 120
    done = subprocess.run([*words, "--resume"], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    train(configure(settings), Runtime(out=tmp_path / "whole", quiet=True))
    mixed, whole = lines(out), lines(tmp_path / "whole")
    assert mixed[-1]["loss_mean"] == pytest.approx(whole[-1]["loss_mean"], rel=2e-2)
    assert [line["step"] for line in mixed if "epoch" not in line] == list(range(1, 121))


# surviving


def wait_for_steps(out, steps, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        path = out / "metrics.jsonl"
        if path.exists() and path.read_bytes().count(b"\n") >= steps:
            return
        if process.poll() is not None:
            return
        time.sleep(0.01)
    raise AssertionError(f"no progress: {process.poll()}")


@pytest.mark.slow
def test_run_killed_ten_times_resumes_to_the_same_weights(tmp_path):
    settings = {**SMALL, "method": "mocov2", "method.queue": 300, "epochs": 60, "monitor": 4, "ema": 0.9}
    settings["loss.temperature"] = {"name": "Learnable", "initial": 0.2}
    more = ["--log_every", "1", "--checkpoint", "0.05"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(whole, *more, settings=settings), env=ENVIRONMENT, check=True, capture_output=True)
    chance = random.Random(5)
    kills = 0
    while not (killed / "result.json").exists():
        words = command(killed, *more, "--resume", settings=settings)
        process = subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if kills == 10:
            _, err = process.communicate(timeout=300)
            assert process.returncode == 0, err.decode()
            break
        there = (killed / "metrics.jsonl").read_bytes().count(b"\n") if (killed / "metrics.jsonl").exists() else 0
        wait_for_steps(killed, there + chance.randint(1, 12), process)
        time.sleep(chance.random() * 0.05)
        process.kill()
        process.communicate()
        kills += 1
    assert kills == 10
    a, b = (torch.load(f / "checkpoint.pt", weights_only=True) for f in (whole, killed))
    assert same(a["method"], b["method"])
    assert same(a["average"], b["average"])
    assert lines(whole) == lines(killed)
    assert (whole / "encoder.safetensors").read_bytes() == (killed / "encoder.safetensors").read_bytes()
    results = [json.loads((f / "result.json").read_text())["measures"] for f in (whole, killed)]
    assert results[0] == results[1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_saves_and_says_how_to_go_on(number, tmp_path):
    out = tmp_path / "a"
    words = command(out, "--log_every", "1", settings={**SMALL, "epochs": 400})
    process = subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    wait_for_steps(out, 3, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "--resume" in err
    assert "Traceback" not in err
    assert torch.load(out / "checkpoint.pt", weights_only=True)["step"] >= 3


def test_a_loss_that_is_not_finite_stops_with_the_batch_saved(tmp_path):
    with pytest.raises(Diverged, match=r"not finite.*temperature 0.2"):
        run(tmp_path / "a", lr=1e30, head="mocov2", epochs=5)
    saved = torch.load(tmp_path / "a/nonfinite.pt", weights_only=True)
    assert len(saved["ids"]) == 128
    assert saved["temperature"] == 0.2
    assert saved["step"] >= 1


def test_steps_that_are_not_finite_can_be_skipped_and_counted(tmp_path):
    result = run(tmp_path / "a", lr=1e30, head="mocov2", nonfinite="skip")
    assert result.measures["skipped"] > 0
    assert lines(tmp_path / "a")[-1]["skipped"] == result.measures["skipped"]


def test_collapse_is_noticed(tmp_path, capsys):
    words = ["--method", "byol", "--method.momentum", "0", "--method.momentum_end", "0", "--lr", "0.5"]
    words += ["--head", "linear", "--predictor", "linear", "--batch", "128", "--epochs", "15", "--monitor", "0"]
    assert main(["train", *words, "--out", str(tmp_path / "a")]) == 0
    assert "collapse" in capsys.readouterr().err


@pytest.mark.slow
def test_on_a_full_disk_the_last_good_checkpoint_survives(tmp_path):
    out = tmp_path / "a"
    words = command(out, "--log_every", "1", settings={**SMALL, "epochs": 400})
    process = subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    wait_for_steps(out, 3, process)
    process.send_signal(signal.SIGTERM)
    process.wait()
    good = (out / "checkpoint.pt").read_bytes()
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY));"
        "from isotherm.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    again = [sys.executable, "-c", code, *words[3:], "--resume", "--checkpoint", "0"]
    done = subprocess.run(again, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "untouched" in done.stderr
    assert "Traceback" not in done.stderr
    assert (out / "checkpoint.pt").read_bytes() == good
    assert not [p for p in out.glob(".*") if p.name != ".lock"]


def test_other_images_under_the_same_name_are_noticed(tmp_path):
    rng = np.random.default_rng(0)

    def write():
        np.savez(tmp_path / "d.npz", images=rng.integers(0, 256, (64, 8, 8), np.uint8), labels=np.arange(64) % 4)

    write()
    settings = {**SMALL, "data": f"arrays:{tmp_path}/d.npz", "images": None, "batch": 32, "test": "train"}
    first = material(configure(settings)).fingerprint()
    train(configure(settings), Runtime(out=tmp_path / "a", quiet=True))
    (tmp_path / "a/result.json").unlink()
    write()
    assert material(configure(settings)).fingerprint() != first
    with pytest.raises(ValueError, match="not those this run was started with"):
        train(configure(settings), Runtime(out=tmp_path / "a", quiet=True, resume=True))


def test_a_checkpoint_of_before_0_2_is_continued(tmp_path):
    """It says optimiser, and its settings have their names of then."""
    run(tmp_path / "whole")
    out = tmp_path / "a"
    stopped = Run(fabric_for(configure(SMALL), Runtime()), *begun(out))
    stopped.asked_to_stop = "SIGTERM"
    with pytest.raises(Stopped):
        stopped.to_the_end()
    saved = load_checkpoint(out / "checkpoint.pt")
    saved["optimiser"] = saved.pop("optimizer")
    saved["config"] = {{"monitor": "watch", "normalize": "normalise"}.get(k, k): v for k, v in saved["config"].items()}
    torch.save(saved, out / "checkpoint.pt")
    train(configure(SMALL), Runtime(out=out, quiet=True, resume=True))
    assert same(weights(out), weights(tmp_path / "whole"))


def begun(out):
    """A run's settings and place, its folder ready, with a checkpoint after every step."""
    config = configure(SMALL)
    runs.prepare(out, config, resume=False)
    return config, Runtime(out=out, quiet=True, checkpoint=0)


def test_a_skipped_step_leaves_no_trace_in_bn(tmp_path):
    out = tmp_path / "a"
    run(out, lr=1e30, head="mocov2", nonfinite="skip")
    assert all(torch.isfinite(v).all() for k, v in weights(out).items() if "running" in k)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    run(tmp_path / "a")
    run(tmp_path / "b", lr=0.3)
    (tmp_path / "b/checkpoint.pt").replace(tmp_path / "a/checkpoint.pt")
    (tmp_path / "a/result.json").unlink()
    with pytest.raises(ValueError, match=r"other settings \(lr: 0.3 → 0.1\)"):
        train(configure(SMALL), Runtime(out=tmp_path / "a", quiet=True, resume=True))


def test_a_refused_command_leaves_room_for_the_corrected_one(tmp_path, capsys):
    out = str(tmp_path / "a")
    assert main(["train", "--data", "digit", "--out", out]) == 2
    assert main(["train", "--batch", "99999", "--out", out]) == 2
    assert main([*command(out)[3:], "--quiet"]) == 0


def test_what_lies_in_the_folder_is_checked(tmp_path, capsys):
    out = tmp_path / "a"
    run(out)
    words = [*command(out, "--resume")[3:]]
    (out / "result.json").write_text("{")
    assert main(words) == 2
    assert "result.json is damaged" in capsys.readouterr().err
    (out / "result.json").unlink()
    (out / ".checkpoint.pt.123").touch()
    good = (out / "metrics.jsonl").read_bytes()
    (out / "metrics.jsonl").write_bytes(good[:10])
    assert main(words) == 2
    assert "shorter than the checkpoint remembers" in capsys.readouterr().err
    (out / "metrics.jsonl").write_bytes(good)
    assert main([*words, "--quiet"]) == 0
    assert not list(out.glob(".checkpoint*"))
    (out / "config.yaml").write_text("a: [")
    assert main(words) == 2
    assert "is no YAML" in capsys.readouterr().err
    torch.save({"format": 1}, out / "checkpoint.pt")
    with pytest.raises(ValueError, match="this version"):
        runs.last_checkpoint(out)


def test_a_test_split_that_is_broken_is_told_and_one_that_is_not_there_is_not_needed(tmp_path):
    images = np.zeros((64, 8, 8), np.uint8)
    images[:, :4] = np.arange(64, dtype=np.uint8)[:, None, None]
    arrays = {"train_images": images, "train_labels": np.arange(64) % 4, "test_images": images}
    np.savez(tmp_path / "broken.npz", **arrays, test_labels=np.arange(63) % 4)
    settings = {**SMALL, "images": None, "batch": 32}
    with pytest.raises(ValueError, match="63"):
        train(configure({**settings, "data": f"arrays:{tmp_path}/broken.npz"}), Runtime(out=tmp_path / "a", quiet=True))
    np.save(tmp_path / "alone.npy", images)
    alone = {**settings, "data": f"arrays:{tmp_path}/alone.npy"}
    assert "knn" not in train(configure(alone), Runtime(out=tmp_path / "b", quiet=True)).measures
    with pytest.raises(ValueError, match="needs a label for every image"):
        train(configure({**alone, "method": "supcon"}), Runtime(out=tmp_path / "c", quiet=True))


def test_two_processes_do_not_meet_in_one_folder(tmp_path):
    config = configure(SMALL)
    out = tmp_path / "a"
    runs.prepare(out, config, resume=False)
    with runs.alone(out), pytest.raises(ValueError, match="another process is at work"):
        train(config, Runtime(out=out, quiet=True, resume=True))
    assert train(config, Runtime(out=out, quiet=True, resume=True)).measures


def test_a_damaged_checkpoint_is_told_apart(tmp_path):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="no checkpoint that loads"):
        load_checkpoint(path)
    torch.save({"format": 99}, path)
    with pytest.raises(ValueError, match="this version"):
        load_checkpoint(path)


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="tensorboard is installed")
def test_a_tracker_that_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"isotherm\[tracking\]"):
        train(configure(SMALL), Runtime(out=tmp_path / "a", log=["tensorboard"], quiet=True))
