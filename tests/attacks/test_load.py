"""Much of everything: a study of 2,000 runs, a million lines of metrics. Counted in calls and bytes, not in seconds."""

import json
from pathlib import Path

from isotherm.bench.measure import peak_extra_memory
from isotherm.experiments import find, points
from isotherm.experiments.records import Record, Records, training_of
from isotherm.experiments.study import Where
from isotherm.train import commandline


def test_two_thousand_runs_are_configured_once_a_point(monkeypatch):
    """Reading settings takes a tenth of a second: seeds of one point share them."""
    study, calls = find.load("entropy"), []
    one_each = points.expand(study, "smoke", seeds=1)
    plain = commandline._parsed
    monkeypatch.setattr(commandline, "_parsed", lambda *given: calls.append(1) or plain(*given))
    many = points.expand(study, "smoke", seeds=2000 // len(one_each))
    assert len(many) > 1000
    assert len(calls) == len(one_each)
    assert len({p.config.key for p in many}) == len(many)
    assert {p.config.key for p in one_each} < {p.config.key for p in many}
    assert all(p.config.seed == p.seed for p in many)


def test_what_is_asked_of_two_thousand_runs_is_asked_of_their_points(monkeypatch):
    """A report asks thousands of times: of ten points, not of the runs."""
    runs = [
        Record("a", {"loss.temperature": tau}, seed, f"{tau} {seed}", {"knn": seed / 200}, 1.0, {}, Path("x"))
        for seed in range(200)
        for tau in range(10)
    ]
    calls, plain = [], Record.is_at
    monkeypatch.setattr(Record, "is_at", lambda self, where: calls.append(1) or plain(self, where))
    records = Records(runs)
    chosen = records.at(Where("a", {"loss.temperature": 3}))
    assert [r.seed for r in chosen] == list(range(200))
    assert [r.key for r in records.at("a")] == [r.key for r in runs]  # in their order
    assert {where.label for where in records.points_asked} == {f"a temperature {tau}" for tau in range(10)}
    assert records.mean(Where("a", {"loss.temperature": 3}), "knn")[2] == 200
    assert len(calls) == 30


def test_a_million_lines_of_metrics_are_not_kept(tmp_path):
    with (tmp_path / "metrics.jsonl").open("w") as file:
        line = json.dumps({"step": 1, "epoch": 0.5, "loss": 0.5, "lr": 0.1, "seconds": 1.5}) + "\n"
        end = json.dumps({"step": 1000, "epoch": 1.0, "loss_mean": 0.25, "lr": 0.1}) + "\n"
        for _ in range(100):
            file.write(line * 10_000 + end)
    seen = []
    taken = peak_extra_memory(lambda: seen.extend(training_of(tmp_path)))
    assert all(entry == {"epoch": 1.0, "loss_mean": 0.25} for entry in seen)
    assert 0 < len(seen) < 100
    assert taken is None or taken < 50 << 20
