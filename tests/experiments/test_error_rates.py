"""How often each rule is wrong, and how often it sees what the papers report: simulated, with fixed seeds.

`python tests/experiments/test_error_rates.py` prints the table of docs/decisions/0017.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from isotherm.experiments.claims import rules
from isotherm.experiments.claims.decision import FALSE, MOST_SEEDS, Contrast, at_least, at_most, decide, outcome_at
from isotherm.experiments.records import Record, Records
from isotherm.experiments.study import Rule, Where

REPEATS = 500
X = "x"
TAUS = (0.05, 0.07, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ACCURACY = (76.1, 79.75, 81.82, 83.78, 83.27, 83.22, 82.54, 82.97, 82.69, 82.67, 81.97, 82.21)
HARD = (76.22, 79.2, 80.44, 83.28, 83.63, 84.14, 84.31, 84.6, 84.19, 84.6, 84.45, 84.19)
"""Wang & Liu, supplement, Tables 1 and 2, CIFAR-10."""
UNIFORMITY = dict(zip(TAUS, np.interp(TAUS, (0.07, 0.3, 0.7, 1.0), (-3.86, -3.6, -3.17, -2.96)), strict=True))
"""Their Table 1."""
FLAT = dict.fromkeys(TAUS, 0.0)

Truth = Mapping[str, float | Mapping[float, float]]
"""The true value of every arm, or its values along x."""


def line(values):
    return dict(zip(TAUS, values, strict=True))


@dataclass(frozen=True)
class Case:
    """A rule, truths under which it must not hold, and what a paper found, with a spread over seeds as ours."""

    rule: Rule
    nothing: Truth
    paper: Truth
    sd: float
    power: float
    """The least part of repetitions in which it must hold if the paper is right, with three seeds."""


def both(rule_a, value_b):
    return {"a": rule_a, "b": value_b}


CASES = {
    "Trend (uniformity, 12 temperatures)": Case(
        rules.Trend("m", "a", 1, X), {"a": FLAT}, {"a": UNIFORMITY}, 0.05, 0.95
    ),
    "Trend (4 values)": Case(
        rules.Trend("m", "a", 1, X),
        {"a": dict.fromkeys((1, 2, 3, 4), 0.0)},
        {"a": {1: 0.0, 2: 1.0, 3: 2.0, 4: 3.0}},
        0.3,
        0.95,
    ),
    "TrendEverywhere": Case(
        rules.TrendEverywhere("m", "a", X, "y", 1),
        {"a": dict.fromkeys((1, 2, 3, 4, 5), 0.0)},
        {"a": {1: 0.0, 2: 1.0, 3: 2.0, 4: 3.0, 5: 4.0}},
        0.5,
        0.95,
    ),
    "InvertedU": Case(rules.InvertedU("m", "a", 1.0, X), {"a": FLAT}, {"a": line(ACCURACY)}, 0.3, 0.6),
    "InvertedU (of what only rises)": Case(
        rules.InvertedU("m", "a", 0.5, X), {"a": {1: 0.0, 2: 1.0, 3: 2.0, 4: 2.0}}, {"a": {1: 0, 2: 4, 3: 2}}, 0.5, 0.7
    ),
    "BestWithin": Case(
        rules.BestWithin("m", "a", 0.2, 0.3, 1.0, X),
        {"a": {**line(ACCURACY), 0.5: 84.78}},
        {"a": line(ACCURACY)},
        0.3,
        0.6,
    ),
    "Flatter": Case(
        rules.Flatter("m", "a", "b", over=X),
        both({x: v / 3 for x, v in UNIFORMITY.items()}, UNIFORMITY),
        both(dict.fromkeys(TAUS, -3.87), UNIFORMITY),
        0.02,
        0.95,
    ),
    "PrefersLarger": Case(
        rules.PrefersLarger("m", "a", "b", 1.0, X), both(FLAT, FLAT), both(line(HARD), line(ACCURACY)), 0.2, 0.7
    ),
    "Tunable": Case(
        rules.Tunable("m", "a", X, "y", 1.0),
        {"a, y 1": {1: 0.0, 2: 0.0, 3: 0.0}, "a, y 2": {1: 0.0, 2: 0.0, 3: 1.0}, "a, y 3": {1: 0.0, 2: 0.0, 3: 1.0}},
        {"a": {1: -3.0, 2: 0.0, 3: -3.0}},
        0.1,
        0.9,
    ),
    "Saturates (flat noise)": Case(
        rules.Saturates("m", [Where("a")], X, 3.0),
        {"a": dict.fromkeys((1, 2, 4, 8, 12, 16), 0.0)},
        {"a": {1: 0.0, 2: -1.0, 4: -1.8, 8: -2.0, 12: -2.0, 16: -2.0}},
        0.05,
        0.9,
    ),
    "Saturates (a straight fall)": Case(
        rules.Saturates("m", [Where("a")], X, 3.0),
        {"a": {x: -0.1 * x for x in (1, 2, 4, 8, 12, 16)}},
        {"a": {1: 0.0, 2: -1.0, 4: -1.8, 8: -2.0, 12: -2.0, 16: -2.0}},
        0.05,
        0.9,
    ),
    "Later": Case(
        rules.Later("m", Where("a"), X, "y", 0.9, 0.5),
        {"a": {1: 0.0, 2: -1.0, 4: -1.8, 8: -2.0, 12: -2.0}},
        {
            "a, y 1": {1: 0.0, 2: -1.0, 4: -1.8, 8: -2.0, 12: -2.0},
            "a, y 3": {1: 0.0, 2: -0.5, 4: -1.0, 8: -1.9, 12: -2.0},
        },
        0.03,
        0.9,
    ),
    "Ahead of one": Case(rules.Ahead("m", Where("a"), [Where("b")], 1.0), both(0.0, 0.0), both(5.0, 0.0), 0.7, 0.8),
    "Ahead of one (a point, as in DySTreSS's Table 3)": Case(
        rules.Ahead("m", Where("a"), [Where("b")], 0.5), both(0.0, 0.0), both(1.0, 0.0), 0.3, 0.3
    ),
    "Ahead of three": Case(
        rules.Ahead("m", Where("a"), [Where("b"), Where("c"), Where("d")], 1.0),
        {"a": 0.0, "b": 0.0, "c": -9.0, "d": -9.0},
        {"a": 5.0, "b": 0.0, "c": 0.0, "d": 0.0},
        0.7,
        0.6,
    ),
    "AheadOfBest": Case(
        rules.AheadOfBest("m", Where("a"), Where("b"), X, 0.5), both(0.0, FLAT), both(5.0, FLAT), 0.7, 0.7
    ),
    "AheadAsChosen": Case(
        rules.AheadAsChosen("m", "a", ["b"], "k", 0.5), both(FLAT, FLAT), both(line([5.0] * 12), FLAT), 0.7, 0.7
    ),
    "AtLeast": Case(rules.AtLeast("m", [Where("a")], 1.0), {"a": 0.0}, {"a": 5.0}, 0.7, 0.8),
    "Behind": Case(rules.Behind("m", "a", "b", 2.0, X), both(0.0, FLAT), both(74.83, line(ACCURACY)), 0.7, 0.9),
    "Recovers": Case(
        rules.Recovers("m", "a", "b", "c", 2.0, over=X),
        {"a": 79.3, "b": 74.83, "c": line(ACCURACY)},  # exactly half
        {"a": 84.84, "b": 74.83, "c": line(ACCURACY)},
        0.7,
        0.8,
    ),
    "NoWorseAsChosen": Case(
        rules.NoWorseAsChosen("m", "a", ["b"], "k", 1.0), both(line([-1.0] * 12), FLAT), both(FLAT, FLAT), 0.2, 0.6
    ),
    "NoWorse": Case(rules.NoWorse("m", Where("a"), [Where("b")], 1.0), both(-1.0, 0.0), both(0.0, 0.0), 0.2, 0.6),
    "Alike": Case(
        rules.Alike("m", [Where("a"), Where("b"), Where("c")], 3.0),
        {"a": 0.0, "b": 1.5, "c": 3.0},
        {"a": 0.0, "b": 0.3, "c": 0.6},
        0.4,
        0.7,
    ),
    "Ordered": Case(
        rules.Ordered("m", [Where("a"), Where("b"), Where("c")], 1.0),
        {"a": 0.0, "b": 0.0, "c": 0.0},
        {"a": 8.0, "b": 4.0, "c": 0.0},
        0.7,
        0.9,
    ),
    "Narrower": Case(
        rules.Narrower("m", ["a", "b", "c"], X),
        {"a": {1: 0.0, 3: 0.0}, "b": {1: 1.0, 3: 1.0}, "c": {1: 2.0, 3: 2.0}},
        {"a": {1: 0.0, 3: 0.0}, "b": {1: 3.0, 3: 0.5}, "c": {1: 6.0, 3: 1.0}},
        0.4,
        0.9,
    ),
    "Loses": Case(
        rules.Loses("m", [Where("a"), Where("b")], X, 20.0),
        both({0: 0.0, 8: 0.0}, {0: 0.0, 8: -50.0}),
        both({0: 0.0, 8: -50.0}, {0: 0.0, 8: -50.0}),
        5.0,
        0.8,
    ),
    "Keeps": Case(rules.Keeps("m", [Where("a")], X, 5.0), {"a": {0: 0.0, 8: -5.0}}, {"a": {0: 0.0, 8: 0.0}}, 0.7, 0.8),
    "Reaches": Case(rules.Reaches("m", [Where("a")], 5.0), {"a": 5.0}, {"a": 2.0}, 0.5, 0.8),
    "Gains": Case(rules.Gains("m", Where("a"), ("k",), 1.0), {"a": 0.0}, {"a": 5.0}, 0.7, 0.8),
    "SmallerDrop": Case(
        rules.SmallerDrop("m", "a", ["b"], X, 1, 2, 1.0),
        both({1: 0.0, 2: -5.0}, {1: 0.0, 2: -5.0}),
        both({1: 0.0, 2: -5.0}, {1: 0.0, 2: -12.0}),
        0.7,
        0.7,
    ),
    "Faster": Case(rules.Faster("m", Where("a"), [Where("b")], 0.1), both(0.0, 0.0), both(1.0, 0.0), 0.1, 0.9),
    "AdviceAhead": Case(
        rules.AdviceAhead("m", "a", "t", over=X, usual=0.05, least=0.5), {"a": FLAT}, {"a": line(ACCURACY)}, 0.3, 0.9
    ),
    "AdviceNearBest": Case(
        rules.AdviceNearBest("m", "a", "t", over=X, within=1.0),
        {"a": {x: 0.0 if x == 0.5 else -1.0 for x in TAUS}},
        {"a": {x: -abs(np.log2(x / 0.1)) / 2 for x in TAUS}},
        0.2,
        0.9,
    ),
    "Among": Case(
        rules.Among({X: 1}, rules.Ahead("m", Where("a"), [Where("b")], 1.0)),
        both({1: 0.0, 2: 9.0}, {1: 0.0, 2: 0.0}),
        both({1: 5.0, 2: 0.0}, {1: 0.0, 2: 0.0}),
        0.7,
        0.8,
    ),
    "Every": Case(
        rules.Every([rules.Trend("m", "a", 1, X), rules.Flatter("m", "b", "a", over=X)]),
        both(UNIFORMITY, {x: v / 3 for x, v in UNIFORMITY.items()}),
        both(UNIFORMITY, dict.fromkeys(TAUS, -3.87)),
        0.02,
        0.95,
    ),
}


def simulated(truth: Truth, sd: float, seeds: int, rng: np.random.Generator) -> Records:
    """Records of a world in which this is true. A seed moves all its runs alike (by `sd`), and each on its own."""
    shared = sd * rng.standard_normal(seeds)
    records = []
    for name, values in truth.items():
        arm, _, y = name.partition(", y ")
        along = values.items() if isinstance(values, Mapping) else [(None, values)]
        for x, value in along:
            for at in [float(y)] if y else (1.0, 2.0, 3.0):
                varied = {"y": at} | ({} if x is None else {X: x})
                if not y and at > 1 and x is None:
                    continue
                noise = shared + sd * rng.standard_normal(seeds)
                own = sd * rng.standard_normal(seeds)
                for seed in range(seeds):
                    m = float(value + noise[seed])
                    measures = {"m": m, "k": float(own[seed]), "t": 0.1 * float(np.exp(0.1 * own[seed]))}
                    key = f"{arm}{varied}{seed}"
                    seen = [{"epoch": i, "m": m} for i in (1, 2, 3)]
                    records.append(Record(arm, varied, seed, key, measures, 1.0, {}, Path("nowhere"), training=seen))
    return Records(records)


def outcomes(case: Case, truth: Truth, seeds: int = 3, repeats: int = REPEATS) -> Mapping[str, float]:
    rng = np.random.default_rng(7)
    found = [case.rule.judge(simulated(truth, case.sd, seeds, rng)).outcome for _ in range(repeats)]
    return {outcome: found.count(outcome) / repeats for outcome in ("held", "contradicted", "undecided")}


def test_every_rule_is_simulated():
    kinds = {getattr(rules, name) for name in rules.__all__}
    assert kinds == {type(case.rule) for case in CASES.values()}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_no_rule_holds_on_nothing_in_more_than_a_twentieth(case):
    assert outcomes(case, case.nothing)["held"] <= FALSE


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rules_see_what_the_papers_report(case):
    seen = outcomes(case, case.paper)
    assert seen["held"] >= case.power
    assert seen["contradicted"] <= FALSE


def first_decision(contrast: Contrast, truth: float, rng: np.random.Generator) -> str:
    """Look after every seed from the second to the last, and stop when it is decided."""
    values = truth + rng.standard_normal(MOST_SEEDS)
    for seeds in range(2, MOST_SEEDS + 1):
        outcome = outcome_at(contrast, float(values[:seeds].mean()), float(values[:seeds].std(ddof=1)), seeds)
        if outcome != "undecided":
            return outcome
    return "undecided"


LOOKING = {
    "no effect, any counts": (at_least("", {}, 0.0), 0.0, "held"),
    "no effect, half a deviation counts": (at_least("", {}, 0.5), 0.0, "held"),
    "the least effect": (at_least("", {}, 0.5), 0.5, "contradicted"),
    "the bound": (at_most("", {}, 1.0), 1.0, "held"),
    "just the bound": (at_most("", {}, 1.0), 1.0, "contradicted"),
}


@pytest.mark.parametrize(("contrast", "truth", "wrong"), LOOKING.values(), ids=LOOKING.keys())
def test_looking_after_every_seed_is_wrong_in_at_most_a_twentieth(contrast, truth, wrong):
    rng = np.random.default_rng(3)
    found = [first_decision(contrast, truth, rng) for _ in range(10_000)]
    assert 0.005 < found.count(wrong) / len(found) <= FALSE


@pytest.mark.parametrize("deviation", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("images", [100, 360])
def test_coarse_numbers_are_held_as_seldom(images, deviation):
    """Differences of accuracies that are whole images of a few, without an effect; any counts."""
    rng = np.random.default_rng(4)
    held, looks = 0, 4000
    for _ in range(looks):
        values = np.round(deviation * rng.standard_normal(MOST_SEEDS)) / images
        for seeds in range(2, MOST_SEEDS + 1):
            some = dict(enumerate(values[:seeds].tolist()))
            outcome = decide([at_least("", some, 0.001)]).outcome
            if outcome != "undecided":
                held += outcome == "held"
                break
    assert held / looks <= FALSE


if __name__ == "__main__":
    print("| rule | held without an effect | held as the papers report | contradicted then |\n|---|---|---|---|")
    for name, case in CASES.items():
        nothing, paper = outcomes(case, case.nothing), outcomes(case, case.paper)
        print(f"| {name} | {nothing['held']:.1%} | {paper['held']:.0%} | {paper['contradicted']:.1%} |")
