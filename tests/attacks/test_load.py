"""Much of everything: a study of 2,000 runs, a million lines of metrics. Counted in calls and bytes, not in seconds."""

import json

from isotherm.bench.measure import peak_extra_memory
from isotherm.experiments import find, points
from isotherm.experiments.records import training_of
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
