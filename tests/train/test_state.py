"""Checkpoints: runs that are killed, stopped, on a full disk, continued from what was saved."""

import json
import random
import signal
import time

import numpy as np
import pytest
import torch

from isotherm.train import runs
from isotherm.train.build import material
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from isotherm.train.state import load_checkpoint, save_checkpoint
from processes import Command
from small_runs import SMALL, command, lines, run, same, stopped_after_a_step, wait_for_steps, weights


@pytest.mark.slow
def test_run_killed_ten_times_resumes_to_the_same_weights(tmp_path):
    """Its length is given in steps: the last epoch is cut short."""
    settings = {name: value for name, value in SMALL.items() if name != "epochs"}
    settings |= {"method": "mocov2", "method.queue": 300, "steps": 238, "warmup_part": 0.1, "monitor": 4, "ema": 0.9}
    settings["loss.temperature"] = {"name": "Learnable", "initial": 0.2}
    more = ["--log_every", "1", "--checkpoint", "0.05", "--resume"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    code, said = Command(command(whole, *more, settings=settings)).wait()
    assert code == 0, said
    chance = random.Random(5)
    metrics = killed / "metrics.jsonl"
    for _ in range(10):
        process = Command(command(killed, *more, settings=settings))
        there = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
        wait_for_steps(killed, there + chance.randint(1, 12), process)
        time.sleep(chance.random() * 0.05)
        process.kill()
        assert not (killed / "result.json").exists(), "it had ended before it was killed"
    code, said = Command(command(killed, *more, settings=settings)).wait()
    assert code == 0, said
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
    process = Command(command(out, "--log_every", "1", settings={**SMALL, "epochs": 400}))
    wait_for_steps(out, 3, process)
    process.send_signal(number)
    code, said = process.wait(60)
    assert code == 128 + number
    assert "--resume" in said
    assert "Traceback" not in said
    assert torch.load(out / "checkpoint.pt", weights_only=True)["step"] >= 3


@pytest.mark.slow
def test_on_a_full_disk_the_last_good_checkpoint_survives(tmp_path):
    out = tmp_path / "a"
    words = command(out, "--log_every", "1", settings={**SMALL, "epochs": 400})
    process = Command(words)
    wait_for_steps(out, 3, process)
    process.send_signal(signal.SIGTERM)
    process.wait()
    good = (out / "checkpoint.pt").read_bytes()
    code, said = Command([*words, "--resume", "--checkpoint", "0"], file_limit=20_000).wait()
    assert code == 2
    assert "checkpoint.pt: File too large. The checkpoint.pt of before is untouched." in said
    assert "Traceback" not in said
    assert (out / "checkpoint.pt").read_bytes() == good
    assert not [p for p in out.glob(".*") if p.name != ".lock"]


def test_other_images_under_the_same_name_are_noticed(tmp_path):
    rng = np.random.default_rng(0)

    def write():
        np.savez(tmp_path / "d.npz", images=rng.integers(0, 256, (64, 8, 8), np.uint8), labels=np.arange(64) % 4)

    write()
    settings = {**SMALL, "data": f"arrays:{tmp_path}/d.npz", "images": None, "batch": 32, "test": "train"}
    first = material(configure(settings)).fingerprint()
    result = train(configure(settings), Runtime(out=tmp_path / "a", quiet=True))
    again = Runtime(out=tmp_path / "a", quiet=True, resume=True)
    (tmp_path / "d.npz").rename(tmp_path / "elsewhere.npz")
    assert train(configure(settings), again) == result  # nobody can say
    write()
    assert material(configure(settings)).fingerprint() != first
    for _ in range(2):  # finished, and not
        with pytest.raises(ValueError, match="not those this run was started with"):
            train(configure(settings), again)
        (tmp_path / "a/result.json").unlink(missing_ok=True)


def test_a_checkpoint_of_before_0_2_is_continued(tmp_path):
    """It says optimiser, and its settings have their names of then."""
    run(tmp_path / "whole")
    out = tmp_path / "a"
    stopped_after_a_step(out)
    saved = load_checkpoint(out / "checkpoint.pt")
    del saved["steps"]
    torch.save(saved, out / "checkpoint.pt")
    assert runs.unfinished(out).startswith("step 1: unfinished")
    saved["optimiser"] = saved.pop("optimizer")
    saved["config"] = {{"monitor": "watch", "normalize": "normalise"}.get(k, k): v for k, v in saved["config"].items()}
    torch.save(saved, out / "checkpoint.pt")
    train(configure(SMALL), Runtime(out=out, quiet=True, resume=True))
    assert same(weights(out), weights(tmp_path / "whole"))


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    run(tmp_path / "a")
    run(tmp_path / "b", lr=0.3)
    (tmp_path / "b/checkpoint.pt").replace(tmp_path / "a/checkpoint.pt")
    (tmp_path / "a/result.json").unlink()
    with pytest.raises(ValueError, match=r"other settings \(lr: 0.3 → 0.1\)"):
        train(configure(SMALL), Runtime(out=tmp_path / "a", quiet=True, resume=True))


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x03\x04", None], ids=["empty", "text", "cut", "pickled"])
def test_a_damaged_checkpoint_is_told_apart(content, tmp_path):
    path = tmp_path / "checkpoint.pt"
    if content is None:
        torch.save(Runtime(), path)  # torch would advise to open it and run whatever it holds
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match="no checkpoint that loads: it is damaged") as said:
        load_checkpoint(path)
    assert "weights_only" not in str(said.value)
    torch.save({"format": 99}, path)
    with pytest.raises(ValueError, match="this version"):
        load_checkpoint(path)


def test_a_bit_that_has_changed_in_a_checkpoint_is_noticed(tmp_path):
    path = tmp_path / "checkpoint.pt"
    plain = {"config": {}, "average": None, "precision": {}, "metrics": 0, "step": 3, "fingerprint": "a"}
    save_checkpoint(path, {"method": {"w": torch.arange(200.0)}, **plain})
    good, written = load_checkpoint(path), path.read_bytes()
    noticed = 0
    for place in range(0, len(written), 3):
        path.write_bytes(written[:place] + bytes([written[place] ^ 1 << place % 8]) + written[place + 1 :])
        try:
            state = load_checkpoint(path)
        except ValueError:
            noticed += 1
        else:  # a bit between the tensors, which says nothing
            assert torch.equal(state.pop("method")["w"], good["method"]["w"]), place
            assert state == {k: v for k, v in good.items() if k != "method"}, place
    assert noticed > 300


def test_an_exported_encoder_that_has_changed_is_not_loaded(tmp_path):
    run(tmp_path / "a")
    path = tmp_path / "a/encoder.safetensors"
    written = path.read_bytes()
    path.write_bytes(written[:-1] + bytes([written[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"not the file that encoder\.json was written for"):
        runs.load_encoder(tmp_path / "a")
    card = json.loads((tmp_path / "a/encoder.json").read_text())
    (tmp_path / "a/encoder.json").write_text(json.dumps({k: v for k, v in card.items() if k != "sha256"}))
    runs.load_encoder(tmp_path / "a")  # by a version that kept no digest
    (tmp_path / "a/encoder.json").write_text("{")
    with pytest.raises(ValueError, match="does not say how to build"):
        runs.load_encoder(tmp_path / "a")
