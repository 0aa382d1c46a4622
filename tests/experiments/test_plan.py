"""What a study would cost: steps, views, and the time of each kind of run."""

from dataclasses import replace

from isotherm import doors
from isotherm.experiments import find, plan, wording
from isotherm.experiments.points import expand
from isotherm.experiments.study import Point
from isotherm.train.choice import Choice
from isotherm.train.commandline import configure


def test_a_plan_counts_steps_and_views_and_times_them():
    points = expand(find.load("generalized"), "smoke")
    kinds = plan.kinds(points)
    assert sum(k.runs for k in kinds) == len({p.config.key for p in points})
    assert sum(k.steps for k in kinds) == sum(
        p.config.epochs * (300 // p.config.batch) for p in {p.config.key: p for p in points}.values()
    )
    assert all(k.views == k.steps * 2 * 100 and k.step > 0 for k in kinds)
    assert len({k.name for k in kinds}) == len(kinds)
    shorter = [replace(p, config=replace(p.config, steps=4)) for p in points]
    assert sum(k.steps for k in plan.kinds(shorter)) == 4 * len({p.config.key for p in shorter})
    assert [wording.duration(s) for s in (30, 600, 36_000, 400_000)] == [
        "30 seconds",
        "10.0 minutes",
        "10.0 hours",
        "4.6 days",
    ]


def test_a_plan_tells_kinds_of_one_arm_apart_and_counts_what_they_begin_with(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    corpus = tmp_path / "a.txt"
    corpus.write_text("\n".join(f"{a} and {b}" for a in ("cat", "dog", "bird", "tree") for b in "abcdefgh"))
    small = {"data": f"text:{corpus}", "batch": 8, "epochs": 1, "encoder.width": 8, "encoder.vocabulary": 300}
    wide = [configure({**small, "encoder.masked": 3, "encoder.layers": n, "seed": n}) for n in (1, 2)]
    found = plan.kinds([Point("a", {}, 0, config, ()) for config in wide])
    assert [(k.name, k.runs, k.steps) for k in found] == [
        ("masked words first", 1, 3),
        ("masked words first", 1, 3),
        ("a, batch 8, encoder.layers 1", 1, 4),
        ("a, batch 8, encoder.layers 2", 1, 4),
    ]
    assert not (tmp_path / "isotherm").exists()  # nothing was made


WAITING = """
import time
from isotherm.nn import NTXentLoss

class Waiting(NTXentLoss):
    def per_query(self, pairs):
        time.sleep(0.5)
        return super().per_query(pairs)
"""


def test_a_plan_counts_work_and_not_waiting_for_a_core(tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    point = expand(find.load("generalized"), "smoke")[0]
    loss = Choice(f"{tmp_path}/waiting.py:Waiting", {"temperature": 0.2})
    doors.allow(loss.name)
    kind = plan.timed("waiting", replace(point, config=replace(point.config, loss=loss)), {})
    assert 0 < kind.step < 0.5
