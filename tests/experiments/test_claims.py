"""How claims of studies are judged and arms compared: each judge on records that must pass and that must fail."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from isotherm.experiments import comparing, find, plan, report
from isotherm.experiments.claims import rules, statistics
from isotherm.experiments.points import expand
from isotherm.experiments.records import Record, Records
from isotherm.experiments.study import Claim, Comparison, Where
from isotherm.train.build import build

NOWHERE = Path("nowhere")
PLACED = ((1, "a", 3.0), (1, "b", 2.0), (2, "a", 1.0), (2, "b", 2.0))


def record(arm, seed=0, varied=None, folder=NOWHERE, **measures):
    return Record(arm, varied or {}, seed, f"{arm}{varied}{seed}", measures, 1.0, {"epochs": 2}, folder)


def arm(name, values, over="x", seeds=(0, 1, 2), noise=0.001, **fixed):
    """One arm along a setting, nearly alike in every seed."""
    return [record(name, s, {over: x, **fixed}, m=v + noise * s) for s in seeds for x, v in values.items()]


def test_alike_is_about_the_spread_of_means():
    records = Records([record("a", m=0.8), record("b", m=0.82), record("c", m=0.85)])
    assert rules.Alike("m", [Where("a"), Where("b")], 0.03).judge(records).held
    assert not rules.Alike("m", [Where("a"), Where("c")], 0.03).judge(records).held
    assert not rules.Alike("m", [Where("a"), Where("nobody")], 0.03).judge(records).held


def test_narrower_compares_spreads_within_seeds_that_all_have():
    records = Records([*arm("a", {1: 0.5, 3: 0.7}), *arm("b", {1: 0.9, 3: 0.75})])
    assert rules.Narrower("m", ["a", "b"], "x").judge(records).held
    assert not rules.Narrower("m", ["a", "b"], "x", most=0.1).judge(records).held
    assert not rules.Narrower("m", ["a", "nobody"], "x").judge(records).held
    wider = Records([*arm("a", {1: 0.7, 3: 0.5}), *arm("b", {1: 0.75, 3: 0.9})])
    assert not rules.Narrower("m", ["a", "b"], "x").judge(wider).held
    once = [record("a", 0, {"x": 1}, m=0.5), record("b", 0, {"x": 1}, m=0.6)]  # seeds 1 and 2 are at x = 3 only
    later = [
        record(n, s, {"x": 3}, m=v)
        for n, v3 in (("a", (0.5, 0.6, 0.6)), ("b", (0.6, 0.5, 0.5)))
        for s, v in enumerate(v3)
    ]
    verdict = rules.Narrower("m", ["a", "b"], "x").judge(Records([*once, *later]))
    assert verdict.evidence["seeds"] == 1
    assert not verdict.held  # the means would coincide: 0.567 and 0.533


def test_a_trend_everywhere_may_fail_at_few_values():
    rising = {1: 0.1, 2: 0.2, 3: 0.3}
    records = [*arm("a", rising, y=1), *arm("a", rising, y=2), *arm("a", rising, y=3), *arm("a", rising, y=4)]
    falling = arm("a", {1: 0.3, 2: 0.2, 3: 0.1}, y=5)
    rule = rules.TrendEverywhere("m", "a", "x", "y", 1)
    assert rule.judge(Records([*records, *falling])).held  # four of five
    assert not rule.judge(Records([*records[:18], *falling])).held  # two of three
    assert not rules.TrendEverywhere("m", "a", "x", "y", -1).judge(Records(records)).held


def test_the_best_moves_with_another_setting():
    def peak(y, at):
        return [record("a", 0, {"x": x, "y": y}, m=-abs(x - at)) for x in (1, 2, 3)]

    falling = Records([*peak(1, 3), *peak(2, 2), *peak(3, 1)])
    assert rules.BestMoves("m", "a", "x", "y", -1).judge(falling).held
    assert not rules.BestMoves("m", "a", "x", "y", 1).judge(falling).held
    same = rules.BestMoves("m", "a", "x", "y", -1).judge(Records([*peak(1, 2), *peak(2, 2), *peak(3, 2)]))
    assert not same.held


def test_where_a_fall_is_over():
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.array([10.0, 5.0, 1.0, 0.0])
    assert statistics.reaches(x, y, 0.5) == 2.0
    assert statistics.reaches(x, y, 0.9) == pytest.approx(4.0)
    assert statistics.reaches(x, y, 0.7) == pytest.approx(3.0)  # half-way between 5 and 1
    assert math.isnan(statistics.reaches(x, np.array([1.0, 2.0, 3.0, 4.0]), 0.9))


def test_saturation_early_and_late():
    early, late = {1: 10.0, 2: 1.0, 6: 0.5, 8: 0.0}, {1: 10.0, 2: 9.0, 6: 8.0, 8: 0.0}
    records = Records([*arm("e", early, noise=0), *arm("l", late, noise=0)])
    assert rules.Saturates("m", [Where("e")], "x", 0.9, 0.5).judge(records).held
    assert not rules.Saturates("m", [Where("e"), Where("l")], "x", 0.9, 0.5).judge(records).held


def test_later_with_a_larger_batch():
    def batch(size, values):
        return arm("a", values, batch=size, noise=0)

    grows = [*batch(1, {1: 9, 2: 1, 4: 0}), *batch(2, {1: 9, 2: 4, 4: 0}), *batch(3, {1: 9, 2: 8, 4: 0})]
    rule = rules.Later("m", Where("a"), "x", "batch", 0.9)
    assert rule.judge(Records(grows)).held
    swapped = [record(r.arm, r.seed, {**r.varied, "batch": 4 - r.varied["batch"]}, **r.measures) for r in grows]
    assert not rule.judge(Records(swapped)).held


def test_loses_and_keeps():
    records = Records([*arm("down", {0: 0.9, 8: 0.4}), *arm("flat", {0: 0.9, 8: 0.88})])
    assert rules.Loses("m", [Where("down")], "x", 0.2).judge(records).held
    assert not rules.Loses("m", [Where("down"), Where("flat")], "x", 0.2).judge(records).held
    assert rules.Keeps("m", [Where("flat")], "x", 0.05).judge(records).held
    assert not rules.Keeps("m", [Where("down")], "x", 0.05).judge(records).held
    assert not rules.Keeps("m", [Where("nobody")], "x", 0.05).judge(records).held


def test_ahead_is_judged_on_differences_seed_by_seed():
    paired = Records([record(n, s, m=v + 0.1 * s) for s in range(3) for n, v in (("a", 0.5), ("b", 0.49))])
    assert rules.Ahead("m", Where("a"), [Where("b")]).judge(paired).held  # seeds differ, the difference is always 0.01
    noisy = [record("a", s, m=v) for s, v in enumerate((0.5, 0.6, 0.4))] + [record("b", s, m=0.49) for s in range(3)]
    assert not rules.Ahead("m", Where("a"), [Where("b")]).judge(Records(noisy)).held
    assert not rules.Ahead("m", Where("a"), [Where("b")]).judge(Records([record("a", m=1.0), record("b", m=0.0)])).held


def test_no_worse_and_ordered():
    records = Records([*(record("a", s, m=0.9 + 0.001 * s) for s in (0, 1)), *(record("b", s, m=0.8) for s in (0, 1))])
    assert rules.NoWorse("m", Where("b"), [Where("a")], 0.2).judge(records).held
    assert not rules.NoWorse("m", Where("b"), [Where("a")], 0.05).judge(records).held
    assert not rules.NoWorse("m", Where("b"), [Where("nobody")], 0.05).judge(records).held
    assert rules.Ordered("m", [Where("a"), Where("b")]).judge(records).held
    assert not rules.Ordered("m", [Where("b"), Where("a")]).judge(records).held
    assert not rules.Ordered("m", [Where("a"), Where("nobody"), Where("b")]).judge(records).held


def test_a_smaller_drop_is_judged_seed_by_seed():
    def two(name, start, drop):
        return [
            record(name, s, {"x": x}, m=start - (drop + 0.0005 * s) * (x == "bad"))
            for s in range(3)
            for x in ("good", "bad")
        ]

    records = Records([*two("strong", 0.8, 0.02), *two("weak", 0.9, 0.2)])
    assert rules.SmallerDrop("m", "strong", ["weak"], "x", "good", "bad").judge(records).held
    assert not rules.SmallerDrop("m", "weak", ["strong"], "x", "good", "bad").judge(records).held
    assert not rules.SmallerDrop("m", "strong", ["nobody"], "x", "good", "bad").judge(records).held


def test_faster_looks_at_the_whole_training(tmp_path):
    def run(name, seed, values):
        folder = tmp_path / f"{name}{seed}"
        folder.mkdir()
        lines = [{"epoch": i + 1, "loss_mean": 1.0, "h": v + 0.001 * seed} for i, v in enumerate(values)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return record(name, seed, folder=folder)

    records = Records(run(n, s, v) for s in (0, 1) for n, v in (("quick", (4, 5, 5)), ("slow", (1, 3, 5))))
    assert rules.Faster("h", Where("quick"), [Where("slow")]).judge(records).held
    assert not rules.Faster("h", Where("slow"), [Where("quick")]).judge(records).held
    assert statistics.over_training(records, "h", Where("quick"))[0] == pytest.approx(14 / 3)


def test_rules_say_what_they_need_and_can_be_put_together():
    records = Records([record(n, s, {"x": x}, m=v + 0.001 * s) for s in (0, 1) for x, n, v in PLACED])
    right, wrong = rules.Ahead("m", Where("a"), [Where("b")]), rules.Ahead("k", Where("b"), [Where("a")])
    assert rules.Among({"x": 1}, right).judge(records).held
    assert not rules.Among({"x": 2}, right).judge(records).held
    both = rules.Every([rules.Among({"x": 1}, right), wrong])
    assert both.measures == Claim("Both.", "§1", both).measures == ("m", "k")
    assert rules.Gains("after", Where("a"), ("before",), 0.1).measures == ("after", "before")
    verdict = both.judge(records)
    assert not verdict.held
    wanted = "wanted: above each by more than 2 standard errors over seeds"
    assert (
        report.evidence(verdict.evidence.as_dict())
        == f"point a; ahead of b +1.0000 ± 0.0000; {wanted}; point b; ahead of a no runs; {wanted}"
    )


def test_a_record_of_an_earlier_version_has_a_config_of_today():
    stored = {"epochs": 3, "watch": 7, "loss": {"name": "NTXentLoss"}, "a setting that is gone": 1}
    config = Record("a", {}, 0, "a", {}, 1.0, stored, NOWHERE).config
    assert (config.epochs, config.monitor, config.loss["name"]) == (3, 7, "NTXentLoss")


def test_no_rank_where_nothing_changes():
    assert statistics.rank([1, 2, 3], [5, 5, 5]) == 0.0
    assert statistics.rank([1, 2, 3], [1, math.nan, 3]) == pytest.approx(1.0)


def test_evidence_is_json_even_without_numbers():
    study = find.load("temperature")
    judged = [each.as_dict() for each in report.judge(study, Records([record("simple", m=1.0)]))]
    assert not any(c["held"] for c in judged)
    text = json.dumps(judged, allow_nan=False)
    assert all(report.evidence(c["evidence"]) for c in json.loads(text))


# nothing holds without runs

RULES = (
    rules.Trend("m", "a", 1, over="x"),
    rules.InvertedU("m", "a", over="x"),
    rules.Behind("m", "a", "b", by=-1, over="x"),
    rules.Recovers("m", "a", "b", "c", within=9, over="x"),
    rules.Flatter("m", "a", "b", over="x"),
    rules.PrefersLarger("m", "a", "b", over="x"),
    rules.Alike("m", [Where("a")], within=9),
    rules.Alike("m", [Where("a"), Where("b")], within=9),
    rules.Narrower("m", ["a"], "x"),
    rules.Narrower("m", ["a", "b"], "x"),
    rules.TrendEverywhere("m", "a", "x", "y", 1, part=0),
    rules.BestMoves("m", "a", "x", "y", -1),
    rules.Saturates("m", [Where("a")], "x", 0.5, 1),
    rules.Later("m", Where("a"), "x", "y", 0.5),
    rules.Loses("m", [Where("a")], "x", least=-9),
    rules.Keeps("m", [], "x", most=9),
    rules.Keeps("m", [Where("a")], "x", most=9),
    rules.Ahead("m", Where("a"), [Where("b")]),
    rules.NoWorse("m", Where("a"), [Where("b")], within=9),
    rules.Ordered("m", [Where("a")]),
    rules.Ordered("m", []),
    rules.Ordered("m", [Where("a"), Where("b")]),
    rules.Gains("m", Where("a"), (), least=-9),
    rules.Gains("m", Where("a"), ("k",), least=-9),
    rules.SmallerDrop("m", "a", ["b"], "x", 1, 3),
    rules.SmallerDrop("m", "a", [], "x", 1, 3),
    rules.Faster("m", Where("a"), [Where("b")]),
    rules.Faster("m", Where("a"), []),
    rules.Among({"x": 1}, rules.Keeps("m", [Where("a")], "x", most=9)),
    rules.Every([]),
    rules.Every([rules.Keeps("m", [], "x", most=9)]),
)


def test_every_rule_is_among_those_that_are_tried_without_runs():
    kinds = {k for k in vars(rules).values() if isinstance(k, type) and k.__module__ == rules.__name__}
    assert kinds - {type(rule) for rule in RULES} == {rules.Fall}  # what two of them share


def grid(value, k=0.0):
    seen = [{"epoch": 1, "m": value}]
    return [
        Record(a, {"x": x, "y": y}, s, f"{a}{x}{y}{s}", {"m": value, "k": k}, 1.0, {}, NOWHERE, training=seen)
        for a in "abc"
        for x in (1, 2, 3)
        for y in (1, 2, 3)
        for s in (0, 1, 2)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize(
    "records",
    [
        [],
        grid(math.nan),
        grid(math.inf),
        grid(None),
        grid(math.nan, math.nan),
        grid(0.5)[:1],
        [replace(grid(0.5)[0], training=())],
    ],
    ids=["none", "nan", "inf", "null", "all nan", "one", "one without its training"],
)
def test_no_rule_holds_without_values(rule, records):
    assert not rule.judge(Records(records)).held
    assert not Claim("x", "", rule).judge(Records(records)).held


@pytest.mark.parametrize(
    "lack",
    [{"measures": {"m": math.nan}}, {"measures": {}}, {"state": "failed", "failure": "no luck"}, {"state": "planned"}],
)
def test_a_claim_does_not_hold_on_what_is_left(lack):
    whole = arm("a", {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4})
    claim = Claim("It rises.", "", rules.Trend("m", "a", 1, over="x"))
    assert claim.judge(Records(whole)).held
    lost = [replace(whole[0], **lack), *whole[1:]]
    verdict = claim.judge(Records(lost))
    assert not verdict.held
    (missing,) = verdict.evidence["missing"]
    assert missing.startswith("a, x 1, seed 0 ")
    assert "missing: a, x 1, seed 0 " in report.evidence(verdict.evidence.as_dict())
    other = Claim("So does b.", "", rules.Trend("m", "b", 1, over="x"))
    assert other.judge(Records([*lost, *arm("b", {1: 0.1, 2: 0.2, 3: 0.3})])).held  # it does not need that run


def test_a_value_that_is_none_is_in_no_mean():
    records = Records([record("a", 0, {"x": 1}, m=0.5), record("a", 1, {"x": 1}, m=math.nan), record("a", 2, {"x": 1})])
    assert records.mean("a", "m") == (0.5, 0.0, 1)
    assert [list(part) for part in records.along("a", "x", "m")] == [[1.0], [0.5], [0.0]]
    assert records.by_seed("a", "m") == {0: 0.5}
    assert comparing.differences(Records([*records, record("b", 1, {"x": 1}, m=1.0)]), Comparison("b", "m")) == []


def test_a_line_of_evidence_names_a_few_of_many_missing_runs():
    missing = [f"a, seed {i} failed: no luck" for i in range(5)]
    said = report.evidence({"rho": 1, "missing": missing})
    assert said == f"rho 1; missing: {'; '.join(missing[:3])}; and 2 more"


# evidence


def test_evidence_states_what_was_wanted_and_what_was_found():
    rising = Records(arm("a", {1: 0.1, 2: 0.2, 3: 0.3}))
    verdict = rules.Trend("m", "a", -1, over="x").judge(rising)
    said = report.evidence(verdict.evidence.as_dict())
    assert not verdict.held
    assert "rho 1;" in said
    assert "wanted: rho at most −0.8" in said
    assert "least" not in said


def test_one_seed_has_no_deviation():
    one = Records([record("a", 0, m=0.5), record("b", 0, {"x": 1}, m=0.9)])
    verdict = rules.Behind("m", "a", "b", by=0.1, over="x").judge(one)
    assert "sd" not in verdict.evidence
    ahead = rules.Ahead("m", Where("b"), [Where("a")]).judge(one)
    assert "±" not in report.evidence(ahead.evidence.as_dict())


# compared


def test_paired_differences_are_those_of_a_paired_t_test():
    a, b = (0.81, 0.84, 0.80), (0.80, 0.81, 0.79)
    records = [record("a", s, m=v) for s, v in enumerate(a)] + [record("b", s, m=v) for s, v in enumerate(b)]
    (found,) = comparing.differences(Records(records), Comparison("b", "m"))
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx(np.mean(a) - np.mean(b))
    assert found.sure is (found.low > 0)


def test_partners_share_what_is_varied_in_both():
    records = Records(
        [
            record("a", 0, {"x": 1, "y": 7}, m=3.0),
            record("b", 0, {"x": 2}, m=1.0),
            record("b", 0, {"x": 1}, m=2.0),
            record("b", 1, {"x": 1}, m=9.0),
        ]
    )
    (found,) = comparing.differences(records, Comparison("b", "m"))
    assert (found.mean, found.seeds) == (1.0, 1)
    plain = Record("c", {}, 0, "c", {"m": 5.0}, 1.0, {"x": 2}, NOWHERE)  # x is not varied in it, but has a value
    (other,) = comparing.differences(Records([*records, plain]), Comparison("b", "m", ["c"]))
    assert other.mean == 4.0
    assert not found.sure
    rows = report.compared(records, Comparison("b", "m"))[1]
    assert rows[0][4:] == ["one seed", "inconclusive"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arms"), [("dystress", ("SimCLR", "DySTreSS")), ("cacr", ("CL", "AU-CL", "HN-CL"))])
def test_rivals_of_a_seed_start_from_the_same_weights_and_images(name, arms):
    points = expand(find.load(name), "smoke")
    built = [build(next(p.config for p in points if p.arm == a and p.seed == 0)) for a in arms]
    first, *others = [{k: v for k, v in b.method.state_dict().items() if k.startswith("network.")} for b in built]
    for other in others:
        assert first.keys() == other.keys()
        assert all((first[k] == other[k]).all() for k in first)
    first, *others = [b.material for b in built]
    assert all((m.ids == first.ids).all() and m.recipe == first.recipe for m in others)


def test_every_k_sees_as_many_views_in_as_many_steps():
    study = find.load("cacr")
    arms = [arm for arm in study.arms if arm.name in ("CL", "CMC (K = 4)", "CACR (K = 4)")]
    assert len(arms) == 3
    headline = [p.config for p in expand(replace(study, arms=arms), "cpu", seeds=1)]
    assert {c.batch * c.views for c in headline} == {320}
    assert {c.epochs * c.views for c in headline} == {60}


# what it would cost


def test_a_plan_counts_steps_and_views_and_times_them():
    points = expand(find.load("generalized"), "smoke")
    kinds = plan.kinds(points)
    assert sum(k.runs for k in kinds) == len({p.config.key for p in points})
    assert sum(k.steps for k in kinds) == sum(
        p.config.epochs * (300 // p.config.batch) for p in {p.config.key: p for p in points}.values()
    )
    assert all(k.views == k.steps * 2 * 100 and k.step > 0 for k in kinds)
    shorter = [replace(p, config=replace(p.config, steps=4)) for p in points]
    assert sum(k.steps for k in plan.kinds(shorter)) == 4 * len({p.config.key for p in shorter})
    assert [plan.duration(s) for s in (30, 600, 36_000, 400_000)] == [
        "30 seconds",
        "10.0 minutes",
        "10.0 hours",
        "4.6 days",
    ]
