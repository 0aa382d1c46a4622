"""What training does to the weights: files, seeds, every method and preset, parts, averages, what is not finite."""

import json

import numpy as np
import pytest
import torch
import yaml

from isotherm.cli import main
from isotherm.data.imbalance import fraction
from isotherm.experiments.trained import trained
from isotherm.methods import METHODS
from isotherm.probes.extract import features_of
from isotherm.train import runs
from isotherm.train.build import build
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import Diverged, looks_of, run_to_end, train
from isotherm.train.modality.images import images_of
from isotherm.train.monitor import monitor
from small_runs import SMALL, lines, run, same, weights


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
    "fnc": {"views": 4},
    "nnclr": {"method.queue": 512},
    "mocov2": {"method.queue": 512, "method.momentum": 0.9},
    "mocov3": {"method.momentum": 0.9},
    "byol": {"method.momentum": 0.9},
    "bank": {"loss.temperature": 0.3},
    "vae": {"lr": 3e-3, "optimizer": "adam", "weight_decay": 0.0, "recipe": "none", "epochs": 60},
    "barlow": {"lr": 0.01, "epochs": 20},
    "vicreg": {"lr": 0.02},
    "zerocl": {"lr": 0.001},
    "arb": {"lr": 0.01},
    "siglip": {"lr": 0.05},
    "swav": {"head.hidden": 64},
    "dino": {"head.hidden": 64, "method.momentum": 0.9},
}
AHEAD = dict.fromkeys(("fnc", "nnclr", "tau", "isogclr", "wmse", "zerocl", "arb", "siglip", "swav", "dino"), 0.05)
"""By how much accuracy must grow, where more than a little is known; they gain far more."""


@pytest.mark.slow
@pytest.mark.parametrize(  # those read sentences and pairs: test_sentences, test_image_text
    "name", [name for name in METHODS if name not in ("simcse", "mlm", "clip")]
)
def test_every_method_learns_more_than_its_untrained_encoder_knows(name, tmp_path):
    """kNN from a hundred labelled images: with all of them the untrained network is at 97 % already."""
    network = {} if name in ("vae", "vicreg") else {"encoder.widths": [8, 16]}  # VICReg needs a wider one
    settings = {"method": name, "batch": 128, "epochs": 12, "monitor": 0, **network, **LONGER.get(name, {})}
    config = configure(settings)
    built = build(config)
    test = images_of(config, "test")
    hundred = fraction(built.material.images, 100)
    built.method.eval()
    recipe = built.material.recipe
    before = monitor(built.method.network, hundred, test, recipe)
    train(config, Runtime(out=tmp_path / "a", quiet=True))
    after = monitor(runs.open_run(tmp_path / "a").network, hundred, test, recipe)
    assert after["knn"] > before["knn"] + AHEAD.get(name, 0.0)
    if name in AHEAD:  # it has not collapsed: spread over the sphere, in many directions
        least, directions = {"dino": (-0.5, 1.5), "swav": (-1, 3)}.get(name, (-1, 4))  # DINO's spreads late
        assert after["uniformity"] < least
        assert after["effective_rank"] > directions


def test_cacr_with_four_positives_and_a_momentum_queue_train(tmp_path):
    many = {"views": 5, "loss": "CACRLoss", "loss.t_neg": 0.9}
    queue = {"method.every_view": True, "method.intra_batch": True, "loss.detach_weights": "positive"}
    for i, more in enumerate(({"method": "cacr"}, {"method": "mocov2", "method.queue": 256, **queue})):
        run(tmp_path / str(i), **many, **more)
        losses = [line["loss_mean"] for line in lines(tmp_path / str(i))]
        assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("name", "expected"), [("CosineSchedule", [1.0, 0.55, 0.1]), ("StepSchedule", [0.1, 0.1, 1.0])]
)
def test_temperature_follows_its_schedule_over_epochs(name, expected, tmp_path):
    tau = {"name": name, "tau_min": 0.1, "tau_max": 1.0, "period": 4}
    run(tmp_path / "a", epochs=3, **{"loss.temperature": tau})
    found = [line["temperature"] for line in lines(tmp_path / "a")]
    np.testing.assert_allclose(found, expected)


def test_a_large_seed_is_a_seed(tmp_path):
    assert run(tmp_path / "a", seed=20_000_000_000, epochs=1).seed == 20_000_000_000


def test_learnable_temperature_learns(tmp_path):
    run(tmp_path / "a", **{"loss.temperature": {"name": "Learnable", "initial": 0.2}})
    assert lines(tmp_path / "a")[-1]["temperature"] != 0.2


def test_measuring_happens_so_many_times_and_at_the_end():
    for epochs, times in ((40, 5), (7, 3), (3, 5), (10, 1), (5, 0)):
        for cut in (0, 1, 9):  # steps that the last of ten is short of
            steps = epochs * 10 - cut
            when = sorted(looks_of(steps, 10, times, by_steps=False))
            assert len(when) == min(epochs, times)
            assert all(step % 10 == 0 for step in when[:-1])
            assert not when or when[-1] == steps
    assert looks_of(7, 1, 3, by_steps=False) == {3, 5, 7}


