"""A run's folder: what may be in it before, and what is wrong with what lies there."""

import importlib.util
import json
import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import processes
from isotherm import files
from isotherm.cli import main
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime, without_later
from isotherm.train.devices import fabric_for
from isotherm.train.loop import Diverged, Run, train
from isotherm.train.state import load_checkpoint, save_checkpoint
from small_runs import SMALL, begun, command, run


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


def test_a_run_from_before_a_setting_came_is_still_that_run(tmp_path):
    settings = {"images": 256, "batch": 128, "epochs": 1, "monitor": 0, "method": "vae", "recipe": "none"}
    out, config = tmp_path / "a", configure(settings)
    train(config, Runtime(out=out, quiet=True))
    older = without_later(config.as_dict())
    assert "digit_source" not in older
    assert older["method"] == {"name": "vae"}
    (out / "config.yaml").write_text(json.dumps(older))
    save_checkpoint(out / "checkpoint.pt", {**load_checkpoint(out / "checkpoint.pt"), "config": older})
    (out / "result.json").unlink()
    assert train(config, Runtime(out=out, quiet=True, resume=True)).steps == 2
    other = configure({**settings, "method.beta": 0.5})
    with pytest.raises(ValueError, match=r"method.beta: not set → 0.5"):
        train(other, Runtime(out=out, quiet=True, resume=True))


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
    good = (out / "metrics.jsonl").read_bytes()
    (out / "metrics.jsonl").write_bytes(good[:10])
    assert main(words) == 2
    assert "shorter than the checkpoint remembers" in capsys.readouterr().err
    (out / "metrics.jsonl").write_bytes(good)
    assert main([*words, "--quiet"]) == 0
    (out / "config.yaml").write_text("a: [")
    assert main(words) == 2
    assert "is no YAML" in capsys.readouterr().err
    torch.save({"format": 1}, out / "checkpoint.pt")
    with pytest.raises(ValueError, match="this version"):
        runs.last_checkpoint(out)


def test_a_finished_run_that_lost_its_checkpoint_says_how_to_have_it_again(tmp_path, capsys):
    out = tmp_path / "a"
    run(out)
    (out / "checkpoint.pt").unlink()
    assert main(["evaluate", str(out)]) == 2
    assert "delete result.json" in capsys.readouterr().err
    (out / "result.json").unlink()
    assert main(command(out, "--resume", "--quiet")) == 0
    runs.reopen(out)


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
    with runs.alone(out), pytest.raises(ValueError, match="another process is at work"):
        train(config, Runtime(out=out, quiet=True, resume=True))
    assert train(config, Runtime(out=out, quiet=True, resume=True)).measures
    with runs.alone(out):  # finished: nobody needs to be alone to be told
        assert train(config, Runtime(out=out, quiet=True, resume=True)).measures


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_a_run_that_is_refused_changes_nothing_in_the_folder_of_another(tmp_path, capsys):
    """The other is at work, and before its first step."""
    out = tmp_path / "a"
    out.mkdir()
    with runs.alone(out):
        (out / "config.yaml").write_text(runs.as_yaml(configure(SMALL)))
        (out / "metrics.jsonl").touch()
        (out / "tokenizer.json").write_text("{}")
        before = contents(out)
        assert main(command(out, "--seed", "7")) == 2
        assert "another process is at work" in capsys.readouterr().err
        assert contents(out) == before


def test_a_run_killed_before_its_first_step_starts_anew_with_other_settings(tmp_path):
    Run(fabric_for(configure(SMALL), Runtime()), *begun(tmp_path / "a")).metrics.close()
    assert {p.name for p in (tmp_path / "a").iterdir()} == {"config.yaml", "metrics.jsonl"}
    run(tmp_path / "a", seed=7)
    assert runs.read_config(tmp_path / "a")["seed"] == 7


def test_what_cannot_be_built_leaves_no_run_behind(tmp_path, capsys):
    (tmp_path / "broken.py").write_text("def make():\n    raise RuntimeError('no')\n")
    out = tmp_path / "a"
    assert main(command(out, "--encoder", f"{tmp_path}/broken.py:make", settings={"images": 512})) == 2
    assert "broken.py:make does not run" in capsys.readouterr().err
    assert set(contents(out)) == {".lock"}


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "tokenizer.json"])
def test_what_somebody_else_put_there_is_not_taken_for_a_runs(name, tmp_path, capsys):
    out = tmp_path / "a"
    out.mkdir()
    (out / name).write_text("epochs: 3\n")
    assert main(command(out)) == 2
    assert "not empty and holds no run" in capsys.readouterr().err
    assert contents(out) == {name: b"epochs: 3\n"}


def test_a_run_that_diverged_at_once_is_tried_again(tmp_path):
    config = configure({**SMALL, "lr": 1e30, "head": "mocov2"})
    for _ in range(2):
        with pytest.raises(Diverged):
            train(config, Runtime(out=tmp_path / "a", quiet=True, resume=True, checkpoint=1e9))


def test_only_our_own_temporary_files_are_thrown_away(tmp_path):
    out = tmp_path / "a"
    out.mkdir()
    theirs = [".notes.2024", ".checkpoint.pt.12", ".model"]
    for name in theirs:
        (out / name).touch()
    ours = files.beside(out / "checkpoint.pt")
    ours.touch()
    files.beside(out / "model").mkdir()
    run(out)
    assert all((out / name).exists() for name in theirs)
    assert not list(out.glob(f".*{files.PART}"))


@pytest.mark.parametrize("theirs", [{"failure.txt": "notes"}, {"config.yaml": "mine: 1", "metrics.jsonl": ""}])
def test_files_that_only_sound_like_ours_are_left_alone(theirs, tmp_path):
    for name, text in theirs.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match="is not empty and holds no run"):
        run(tmp_path)
    assert {name: (tmp_path / name).read_text() for name in theirs} == theirs


def test_a_lock_that_somebody_wrote_into_keeps_its_words(tmp_path):
    (tmp_path / ".lock").write_text("precious")
    run(tmp_path)
    assert (tmp_path / ".lock").read_text() == "precious"


def test_a_folder_that_cannot_be_written_to_is_told_at_once(tmp_path):
    with pytest.raises(ValueError, match="cannot write into /dev/null/a: Not a directory"):
        run(Path("/dev/null/a"))


def in_and_out(folder):
    """Be alone in a folder again and again; how often, and how often somebody else was there."""
    times = overlaps = 0
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        try:
            with runs.alone(folder):
                times += 1
                try:
                    (folder / "here").touch(exist_ok=False)
                except FileExistsError:
                    overlaps += 1
                (folder / "here").unlink(missing_ok=True)
        except ValueError:
            pass
    return times, overlaps


@pytest.mark.slow
def test_one_at_a_time_is_alone_whoever_comes_and_goes(tmp_path):
    (tmp_path / "a").mkdir()
    with multiprocessing.get_context(processes.METHOD).Pool(4) as pool:
        results = pool.map(in_and_out, [tmp_path / "a"] * 4, chunksize=1)
    assert sum(times for times, _ in results) > 100
    assert sum(overlaps for _, overlaps in results) == 0


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="tensorboard is installed")
def test_a_tracker_that_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"pip install .*\[tracking\]"):
        train(configure(SMALL), Runtime(out=tmp_path / "a", log=["tensorboard"], quiet=True))
