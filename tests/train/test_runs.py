"""A run's folder: what may be in it before, and what is wrong with what lies there."""

import importlib.util

import numpy as np
import pytest
import torch

from isotherm.cli import main
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from small_runs import SMALL, command, run


def test_a_run_needs_a_folder_of_its_own(tmp_path, capsys):
    words = command("x")[:-2]
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


def test_a_refused_command_leaves_room_for_the_corrected_one(tmp_path, capsys):
    out = str(tmp_path / "a")
    assert main(["train", "--data", "digit", "--out", out]) == 2
    assert main(["train", "--batch", "99999", "--out", out]) == 2
    assert main(command(out, "--quiet")) == 0


def test_what_lies_in_the_folder_is_checked(tmp_path, capsys):
    out = tmp_path / "a"
    run(out)
    words = command(out, "--resume")
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


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="tensorboard is installed")
def test_a_tracker_that_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"isotherm\[tracking\]"):
        train(configure(SMALL), Runtime(out=tmp_path / "a", log=["tensorboard"], quiet=True))