def test_the_loss_of_a_run_is_that_of_the_last_tenth_of_its_steps_whatever_an_epoch_is(tmp_path):
    for batch in (16, 32):  # an epoch is 8 steps, and 4
        out = tmp_path / str(batch)
        train(
            configure({**SMALL, "steps": 30, "epochs": None, "batch": batch, "images": 128}),
            Runtime(out=out, quiet=True, log_every=1),
        )
        losses = [line["loss"] for line in lines(out) if "loss" in line]
        assert len(losses) == 30
        assert trained(runs.open_run(out)).last_loss == pytest.approx(np.mean(losses[-3:]), rel=1e-12)


def test_runs_of_steps_are_looked_at_after_equal_parts_whatever_their_batch(tmp_path):
    assert looks_of(1500, 781, 6, by_steps=True) == looks_of(1500, 312, 6, by_steps=True) == set(range(250, 1501, 250))
    assert looks_of(2, 1, 5, by_steps=True) == {1, 2}
    for batch in (16, 32):
        run(tmp_path / str(batch), steps=12, batch=batch, epochs=None, monitor=3, images=128)
        looked = [line["step"] for line in lines(tmp_path / str(batch)) if "knn" in line]
        assert looked == [4, 8, 12]


LENGTH = {**SMALL, "epochs": None, "monitor": 2, "monitor_images": 100}


def test_a_run_of_steps_is_as_long_whatever_the_size_of_its_data(tmp_path):
    """512 images are four steps an epoch, 256 are two; the last epoch is cut short."""
    for images, epochs in ((512, [1, 1.75]), (256, [1, 2, 3, 3.5])):
        out = tmp_path / str(images)
        result = run(out, **{**LENGTH, "images": images, "steps": 7})
        assert result.steps == torch.load(out / "checkpoint.pt", weights_only=True)["step"] == 7
        found = lines(out)
        assert [line["epoch"] for line in found] == epochs
        assert [line["step"] for line in found][-1] == 7
        assert sum("knn" in line for line in found) == 2
        assert "knn" in found[-1]


def test_steps_that_are_whole_epochs_give_the_weights_of_those_epochs(tmp_path):
    run(tmp_path / "epochs", warmup=1.0)
    run(tmp_path / "steps", epochs=None, steps=8, warmup_part=0.5)
    assert same(weights(tmp_path / "epochs"), weights(tmp_path / "steps"))
    assert lines(tmp_path / "epochs") == lines(tmp_path / "steps")


def test_a_run_of_fewer_steps_than_an_epoch_has_ends_and_is_measured(tmp_path):
    result = run(tmp_path / "a", **{**LENGTH, "steps": 3})
    assert result.steps == 3
    assert lines(tmp_path / "a")[-1]["epoch"] == 0.75
    again = train(configure({**LENGTH, "steps": 3}), Runtime(out=tmp_path / "a", quiet=True, resume=True))
    assert again == result
    (tmp_path / "a/result.json").unlink()  # killed while it was measuring
    again = train(configure({**LENGTH, "steps": 3}), Runtime(out=tmp_path / "a", quiet=True, resume=True))
    assert again.measures == result.measures
    assert [line["step"] for line in lines(tmp_path / "a")] == [2, 3]  # looked at twice


def test_clipping_bounds_the_norm_of_the_whole_gradient(tmp_path):
    """One step of plain SGD moves all weights together by lr times the bound, if the gradient is longer."""
    plain = {"steps": 1, "epochs": None, "momentum": 0.0, "weight_decay": 0.0, "lr": 0.5, "precision": "64-true"}
    config = configure({**SMALL, **plain, "clip": 1e-3})
    before = build(config).method.double().state_dict()
    run(tmp_path / "a", **plain, clip=1e-3)
    after = weights(tmp_path / "a")
    moved = [after[k] - before[k] for k in before if "running" not in k and "num_batches" not in k]
    assert float(torch.stack([d.norm() for d in moved]).norm()) == pytest.approx(0.5 * 1e-3, rel=1e-6)


@pytest.mark.slow
def test_parts_give_the_gradient_of_the_whole_batch(tmp_path):
    transformer = {"encoder": "vit_small", "encoder.depth": 1, "head": "mocov2", "epochs": 1, "lr": 0.01, "images": 256}
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


def test_a_skipped_step_leaves_no_trace_in_bn(tmp_path):
    out = tmp_path / "a"
    run(out, lr=1e30, head="mocov2", nonfinite="skip")
    assert all(torch.isfinite(v).all() for k, v in weights(out).items() if "running" in k)


def test_collapse_is_noticed(tmp_path, capsys):
    words = ["--method", "byol", "--method.momentum", "0", "--method.momentum_end", "0", "--lr", "0.5"]
    words += ["--head", "linear", "--predictor", "linear", "--batch", "128", "--epochs", "3", "--monitor", "0"]
    words += ["--encoder.widths", "[16]"]
    assert main(["train", *words, "--out", str(tmp_path / "a")]) == 0
    assert "collapse" in capsys.readouterr().err
