"""Training on images that stay in their files: it resumes after a kill, and shards are as good as their folder."""

import time

import pytest

from isotherm.data.sharding import shard
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from processes import Command
from small_runs import command, lines, same, stopped_after_a_step, wait_for_steps, weights
from written import encoded, noise

SETTINGS = {
    "batch": 8,
    "epochs": 2,
    "monitor": 0,
    "size": 16,
    "recipe": "simclr",
    "encoder.widths": [4, 8],
    "head.hidden": 16,
    "test": "val",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    monkeypatch.setenv("ISOTHERM_WORKERS", "2")
    for split, n in (("train", 24), ("val", 8)):
        for i in range(n):
            file = tmp_path / "images" / split / ("ant", "bee")[i % 2] / f"{i}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encoded(noise(30 + i, 40, 3, seed=i), "JPEG"))
    return tmp_path / "images"


def settings(data, **more):
    options = (
        {"data_options": {"size": 16, "lazy": True}} if data.startswith("folder:") else {"data_options": {"size": 16}}
    )
    return {**SETTINGS, "data": data, **options, **more}


def test_a_run_stopped_anywhere_resumes_to_the_same_weights_on_shards_as_on_the_folder(tree, tmp_path):
    here = settings(f"folder:{tree}")
    train(configure(here), Runtime(out=tmp_path / "whole", quiet=True))
    stopped_after_a_step(tmp_path / "parts", here)
    assert runs.last_checkpoint(tmp_path / "parts")["step"] == 1
    train(configure(here), Runtime(out=tmp_path / "parts", quiet=True, resume=True))
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    for split in ("train", "val"):
        shard(tree, tmp_path / "shards", split)
    train(configure(settings(f"shards:{tmp_path / 'shards'}")), Runtime(out=tmp_path / "tar", quiet=True))
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "tar"))
    opened = runs.open_run(tmp_path / "whole")
    assert len(opened.test) == 8


@pytest.mark.slow
def test_a_run_that_is_killed_resumes_to_the_same_weights(tree, tmp_path):
    here = settings(f"folder:{tree}", epochs=10)
    more = ["--log_every", "1", "--checkpoint", "0.05", "--resume"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    code, said = Command(command(whole, *more, settings=here)).wait()
    assert code == 0, said
    process = Command(command(killed, *more, settings=here))
    wait_for_steps(killed, 7, process)
    time.sleep(0.02)
    process.kill()
    assert not (killed / "result.json").exists(), "it had ended before it was killed"
    code, said = Command(command(killed, *more, settings=here)).wait()
    assert code == 0, said
    assert same(weights(whole), weights(killed))
    assert lines(whole) == lines(killed)
