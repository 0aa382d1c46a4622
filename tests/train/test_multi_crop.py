"""Training with small crops, and SwAV and DINO with and without them: they learn, resume, and refuse in a sentence."""

import re
import time

import pytest
import torch

from isotherm.cli import main
from isotherm.data.imbalance import fraction
from isotherm.train import runs
from isotherm.train.build import build
from isotherm.train.commandline import configure
from isotherm.train.config import Config, Runtime
from isotherm.train.loop import train
from isotherm.train.modality.images import images_of
from isotherm.train.monitor import monitor
from processes import Command
from small_runs import SMALL, command, lines, run, same, stopped_after_a_step, wait_for_steps, weights

CROPS = {"small_crops": 2, "small_size": 6, "small_scale": [0.4, 0.9]}
SWAV = {"method": "swav", "head.hidden": 64}
DINO = {"method": "dino", "head.hidden": 64, "method.momentum": 0.9}
QUEUE = {"method.queue": 200, "method.queue_start": 0.5, "method.prototypes": 50}
LEARNING = {
    "swav": SWAV,
    "swav, multi-crop": {**SWAV, **CROPS},
    "swav with a queue": {**SWAV, **QUEUE},
    "dino": DINO,
    "dino, multi-crop": {**DINO, **CROPS},
    "simclr, multi-crop": CROPS,
    "cacr, multi-crop": {"method": "cacr", **CROPS},
    "mocov3, multi-crop": {"method": "mocov3", "method.momentum": 0.9, **CROPS},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNING)
def test_training_gains_five_points_from_few_labels_and_nothing_collapses(name, tmp_path):
    """kNN from a hundred labelled digits, against the untrained encoder."""
    settings = {"batch": 128, "epochs": 12, "monitor": 0, "encoder.widths": [8, 16], **LEARNING[name]}
    config = configure(settings)
    given = build(config)
    test, hundred = images_of(config, "test"), fraction(given.material.images, 100)
    recipe = given.material.recipe
    before = monitor(given.method.eval().network, hundred, test, recipe)["knn"]
    result = train(config, Runtime(out=tmp_path / "a", quiet=True))
    after = monitor(runs.open_run(tmp_path / "a").network, hundred, test, recipe)["knn"]
    assert after >= before + 0.05
    assert not result.notes  # of a collapse


RESUMED = {"swav": {**SWAV, **QUEUE, **CROPS}, "dino": {**DINO, **CROPS}}


@pytest.mark.parametrize("name", RESUMED)
def test_a_stopped_run_resumes_to_the_same_weights_and_memory(name, tmp_path):
    settings = {**SMALL, **RESUMED[name]}
    run(tmp_path / "whole", **RESUMED[name])
    stopped_after_a_step(tmp_path / "parts", settings)
    assert runs.last_checkpoint(tmp_path / "parts")["step"] == 1
    train(configure(settings), Runtime(out=tmp_path / "parts", quiet=True, resume=True))
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert same(whole, parts)
    memory = {"swav": {"prototypes", "queue", "queued"}, "dino": {"center", "last.directions"}}[name]
    assert memory <= set(whole)
    assert lines(tmp_path / "whole") == lines(tmp_path / "parts")


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_a_run_that_is_killed_resumes_to_the_same_weights(name, tmp_path):
    settings = {**SMALL, **RESUMED[name], "epochs": 20}
    more = ["--log_every", "1", "--checkpoint", "0.05", "--resume"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    code, said = Command(command(whole, *more, settings=settings)).wait()
    assert code == 0, said
    metrics = killed / "metrics.jsonl"
    for wait in (0.0, 0.02, 0.05):
        process = Command(command(killed, *more, settings=settings))
        there = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
        wait_for_steps(killed, there + 7, process)
        time.sleep(wait)
        process.kill()
        assert not (killed / "result.json").exists(), "it had ended before it was killed"
    code, said = Command(command(killed, *more, settings=settings)).wait()
    assert code == 0, said
    assert same(weights(whole), weights(killed))
    assert lines(whole) == lines(killed)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_parts_give_the_gradient_of_the_whole_batch(name, tmp_path):
    transformer = {"encoder": "vit_small", "encoder.depth": 1, "head": "dino", "images": 128, "batch": 64, "lr": 0.01}
    settings = {k: v for k, v in {**SMALL, **RESUMED[name]}.items() if "widths" not in k}
    settings |= {**transformer, "small_size": 4, "epochs": 1, "precision": "64-true"}
    for parts in (1, 3):
        train(configure({**settings, "parts": parts}), Runtime(out=tmp_path / str(parts), quiet=True))
    whole, parted = weights(tmp_path / "1"), weights(tmp_path / "3")
    for key in whole:
        torch.testing.assert_close(parted[key], whole[key], rtol=1e-8, atol=1e-10, msg=lambda m, key=key: f"{key}: {m}")


def test_large_digits_with_small_crops_train(tmp_path):
    result = run(tmp_path / "a", **SWAV, size=28, small_crops=3, small_size=16, epochs=1)
    assert result.steps == 4
    with torch.no_grad():
        opened = runs.open_run(tmp_path / "a")
        assert [v.size for v in (*opened.recipe.views, *opened.recipe.small)] == [28, 28, 16, 16, 16]


def test_settings_of_crops_are_no_part_of_the_key_of_runs_without_them():
    plain = configure({})
    assert configure({"small_crops": 0}).key != plain.key  # null is the recipe's own number
    assert plain.key == Config(**{**plain.as_dict(), "small_crops": None, "crop_scale": None}).key
    assert configure({"small_crops": 2}).key != plain.key


REFUSED = [
    (["--method", "swav", "--method.prototypes", "9000"], "cannot place 1,437 items among 9,000 prototypes"),
    (["--small_crops", "2", "--small_size", "40"], "small crop of 40 pixels is not smaller than the large ones"),
    (["--small_crops", "2", "--method", "bank"], "method 'bank' has no use for views that are never looked for"),
    (["--small_crops", "2", "--method", "supcon"], "whose positives come from labels"),
    (["--small_crops", "2", "--views", "1"], "needs 2 or more views of each item beside its small crops, got 1"),
    (["--method", "dino", "--views", "1"], "method 'dino' needs 2 or more views of each item, got 1: say --views 2"),
    (["--small_size", "4"], "small_size 4 is about small crops, and there are none: say --small_crops 6"),
    (["--small_crops", "-1"], "small_crops lies between 0 and 1,000, got -1"),
    (["--small_crops", "2", "--small_scale", "[0.5, 0.2]"], r"such as \[0.05, 0.14\]; got \[0.5, 0.2\]"),
    (["--small_crops", "2", "--encoder", "vit_small"], "small crops of 3 pixels beside views of 8. It cuts them"),
    (
        ["--small_crops", "2", "--encoder", "small_alexnet", "--size", "32"],
        "small crops of 14 pixels beside views of 32. It takes one size only: use a convnet, a ResNet or a ViT",
    ),
    (["--small_crops", "2", "--small_size", "8"], "small crop of 8 pixels is not smaller than the large ones, which"),
    (
        ["--crop_scale", "[0.5, 2]"],
        r"crop_scale is the least and the largest part of an image's area.*got \[0.5, 2.0\]",
    ),
]


@pytest.mark.parametrize(("words", "why"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_a_mistake_is_told_in_a_sentence(words, why, tmp_path, capsys):
    assert main(["train", *words, "--epochs", "1", "--out", str(tmp_path / "a")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(why, said), said
    assert not (tmp_path / "a" / "config.yaml").exists()
