"""How claims of studies are judged and arms compared: each judge on records that must pass and that must fail."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from isotherm.experiments import comparing, find, judging, result_tables, wording
from isotherm.experiments.claims import by_seed, penalties, rules
from isotherm.experiments.claims.decision import at_least, at_most, decide, level, outcome_at
from isotherm.experiments.claims.verdict import undecided
from isotherm.experiments.records import Record, Records, as_lines, read
from isotherm.experiments.study import Claim, Comparison, Where

NOWHERE = Path("nowhere")
PLACED = ((1, "a", 3.0), (1, "b", 2.0), (2, "a", 1.0), (2, "b", 2.0))


def record(arm, seed=0, varied=None, folder=NOWHERE, **measures):
    return Record(arm, varied or {}, seed, f"{arm}{varied}{seed}", measures, 1.0, {"epochs": 2}, folder)


def arm(name, values, over="x", seeds=(0, 1, 2), noise=0.001, **fixed):
    """One arm along a setting, nearly alike in every seed."""
    return [record(name, s, {over: x, **fixed}, m=v + noise * s) for s in seeds for x, v in values.items()]


def outcome(rule, records):
    return rule.judge(records if isinstance(records, Records) else Records(records)).outcome


def test_a_claim_is_held_contradicted_or_undecided_by_effect_interval_and_what_counts():
    def verdict(values, least=0.02):
        return decide([at_least("a above b", dict(enumerate(values)), least)])

    assert verdict((0.05, 0.051, 0.049)).outcome == "held"
    assert verdict((0.01, 0.011, 0.009)).outcome == "contradicted"  # surely above zero, and surely less than counts
    assert verdict((-0.05, -0.051, -0.049)).outcome == "contradicted"
    assert verdict((0.05, 0.02, 0.08)).outcome == "undecided"  # the interval holds zero
    assert verdict((0.05,)).outcome == "undecided"
    assert verdict(()).outcome == "undecided"
    held = verdict((0.05, 0.051, 0.049))
    assert held.held is True
    low, high = held.part.interval
    assert held.part.effect == pytest.approx(0.05)
    assert low < held.part.effect < high
    half = stats.t.ppf(1 - level(3), 2) * np.std((0.05, 0.051, 0.049), ddof=1) / np.sqrt(3)
    assert (high - low) / 2 == pytest.approx(half)


def test_staying_within_a_bound_is_about_the_interval_not_the_mean():
    def verdict(values):
        return decide([at_most("a below b", dict(enumerate(values)), 0.03)]).outcome

    assert verdict((0.01, 0.011, 0.009)) == "held"
    assert verdict((0.02, 0.035, 0.005)) == "undecided"  # its mean is within
    assert verdict((0.05, 0.051, 0.049)) == "contradicted"


def test_an_undecided_claim_says_how_many_seeds_would_decide_it():
    verdict = decide([at_least("a above b", {0: 0.05, 1: 0.02, 2: 0.08}, 0.02)])
    needed = verdict.part.needed
    assert verdict.remedy == f"about {needed} seeds at the measured spread"
    more = at_least("a above b", {}, 0.02)
    assert outcome_at(more, 0.05, 0.03, needed) == "held"
    assert outcome_at(more, 0.05, 0.03, needed - 1) == "undecided"
    near = decide([at_least("a above b", {0: 0.02, 1: 0.05, 2: -0.0101}, 0.02)])
    assert near.part.needed is None
    assert "too near" in near.remedy


def test_all_that_a_claim_says_must_hold_and_one_part_contradicts_it():
    good, bad, open_ = ((0.05, 0.051, 0.049), (-0.05, -0.051, -0.049), (0.05, 0.02, 0.08))

    def verdict(*parts):
        return decide([at_least(f"{i}", dict(enumerate(values)), 0.02) for i, values in enumerate(parts)])

    assert verdict(good, good).outcome == "held"
    assert verdict(good, open_).outcome == "undecided"
    assert verdict(good, open_, bad).outcome == "contradicted"
    assert verdict(good, open_, bad).part.what == "2"
    assert "of 3 things that the claim says" in wording.sentence(verdict(good, open_, bad))


def test_the_best_of_a_line_is_chosen_by_the_other_seeds():
    points = {1: {0: 0.9, 1: 0.1, 2: 0.1}, 2: {0: 0.1, 1: 0.9, 2: 0.1}, 3: {0: 0.3, 1: 0.3, 2: 0.3}}
    top = by_seed.best(points)
    assert top.by_seed == {0: 0.1, 1: 0.1, 2: 0.1}  # whoever was lucky is not chosen by its own luck
    assert by_seed.best({1: {0: 0.5}}).by_seed == {}


def test_alike_is_about_every_difference():
    def three(*values):
        return [record(n, s, m=v + 0.001 * s) for n, v in zip("abc", values, strict=True) for s in range(3)]

    rule = rules.Alike("m", [Where(n) for n in "abc"], 0.03)
    assert outcome(rule, three(0.8, 0.81, 0.82)) == "held"
    assert outcome(rule, three(0.8, 0.81, 0.85)) == "contradicted"
    assert outcome(rules.Alike("m", [Where("a"), Where("nobody")], 0.03), three(0.8, 0.8, 0.8)) == "undecided"


def test_narrower_compares_spreads_within_seeds_that_all_have():
    records = [*arm("a", {1: 0.5, 3: 0.7}), *arm("b", {1: 0.9, 3: 0.75})]
    assert outcome(rules.Narrower("m", ["a", "b"], "x"), records) == "held"
    assert outcome(rules.Narrower("m", ["a", "b"], "x", most=0.1), records) == "contradicted"
    assert outcome(rules.Narrower("m", ["a", "nobody"], "x"), records) == "undecided"
    wider = [*arm("a", {1: 0.7, 3: 0.5}), *arm("b", {1: 0.75, 3: 0.9})]
    assert outcome(rules.Narrower("m", ["a", "b"], "x"), wider) == "contradicted"
    assert outcome(rules.Narrower("m", ["a", "b"], "x", values=(3, 1)), wider) == "held"


def test_trends_and_their_direction():
    rising = arm("a", {1: 0.1, 2: 0.2, 3: 0.3})
    assert outcome(rules.Trend("m", "a", 1, over="x"), rising) == "held"
    assert outcome(rules.Trend("m", "a", -1, over="x"), rising) == "contradicted"
    both = [*arm("a", {1: 0.1, 2: 0.2, 3: 0.3}, y=1), *arm("a", {1: 0.3, 2: 0.2, 3: 0.1}, y=2)]
    assert outcome(rules.TrendEverywhere("m", "a", "x", "y", 1), both) == "contradicted"
    assert outcome(rules.Trend("m", "a", 1, over="x", among={"y": 1}), both) == "held"


def test_an_inverted_u_and_where_its_best_lies():
    hill = arm("a", {1: 0.5, 2: 0.8, 3: 0.79, 4: 0.6})
    assert outcome(rules.InvertedU("m", "a", 0.01, "x"), hill) == "held"
    assert outcome(rules.InvertedU("m", "a", 0.01, "x"), arm("a", {1: 0.5, 2: 0.6, 3: 0.7, 4: 0.8})) == "contradicted"
    later = arm("a", {1: 0.3, 2: 0.4, 3: 0.5, 4: 0.8, 5: 0.35})
    assert outcome(rules.InvertedU("m", "a", 0.01, "x", inside=(2, 3)), later) == "contradicted"
    assert outcome(rules.InvertedU("m", "a", 0.01, "x", inside=(3, 4)), later) == "held"
    assert outcome(rules.BestWithin("m", "a", 2, 3, 0.01, "x"), hill) == "held"
    assert outcome(rules.BestWithin("m", "a", 3, 4, 0.001, "x"), hill) == "contradicted"


def test_whatever_is_fixed_the_other_can_be_tuned():
    def ridge(y, at, top):
        return arm("a", {x: top - abs(x - at) for x in (1, 2, 3)}, y=y)

    rule = rules.Tunable("m", "a", "x", "y", 0.1)
    assert outcome(rule, [*ridge(1, 3, 1.0), *ridge(2, 2, 1.02), *ridge(3, 1, 0.98)]) == "held"
    assert outcome(rule, [*ridge(1, 3, 1.0), *ridge(2, 2, 0.5)]) == "contradicted"


def test_where_a_fall_is_over():
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.array([10.0, 5.0, 1.0, 0.0])
    assert by_seed.reaches(x, y, 0.5) == 2.0
    assert by_seed.reaches(x, y, 0.9) == pytest.approx(4.0)
    assert by_seed.reaches(x, y, 0.7) == pytest.approx(3.0)  # half-way between 5 and 1
    assert math.isnan(by_seed.reaches(x, np.array([1.0, 2.0, 3.0, 4.0]), 0.9))


def test_saturation_early_and_late():
    early, late = {1: 10.0, 4: 1.0, 7: 0.5, 10: 0.4}, {1: 10.0, 4: 9.0, 7: 8.0, 10: 0.0}
    records = [*arm("e", early), *arm("l", late)]
    assert outcome(rules.Saturates("m", [Where("e")], "x", 3.0), records) == "held"
    assert outcome(rules.Saturates("m", [Where("e"), Where("l")], "x", 3.0), records) == "contradicted"


def test_later_with_a_larger_batch():
    def batch(size, values):
        return arm("a", values, batch=size)

    grows = [*batch(1, {1: 9, 2: 1, 4: 0}), *batch(2, {1: 9, 2: 4, 4: 0}), *batch(3, {1: 9, 2: 8, 4: 0})]
    rule = rules.Later("m", Where("a"), "x", "batch", 0.9, 0.5)
    assert outcome(rule, grows) == "held"
    swapped = [record(r.arm, r.seed, {**r.varied, "batch": 4 - r.varied["batch"]}, **r.measures) for r in grows]
    assert outcome(rule, swapped) == "contradicted"


def test_loses_keeps_and_reaches():
    records = [*arm("down", {0: 0.9, 8: 0.4}), *arm("flat", {0: 0.9, 8: 0.88})]
    assert outcome(rules.Loses("m", [Where("down")], "x", 0.2), records) == "held"
    assert outcome(rules.Loses("m", [Where("down"), Where("flat")], "x", 0.2), records) == "contradicted"
    assert outcome(rules.Keeps("m", [Where("flat")], "x", 0.05), records) == "held"
    assert outcome(rules.Keeps("m", [Where("down")], "x", 0.05), records) == "contradicted"
    assert outcome(rules.Keeps("m", [Where("nobody")], "x", 0.05), records) == "undecided"
    assert outcome(rules.Reaches("m", [Where("down", {"x": 8})], 0.5), records) == "held"
    assert outcome(rules.Reaches("m", [Where("flat", {"x": 8})], 0.5), records) == "contradicted"


def test_ahead_is_judged_on_differences_seed_by_seed():
    paired = [record(n, s, m=v + 0.1 * s) for s in range(3) for n, v in (("a", 0.51), ("b", 0.49))]
    ahead = rules.Ahead("m", Where("a"), [Where("b")], 0.01)
    assert outcome(ahead, paired) == "held"  # seeds differ, the difference is always 0.02
    assert outcome(rules.Ahead("m", Where("b"), [Where("a")], 0.01, lower=True), paired) == "held"
    assert outcome(rules.Ahead("m", Where("a"), [Where("b")], 0.03), paired) == "contradicted"
    noisy = [record("a", s, m=v) for s, v in enumerate((0.5, 0.6, 0.4))] + [record("b", s, m=0.49) for s in range(3)]
    assert outcome(ahead, noisy) == "undecided"
    assert outcome(ahead, [record("a", m=1.0), record("b", m=0.0)]) == "undecided"
    line = [*arm("c", {1: 0.1, 2: 0.4, 3: 0.2}), *(record("a", s, m=0.5) for s in range(3))]
    assert outcome(rules.AheadOfBest("m", Where("a"), Where("c"), "x", 0.05), line) == "held"
    assert outcome(rules.AheadOfBest("m", Where("a"), Where("c"), "x", 0.2), line) == "contradicted"


def test_settings_chosen_on_one_part_are_compared_on_another():
    def runs(name, tested, validated):
        return [
            record(name, s, {"x": x}, m=m + 0.001 * s, v=v)
            for s in range(3)
            for x, m, v in zip((1, 2), tested, validated, strict=True)
        ]

    lucky = runs("a", (0.9, 0.5), (0.3, 0.4)) + runs("b", (0.4, 0.3), (0.2, 0.1))
    rule = rules.AheadAsChosen("m", "a", ["b"], "v", 0.05)
    verdict = rule.judge(Records(lucky))
    assert verdict.outcome == "held"
    assert verdict.part.effect == pytest.approx(0.1)  # 0.5 and 0.4, where v is best; the best of m itself is 0.9
    assert verdict.evidence["chosen_at"] == {"a": "x 2", "b": "x 1"}
    assert outcome(rules.AheadAsChosen("m", "a", ["b"], "v", 0.2), lucky) == "contradicted"
    # every seed's point is the others' choice: seed 0 alone would choose x = 1
    odd = [
        record("a", s, {"x": x}, m=float(x), v=v) for s in range(3) for x, v in ((1, 9.0 if s == 0 else 0.0), (2, 1.0))
    ]
    zero = [record("b", s, {"x": 1}, m=0.0, v=0.0) for s in range(3)]
    part = rules.AheadAsChosen("m", "a", ["b"], "v", 0.05).judge(Records(odd + zero)).part
    assert part.by_seed == {0: 2.0, 1: 1.0, 2: 1.0}


def test_a_bar_is_reached_or_not():
    runs = [record("a", s, m=0.42 + 0.001 * s) for s in range(3)]
    assert outcome(rules.AtLeast("m", [Where("a")], 0.4), runs) == "held"
    assert outcome(rules.AtLeast("m", [Where("a")], 0.5), runs) == "contradicted"


def test_behind_and_recovering():
    records = [*arm("best", {1: 0.6, 2: 0.8, 3: 0.7}), *(record("weak", s, m=0.5) for s in range(3))]
    assert outcome(rules.Behind("m", "weak", "best", 0.2, "x"), records) == "held"
    assert outcome(rules.Behind("m", "weak", "best", 0.4, "x"), records) == "contradicted"
    repaired = [*records, *(record("good", s, m=0.79) for s in range(3)), *(record("bad", s, m=0.6) for s in range(3))]
    assert outcome(rules.Recovers("m", "good", "weak", "best", 0.2, over="x"), repaired) == "held"
    assert outcome(rules.Recovers("m", "bad", "weak", "best", 0.2, over="x"), repaired) == "contradicted"


def test_flatter_and_preferring_larger_values():
    records = [*arm("flat", {1: 0.8, 2: 0.81, 3: 0.82}), *arm("steep", {1: 0.9, 2: 0.8, 3: 0.7})]
    assert outcome(rules.Flatter("m", "flat", "steep", over="x"), records) == "held"
    assert outcome(rules.Flatter("m", "steep", "flat", over="x"), records) == "contradicted"
    assert outcome(rules.PrefersLarger("m", "flat", "steep", 0.01, "x"), records) == "held"
    assert outcome(rules.PrefersLarger("m", "steep", "flat", 0.01, "x"), records) == "contradicted"


def test_advice_is_followed_on_the_seeds_own_line():
    advised = {0.1: 0.2, 0.2: 0.2, 0.4: math.sqrt(0.08), 0.8: 1.6}  # 1.6 lies beyond the end
    accuracy = {0.1: 0.5, 0.2: 0.7, 0.4: 0.9, 0.8: 0.3}
    runs = [record("a", s, {"x": x}, m=m, linear=m, t=advised[x]) for s in range(3) for x, m in accuracy.items()]
    once = rules.AdviceAhead("m", "a", "t", over="x", usual=0.1, least=0.01).judge(Records(runs))
    assert once.outcome == "held"
    assert once.evidence["gain_from"] == pytest.approx({"0.1": 0.2, "0.2": 0.2, "0.4": 0.3, "0.8": -0.2})
    assert once.part.effect == pytest.approx(0.125)
    in_points = rules.AdviceAhead("linear", "a", "t", over="x", usual=0.1).judge(Records(runs))
    assert dict(wording.details(in_points))["gain from"] == (
        "0.1: 20.00 points, 0.2: 20.00 points, 0.4: 30.00 points, 0.8: −20.00 points"
    )
    assert once.evidence["better"] == "9 of 12"
    twice = rules.AdviceAhead("m", "a", "t", times=2, over="x", usual=0.1, least=0.2).judge(Records(runs))
    assert twice.evidence["gain_from"] == pytest.approx({"0.1": 0.2, "0.2": 0.2, "0.4": 0.25, "0.8": -0.2})
    assert twice.outcome == "contradicted"
    best = rules.AdviceNearBest("m", "a", "t", over="x", within=0.3).judge(Records(runs))
    assert best.outcome == "held"
    assert best.evidence["best_at"] == 0.4
    assert best.evidence["lost_from"] == pytest.approx({"0.1": 0.2, "0.2": 0.2, "0.4": 0.1, "0.8": 0.6})
    assert outcome(rules.AdviceNearBest("m", "a", "t", over="x", within=0.2), runs) == "contradicted"
    assert outcome(rules.AdviceAhead("m", "a", "t", over="x", usual=0.3), runs) == "undecided"  # nobody trained there


def test_entropies_are_compared_once_nobody_is_in_one_point(tmp_path):
    parts = (0.2, 0.4, 0.6, 0.8, 1.0)
    high_in_a_point = {part: 9.0 if part < 0.5 else 1.0 for part in parts}
    records = [looked_at(tmp_path, "a", s, high_in_a_point, lambda part: -3 * (part > 0.5)) for s in range(3)]
    records += [looked_at(tmp_path, "b", s, dict.fromkeys(parts, 1.5)) for s in range(3)]
    rule = rules.Faster("h", Where("a"), [Where("b")], 0.1)
    assert outcome(rule, records) == "held"
    assert outcome(replace(rule, spread=2.0), records) == "contradicted"
    late = [looked_at(tmp_path, "c", s, dict.fromkeys(parts, 1.5), lambda part: -3 * (part > 0.7)) for s in range(3)]
    verdict = replace(rule, rivals=[Where("c")], spread=2.0).judge(Records([*records, *late]))
    assert verdict.outcome == "undecided"
    assert "−uniformity is 2 or more" in verdict.evidence["why"]


def test_no_worse_than_the_best_of_each():
    mine = arm("a", {1: 0.5, 2: 0.8})
    records = [*mine, *arm("b", {1: 0.82, 2: 0.4})]
    assert outcome(rules.NoWorseAsChosen("m", "a", ["b"], "m", 0.05), records) == "held"
    assert outcome(rules.NoWorseAsChosen("m", "a", ["b"], "m", 0.01), records) == "contradicted"
    assert outcome(rules.NoWorseAsChosen("m", "a", ["b"], "m", 0.01), mine) == "undecided"


def test_no_worse_and_ordered():
    records = [*(record("a", s, m=0.9 + 0.001 * s) for s in range(3)), *(record("b", s, m=0.8) for s in range(3))]
    assert outcome(rules.NoWorse("m", Where("b"), [Where("a")], 0.2), records) == "held"
    assert outcome(rules.NoWorse("m", Where("b"), [Where("a")], 0.05), records) == "contradicted"
    assert outcome(rules.NoWorse("m", Where("b"), [Where("nobody")], 0.05), records) == "undecided"
    assert outcome(rules.Ordered("m", [Where("a"), Where("b")], 0.05), records) == "held"
    assert outcome(rules.Ordered("m", [Where("b"), Where("a")], 0.05), records) == "contradicted"
    assert outcome(rules.Ordered("m", [Where("a"), Where("nobody"), Where("b")], 0.05), records) == "undecided"


def test_a_smaller_drop_is_judged_seed_by_seed():
    def two(name, start, drop):
        return [
            record(name, s, {"x": x}, m=start - (drop + 0.0005 * s) * (x == "bad"))
            for s in range(3)
            for x in ("good", "bad")
        ]

    records = Records([*two("strong", 0.8, 0.02), *two("weak", 0.9, 0.2)])
    assert outcome(rules.SmallerDrop("m", "strong", ["weak"], "x", "good", "bad", 0.01), records) == "held"
    assert outcome(rules.SmallerDrop("m", "weak", ["strong"], "x", "good", "bad", 0.01), records) == "contradicted"
    assert outcome(rules.SmallerDrop("m", "strong", ["nobody"], "x", "good", "bad", 0.01), records) == "undecided"
    nobody_drops = [*two("strong", 0.9, 0.0), *two("weak", 0.9, 0.001)]
    verdict = rules.SmallerDrop("m", "strong", ["weak"], "x", "good", "bad", 0.01).judge(Records(nobody_drops))
    assert verdict.outcome == "undecided"
    assert "no drop to compare" in verdict.evidence["why"]


def looked_at(tmp_path, name, seed, values, uniformity=-3.0):
    """A run that was seen to be so at these parts of its training."""
    folder = tmp_path / f"{name}{seed}"
    folder.mkdir()
    even = {part: uniformity(part) if callable(uniformity) else uniformity for part in values}
    lines = [
        {"epoch": 2 * part, "loss_mean": 1.0, "h": v + 0.001 * seed, "uniformity": even[part]}
        for part, v in values.items()
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return record(name, seed, folder=folder)


def test_values_that_are_tuples_are_found_again_in_records(tmp_path):
    values = ((0.1, 1.0), (0.5, 1.0))
    runs = [record("a", s, Where("a", {"crop": v}).varied, m=v[0]) for v in values for s in range(4)]
    rule = rules.Ahead("m", Where("a", {"crop": values[1]}), [Where("a", {"crop": values[0]})], 0.1)
    (tmp_path / "records.jsonl").write_text(as_lines(runs))
    assert rule.judge(Records(runs)).outcome == rule.judge(read(tmp_path)).outcome == "held"


def test_faster_looks_at_the_whole_training(tmp_path):
    arms = {"quick": {1 / 3: 4, 2 / 3: 5, 1: 5}, "slow": {1 / 3: 1, 2 / 3: 3, 1: 5}}
    records = Records(looked_at(tmp_path, n, s, v) for s in range(3) for n, v in arms.items())
    assert outcome(rules.Faster("h", Where("quick"), [Where("slow")], 0.1), records) == "held"
    assert outcome(rules.Faster("h", Where("slow"), [Where("quick")], 0.1), records) == "contradicted"
    assert by_seed.over_training(records, "h", [Where("quick")])[0][0] == pytest.approx(14 / 3)


def test_who_is_looked_at_later_is_not_faster_for_that(tmp_path):
    looks = {"often": (0.2, 0.4, 0.6, 0.8, 1), "late": (0.3, 0.5, 0.75, 1), "twice": (0.5, 1)}
    records = Records(
        looked_at(tmp_path, name, s, {part: 10 * part for part in parts})
        for s in range(3)
        for name, parts in looks.items()
    )
    often, late = by_seed.over_training(records, "h", [Where("often"), Where("late")])
    assert often[0] == pytest.approx(late[0])  # both learn alike
    assert outcome(rules.Faster("h", Where("late"), [Where("often")], 0.1), records) == "contradicted"
    assert outcome(rules.Faster("h", Where("twice"), [Where("often")], 0.1), records) == "undecided"


def test_rules_say_what_they_need_and_can_be_put_together():
    records = Records([record(n, s, {"x": x}, m=v + 0.001 * s) for s in range(3) for x, n, v in PLACED])
    right, wrong = rules.Ahead("m", Where("a"), [Where("b")], 0.1), rules.Ahead("k", Where("b"), [Where("a")], 0.1)
    assert outcome(rules.Among({"x": 1}, right), records) == "held"
    assert outcome(rules.Among({"x": 2}, right), records) == "contradicted"
    both = rules.Every([rules.Among({"x": 1}, right), wrong])
    assert both.measures == Claim("Both.", "§1", both).measures == ("m", "k")
    assert rules.Gains("after", Where("a"), ("before",), 0.1).measures == ("after", "before")
    assert outcome(both, records) == "undecided"  # nobody has k
    said = wording.sentence(rules.Among({"x": 1}, right).judge(records))
    assert said == "A above b: 1 [1 to 1], 3 seeds; 0.1 or more counts."


def test_a_record_of_an_earlier_version_has_a_config_of_today():
    stored = {"epochs": 3, "watch": 7, "loss": {"name": "NTXentLoss"}, "a setting that is gone": 1}
    config = Record("a", {}, 0, "a", {}, 1.0, stored, NOWHERE).config
    assert (config.epochs, config.monitor, config.loss["name"]) == (3, 7, "NTXentLoss")


def test_no_rank_where_nothing_changes():
    assert by_seed.rank([1, 2, 3], [5, 5, 5]) == 0.0
    ties = np.random.default_rng(0).integers(0, 6, (20, 2, 9)).astype(float)
    for x, y in ties:
        assert by_seed.rank(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert by_seed.rank([1, 2, 3], [1, math.nan, 3]) == pytest.approx(1.0)


def test_evidence_is_json_even_without_numbers():
    study = find.load("temperature")
    judged = judging.judge(study, Records([record("simple", m=1.0)]))
    assert {each.verdict.outcome for each in judged} == {"undecided"}
    assert all(wording.sentence(each.verdict) for each in judged)
    text = json.dumps([each.as_dict() for each in judged], allow_nan=False)
    assert {c["held"] for c in json.loads(text)} == {None}


def test_entropy_and_closed_forms():
    rng = np.random.default_rng(0)
    s = np.tanh(rng.normal(size=(40, 30)))
    flat = penalties.entropy(np.zeros((2, 30)), 0.3)
    np.testing.assert_allclose(flat, np.log(30))
    r = np.exp(s / 0.3) / np.exp(s / 0.3).sum(1, keepdims=True)
    np.testing.assert_allclose(penalties.entropy(s, 0.3), -(r * np.log(r)).sum(1))
    assert all(penalties.closed_forms(s, t) < 1e-10 for t in (0.05, 0.3, 1.0))


# nothing is decided without runs

RULES = (
    rules.Trend("m", "a", 1, over="x"),
    rules.InvertedU("m", "a", 0.01, over="x"),
    rules.Behind("m", "a", "b", least=-1, over="x"),
    rules.Recovers("m", "a", "b", "c", least=-9, over="x"),
    rules.Flatter("m", "a", "b", over="x"),
    rules.PrefersLarger("m", "a", "b", -9, over="x"),
    rules.BestWithin("m", "a", 1, 2, within=9, over="x"),
    rules.AdviceAhead("m", "a", "k", over="x", usual=1, least=-9),
    rules.AdviceNearBest("m", "a", "k", over="x", within=9),
    rules.Alike("m", [Where("a")], within=9),
    rules.Alike("m", [Where("a"), Where("b")], within=9),
    rules.Narrower("m", ["a"], "x"),
    rules.Narrower("m", ["a", "b"], "x"),
    rules.TrendEverywhere("m", "a", "x", "y", 1, least=-1),
    rules.Tunable("m", "a", "x", "y", within=9),
    rules.Saturates("m", [Where("a")], "x", 0.1),
    rules.Later("m", Where("a"), "x", "y", 0.5, least=-9),
    rules.Loses("m", [Where("a")], "x", least=-9),
    rules.Keeps("m", [], "x", most=9),
    rules.Keeps("m", [Where("a")], "x", most=9),
    rules.Ahead("m", Where("a"), [Where("b")], least=-9),
    rules.AheadOfBest("m", Where("a"), Where("b"), "x", least=-9),
    rules.AheadAsChosen("m", "a", ["b"], "k", least=-9),
    rules.Reaches("m", [Where("a")], most=9),
    rules.AtLeast("m", [Where("a")], least=-9),
    rules.NoWorse("m", Where("a"), [Where("b")], within=9),
    rules.NoWorseAsChosen("m", "a", ["b"], "k", within=9),
    rules.Ordered("m", [Where("a")], least=-9),
    rules.Ordered("m", [], least=-9),
    rules.Ordered("m", [Where("a"), Where("b")], least=-9),
    rules.Gains("m", Where("a"), (), least=-9),
    rules.Gains("m", Where("a"), ("k",), least=-9),
    rules.SmallerDrop("m", "a", ["b"], "x", 1, 3, least=-9),
    rules.SmallerDrop("m", "a", [], "x", 1, 3, least=-9),
    rules.Faster("m", Where("a"), [Where("b")], least=-9),
    rules.Faster("m", Where("a"), [], least=-9),
    rules.Among({"x": 1}, rules.Keeps("m", [Where("a")], "x", most=9)),
    rules.Every([]),
    rules.Every([rules.Keeps("m", [], "x", most=9)]),
)


def test_every_rule_is_among_those_that_are_tried_without_runs():
    assert {getattr(rules, name) for name in rules.__all__} == {type(rule) for rule in RULES}


def grid(value, k=0.0):
    seen = [{"epoch": i, "m": value} for i in (1, 2, 3)]
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
def test_no_rule_decides_without_values(rule, records):
    assert rule.judge(Records(records)).outcome == "undecided"
    assert Claim("x", "", rule).judge(Records(records)).outcome == "undecided"


@pytest.mark.parametrize(
    "lack",
    [{"measures": {"m": math.nan}}, {"measures": {}}, {"state": "failed", "failure": "no luck"}, {"state": "planned"}],
)
def test_a_claim_is_not_decided_on_what_is_left(lack):
    whole = arm("a", {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4})
    claim = Claim("It rises.", "", rules.Trend("m", "a", 1, over="x"))
    assert claim.judge(Records(whole)).held
    lost = [replace(whole[0], **lack), *whole[1:]]
    verdict = claim.judge(Records(lost))
    assert verdict.outcome == "undecided"
    (missing,) = verdict.evidence["missing"]
    assert missing.startswith("a, x 1, seed 0 ")
    assert "Missing: a, x 1, seed 0 " in wording.sentence(verdict)
    other = Claim("So does b.", "", rules.Trend("m", "b", 1, over="x"))
    assert other.judge(Records([*lost, *arm("b", {1: 0.1, 2: 0.2, 3: 0.3})])).held  # it does not need that run


def test_a_value_that_is_none_is_in_no_mean():
    records = Records([record("a", 0, {"x": 1}, m=0.5), record("a", 1, {"x": 1}, m=math.nan), record("a", 2, {"x": 1})])
    assert records.mean("a", "m") == (0.5, 0.0, 1)
    assert [list(part) for part in records.along("a", "x", "m")] == [[1.0], [0.5], [0.0]]
    assert records.by_seed("a", "m") == {0: 0.5}
    assert comparing.differences(Records([*records, record("b", 1, {"x": 1}, m=1.0)]), Comparison("b", "m")) == []


def test_a_sentence_names_a_few_of_many_missing_runs():
    missing = {f"a, seed {i}": "failed: no luck" for i in range(5)}
    said = wording.sentence(undecided("no runs").lacking(missing))
    assert said.endswith(
        "Missing: a, seed 0 failed: no luck; a, seed 1 failed: no luck; a, seed 2 failed: no luck; and 2 more."
    )


def test_accuracies_are_told_in_points():
    records = Records([record(n, s, linear=v) for n, v in (("a", 0.85), ("b", 0.83)) for s in range(3)])
    said = wording.sentence(rules.Ahead("linear", Where("a"), [Where("b")], 0.01).judge(records))
    assert said == "A above b: 2.00 points [2.00 to 2.00], 3 seeds; 1.00 points or more counts."


def test_a_probe_at_its_ceiling_is_told():
    claim = Claim("x", "", rules.Ahead("linear", Where("a"), [Where("b")], 0.01))
    values = (("a", (0.99, 0.98, 0.985)), ("b", (0.98, 0.99, 0.98)))
    records = Records([record(n, s, linear=v) for n, each in values for s, v in enumerate(each)])
    study = replace(find.load("temperature"), claims=(claim,))
    (judged,) = judging.judge(study, records)
    assert judged.verdict.outcome == "undecided"
    assert judged.verdict.remedy.startswith("not on this data: ")
    assert {where.label for where in judged.points} == {"a", "b"}
    assert judging.by_chance([judged]).startswith("If the claim were false, it would still come out 'held' in at")
    none = replace(judged, verdict=undecided("there is nothing"))
    assert judging.by_chance([none]) == ""
    assert judging.by_chance([judged, none]).startswith("If the one with an interval over seeds were false, it would")
    three = judging.by_chance([judged] * 3)
    assert three == "If no claim were true, expect at most 0.15 false 'held' among these 3 (5% each)."
    assert "at most 0.1 false 'held' among the 2 that have an interval" in judging.by_chance([judged, judged, none])


# compared


def test_paired_differences_are_those_of_a_paired_t_test():
    a, b = (0.81, 0.84, 0.80), (0.80, 0.81, 0.79)
    records = [record("a", s, m=v) for s, v in enumerate(a)] + [record("b", s, m=v) for s, v in enumerate(b)]
    (found,) = comparing.differences(Records(records), Comparison("b", "m"))
    expected = stats.ttest_rel(a, b).confidence_interval(1 - 2 * level(3))
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
    rows = result_tables.compared(records, Comparison("b", "m"))[1]
    assert rows[0][4:] == ["one seed", "inconclusive"]
