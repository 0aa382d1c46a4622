"""Seeds are added where they decide claims, within a budget, and a study goes on from what was added."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.cli import main, terminal
from isotherm.experiments import execute, report
from isotherm.experiments.claims import rules
from isotherm.experiments.execute import About
from isotherm.experiments.judging import judge
from isotherm.experiments.looks import FILE, Looks, next_step
from isotherm.experiments.points import expand
from isotherm.experiments.records import Record, Records, as_lines, read
from isotherm.experiments.study import Arm, Claim, Scale, Study, Where
from isotherm.experiments.until_decided import Asked, run_until_decided

ABOUT = About("noisy", "smoke", "digits", "isotherm study noisy")
STUDY = Study(
    name="noisy",
    doc="Is a ahead of b?",
    base={"monitor": 0},
    arms=tuple(
        Arm(name, {"loss": "NTXentLoss", "loss.temperature": t}) for name, t in zip("abcd", (1, 2, 3, 4), strict=True)
    ),
    scales={"smoke": Scale("", {"images": 60, "epochs": 1, "batch": 30, "encoder.widths": [8]}, seeds=3)},
    claims=(
        Claim("a is ahead of b.", "§1", rules.Ahead("knn", Where("a"), [Where("b")], 0.01)),
        Claim("c is ahead of d.", "§2", rules.Ahead("knn", Where("c"), [Where("d")], 0.01)),
    ),
)
NOISE = (0.04, -0.03, 0.02, -0.02, 0.03, -0.04, 0.01, 0.0, -0.01, 0.02, -0.02, 0.0)
"""Of b, by seed: three leave the claim open, more do not."""
LEVEL = {"a": 0.55, "b": 0.50, "c": 0.56, "d": 0.50}


def known(folder: Path, seeds: int = 12, seconds: float = 1.0) -> Asked:
    """A folder whose records have all the runs that could be asked for: what is asked for is there at once."""
    with execute.begin(folder, ABOUT):
        pass
    records = []
    for point in expand(STUDY, "smoke", seeds=seeds):
        noise = NOISE[point.seed] if point.arm == "b" else 0.0
        measures = {"knn": LEVEL[point.arm] + noise}
        settings, runs = point.config.as_dict(), folder / "runs" / point.config.key
        records.append(Record(point.arm, {}, point.seed, point.config.key, measures, seconds, settings, runs))
    (folder / "records.jsonl").write_text(as_lines(records))
    return Asked(STUDY, "smoke", None, None, folder, workers=2)


def run(asked: Asked, **more):
    said: list[str] = []
    with execute.begin(asked.folder, ABOUT):
        records = run_until_decided(asked, say=said.append, **more)
        judged = report.tell(asked.study, records, asked.folder, ABOUT)
    return {each.claim.claim: each.verdict for each in judged}, said


def seeds_of(folder: Path) -> dict[str, int]:
    arms = [record.arm for record in read(folder).planned]
    return {arm: arms.count(arm) for arm in "abcd"}


def test_seeds_are_added_only_where_something_is_undecided(tmp_path):
    verdicts, said = run(known(tmp_path / "s"))
    assert {v.outcome for v in verdicts.values()} == {"held"}
    found = seeds_of(tmp_path / "s")
    assert found["c"] == found["d"] == 3  # decided by the grid
    assert found["a"] == found["b"] > 3
    assert said[-1] == "every claim is decided"
    stored = json.loads((tmp_path / "s" / FILE).read_text())
    assert stored["looks"][0]["verdicts"] == {"a is ahead of b.": "undecided", "c is ahead of d.": "held"}
    page = (tmp_path / "s" / "report.html").read_text()
    assert "How the verdicts came" in page
    assert "after 12 runs" in page


def test_a_study_goes_on_with_the_seeds_that_were_added(tmp_path):
    asked = known(tmp_path / "s")
    run(asked)
    looks, seeds = (tmp_path / "s" / FILE).read_text(), seeds_of(tmp_path / "s")
    run(asked)
    assert ((tmp_path / "s" / FILE).read_text(), seeds_of(tmp_path / "s")) == (looks, seeds)
    points = expand(STUDY, "smoke", more=Looks.of(tmp_path / "s").seeds)
    assert len(points) == sum(seeds.values())


def test_a_step_that_the_budget_cannot_pay_is_not_taken(tmp_path):
    verdicts, said = run(known(tmp_path / "s", seconds=10_000.0), budget=600.0)
    assert verdicts["a is ahead of b."].outcome == "undecided"
    assert said[0].startswith("1 claims undecided; the next step, ")
    assert said[0].endswith("min, and the budget leaves 10")
    assert seeds_of(tmp_path / "s")["a"] == 3
    assert "seeds at the measured spread" in verdicts["a is ahead of b."].remedy


def test_without_time_no_run_is_begun(tmp_path):
    folder = tmp_path / "s"
    asked = Asked(STUDY, "smoke", None, None, folder, workers=1)
    verdicts, _ = run(asked, budget=0.0)
    assert {v.outcome for v in verdicts.values()} == {"undecided"}
    assert verdicts["a is ahead of b."].remedy == "the runs that are missing"
    assert {record.state for record in read(folder).planned} == {"planned"}


def test_the_cheapest_decision_comes_first():
    def records(cost):
        return [
            Record(arm, {}, s, f"{arm}{s}", {"knn": v + NOISE[s] * (arm in "bd")}, cost[arm], {}, Path("nowhere"))
            for arm, v in LEVEL.items()
            for s in range(3)
        ]

    for cheap, dear in ((("a", "b"), ("c", "d")), (("c", "d"), ("a", "b"))):
        found = Records(records({**dict.fromkeys(cheap, 1.0), **dict.fromkeys(dear, 100.0)}))
        judged = judge(STUDY, found)
        assert {each.verdict.outcome for each in judged} == {"undecided"}
        step = next_step(judged, found)
        assert step is not None
        assert set(step.seeds) == set(cheap)
        assert next_step(judged, found, within=1.0) is None


def test_an_undecided_claim_says_what_its_seeds_would_cost():
    """Runs that stand in two arms count once."""
    shared = {"a": "x", "b": "b", "c": "x", "d": "d"}
    records = [
        Record(arm, {}, s, f"{shared[arm]}{s}", {"knn": v + NOISE[s] * (arm in "bd")}, cost, {}, Path("nowhere"))
        for (arm, v), cost in zip(LEVEL.items(), (3600.0, 7200.0, 3600.0, 60.0), strict=True)
        for s in range(3)
    ]
    twice = rules.Every([rules.Ahead("knn", Where(arm), [Where("b")], 0.01) for arm in "ac"])
    study = replace(STUDY, claims=(STUDY.claims[0], Claim("a and c are ahead of b.", "§1", twice)))
    alone, together = (each.verdict for each in judge(study, Records(records)))
    more = alone.part.needed - 3
    assert (
        alone.remedy
        == f"about {more + 3} seeds at the measured spread: {2 * more} more runs, {3 * more}.0 hours of training"
    )
    more = max(part.needed for part in together.parts) - 3
    assert together.remedy.endswith(f": {2 * more} more runs, {3 * more}.0 hours of training")


def test_what_no_seed_can_decide_is_left(tmp_path):
    at_ceiling = [
        Record(arm, {}, s, f"{arm}{s}", {"knn": 0.99 + 0.002 * ((s + i) % 3)}, 1.0, {}, Path("nowhere"))
        for i, arm in enumerate("abcd")
        for s in range(3)
    ]
    judged = judge(STUDY, Records(at_ceiling))
    assert {each.verdict.outcome for each in judged} == {"undecided"}
    assert next_step(judged, Records(at_ceiling)) is None


@pytest.mark.parametrize("text", ["soon", "", "2", "h", "-1h", "0m", "1h 30m x"])
def test_a_budget_that_is_no_time_is_refused(text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["study", "temperature", "--until-decided", f"--budget={text}"])
    assert ended.value.code == 2
    assert "must be a length of time such as 45m, 2h or 1h30m" in capsys.readouterr().err


def test_budgets():
    assert [terminal.seconds(text) for text in ("90s", "45m", "2h", "1h30m", "0.5h")] == [90, 2700, 7200, 5400, 1800]
    assert main(["study", "temperature", "--budget", "2h"]) == 2
