"""`isotherm runs`: what is in a folder of runs, told without opening one."""

import fcntl
import json
import subprocess
import sys

import pytest
import yaml

from isotherm.cli import main
from isotherm.train import runs
from isotherm.train.commandline import recorded
from isotherm.train.layers import read_yaml
from isotherm.train.listing import CONFIG, LOCK, METRICS, RESULT, runs_below


def write(folder, loss="NTXentLoss", knn=None, steps=(1, 2)):
    folder.mkdir(parents=True)
    settings = {"data": "digits", "method": {"name": "simclr"}, "loss": {"name": loss, "temperature": 0.2}, "seed": 3}
    (folder / CONFIG).write_text(yaml.safe_dump(settings))
    (folder / METRICS).write_text("".join(json.dumps({"step": s}) + "\n" for s in steps))
    if knn is not None:
        (folder / RESULT).write_text(json.dumps({"measures": {"knn": knn}, "steps": 9}))
    return folder


def listed(capsys, *words):
    assert main(["runs", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_list_says_what_each_run_was_and_how_far_it_came(tmp_path, capsys):
    write(tmp_path / "b", "DCLLoss", knn=0.75)
    write(tmp_path / "below/a", steps=(1, 2, 40))
    (write(tmp_path / "c") / RESULT).write_text("{")
    with (write(tmp_path / "d") / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = listed(capsys, tmp_path)
    assert [(e["run"], e["state"]) for e in entries] == [
        ("b", "finished"), ("below/a", "killed"), ("c", "damaged"), ("d", "running"),
    ]  # fmt: skip
    finished, killed, *_ = entries
    assert finished["loss"] == "DCLLoss τ 0.2"
    assert (finished["knn"], finished["step"], finished["seed"]) == (0.75, 9, 3)
    assert (killed["knn"], killed["step"], killed["method"]) == (None, 40, "simclr")
    assert 0 <= killed["age"] < 3600


def test_the_best_comes_first_and_the_table_says_percent(tmp_path, capsys):
    for name, knn in (("a", 0.5), ("b", None), ("c", 0.9)):
        write(tmp_path / name, knn=knn)
    assert [e["run"] for e in listed(capsys, tmp_path, "--sort", "knn")] == ["c", "a", "b"]
    assert main(["runs", str(tmp_path), "--sort", "knn"]) == 0
    first = next(line for line in capsys.readouterr().out.splitlines() if "simclr" in line)
    assert first.split()[0] == "c"
    assert "90.0" in first


def test_a_run_that_ended_in_an_error_has_failed_until_it_is_resumed(tmp_path, capsys):
    words = ["--data", "digits", "--images", "128", "--batch", "64", "--encoder.widths", "[4]", "--monitor", "0"]
    words += ["--lr", "1e30", "--head", "mocov2", "--epochs", "20", "--out", str(tmp_path / "a")]
    assert main(["train", *words]) != 0
    assert listed(capsys, tmp_path)[0]["state"] == "failed"
    with runs.taken(tmp_path / "a", recorded(read_yaml(tmp_path / "a" / CONFIG), tmp_path), resume=True):
        pass  # and is killed
    assert listed(capsys, tmp_path)[0]["state"] == "killed"


@pytest.mark.parametrize(
    ("temperature", "shown"),
    [
        ({"name": "Learnable", "initial": 0.07, "lowest": 0.01, "highest": 100.0}, "NTXentLoss τ learnt from 0.07"),
        ({"name": "CosineSchedule", "low": 0.1, "high": 1.0}, "NTXentLoss τ CosineSchedule"),
    ],
)
def test_a_temperature_that_is_no_number_is_short(temperature, shown, tmp_path):
    folder = write(tmp_path / "a")
    settings = yaml.safe_load((folder / CONFIG).read_text())
    settings["loss"]["temperature"] = temperature
    (folder / CONFIG).write_text(yaml.safe_dump(settings))
    assert next(runs_below(tmp_path)).loss == shown


def test_a_narrow_terminal_leaves_columns_out_and_cuts_no_name(tmp_path, capsys, monkeypatch):
    write(tmp_path / "a-run-of-mine", "SomebodysContrastiveLoss", knn=0.5)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "a-run-of-mine" in said
    assert "SomebodysContrastiveLoss" in said
    assert "…" not in said
    assert "not shown at this width: data, method, seed, age;" in said
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["runs", str(tmp_path)]) == 0
    assert "not shown" not in capsys.readouterr().out


def test_a_narrow_terminal_breaks_no_hash_in_two(tmp_path, capsys, monkeypatch):
    hashes = [f"{i:x}067c50874f1e302" for i in range(3)]
    for name in hashes:
        write(tmp_path / "image-text-without-warmup" / "runs" / name, "./folder/mine.py:PowerLoss", knn=0.5)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert all(f"…/{name}" in said for name in hashes)
    assert " mine.py:PowerLoss τ 0.2 " in said
    assert "… is image-text-without-warmup/runs in" in said
    assert listed(capsys, tmp_path)[0]["run"] == f"image-text-without-warmup/runs/{hashes[0]}"


@pytest.mark.parametrize(("settings", "shown"), [({"p": 1.0}, "Mine p 1.0"), ({"p": True}, "Mine"), ({}, "Mine")])
def test_a_loss_without_a_temperature_shows_its_first_setting(settings, shown, tmp_path):
    folder = write(tmp_path / "a")
    config = yaml.safe_load((folder / CONFIG).read_text())
    config["loss"] = {"name": "Mine", "code": "abc", **settings}
    (folder / CONFIG).write_text(yaml.safe_dump(config, sort_keys=False))
    assert next(runs_below(tmp_path)).loss == shown


def test_half_a_line_at_the_end_of_the_metrics_is_what_a_kill_leaves(tmp_path):
    folder = write(tmp_path / "a", steps=range(1, 20_000))
    with (folder / METRICS).open("a") as file:
        file.write('{"step": 20')
    assert next(runs_below(tmp_path)).step == 19_999


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "no folder nowhere."),
        (["."], "no run in .; `isotherm train --out ./first` makes one"),
        ([".", "--sort", "kn"], "no column 'kn'; did you mean 'knn'?"),
    ],
)
def test_what_is_not_there_is_said(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["runs", *words]) == 2
    assert capsys.readouterr().err == f"isotherm: {said}\n"


def test_no_torch_is_imported_to_list_runs(tmp_path):
    write(tmp_path / "a")
    call = f"main(['runs', {str(tmp_path)!r}])"
    code = f"import sys; from isotherm.cli import main; {call}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
