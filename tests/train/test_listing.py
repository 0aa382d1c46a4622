"""`isotherm runs`: what is in a folder of runs, told without opening one."""

import fcntl
import json
import subprocess
import sys

import pytest
import yaml

from isotherm.cli import main
from isotherm.train import runs
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


def test_the_files_are_those_that_training_writes():
    assert (CONFIG, METRICS, RESULT, LOCK) == (runs.CONFIG, runs.METRICS, runs.RESULT, runs.LOCK)


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
