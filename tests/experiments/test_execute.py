"""What a study's folder keeps of its runs: failed ones, other data, damaged files, records alone, the lock."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from isotherm.cli import main
from isotherm.experiments import execute, measuring, report, result_tables
from isotherm.experiments.claims import rules
from isotherm.experiments.execute import About, Ledger
from isotherm.experiments.figures.plots import Against, Maps, OverTraining
from isotherm.experiments.measuring import attempt, carry_out, done
from isotherm.experiments.points import expand
from isotherm.experiments.progress import Progress
from isotherm.experiments.records import FORMER, Record, Records, as_lines, read, stored
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, Paper, Scale, Study, Where
from isotherm.report import Page
from isotherm.train import runs
from study_runs import carry_out_here

TAU = "loss.temperature"
SIZE = {"images": 60, "epochs": 2, "batch": 30, "encoder.widths": [8]}
STUDY = Study(
    name="small",
    doc="A question?",
    base={"monitor": 2},
    arms=(Arm("a", {"loss": "NTXentLoss"}, {TAU: (0.1, 0.5)}),),
    scales={"smoke": Scale("", SIZE)},
    claims=(Claim("It is measured.", "§1", rules.Keeps("knn", [Where("a")], TAU, most=9)),),
    figures=(
        Figure("Uniformity", "fig. 1", Against(["a"], TAU, "temperature", ("uniformity",))),
        Figure("On the way", "fig. 2", OverTraining("uniformity", ["a"], "On the way")),
        Figure("Maps", "fig. 3", Maps("a", TAU, (0.1,), 1)),
    ),
    measure=("probes", "geometry"),
)
ABOUT = About("small", "smoke", "digits", "isotherm study small")


def small(values=(0.1, 0.5), seeds=1, **base):
    """Some of the study's runs."""
    arms = [replace(arm, over={TAU: values}) for arm in STUDY.arms]
    return expand(replace(STUDY, base={**STUDY.base, **base}, arms=arms), "smoke", base.get("data"), seeds)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study's folder with its two runs."""
    folder = tmp_path_factory.mktemp("made") / "s"
    with execute.begin(folder, ABOUT):
        carry_out_here(small(), folder)
        report.tell(STUDY, execute.run_points(small(), folder), folder, ABOUT)
    return folder


# failed runs


def test_failed_and_missing_runs_are_in_the_records_the_page_and_the_evidence(tmp_path):
    arms = (replace(STUDY.arms[0], over={"lr": (0.1, 1e30, 0.2)}),)
    claim = Claim("It is measured.", "", rules.Keeps("knn", [Where("a")], "lr", most=9))
    study = replace(STUDY, arms=arms, claims=(claim,), figures=())
    points = expand(study, "smoke")
    progress = Progress.of(points, tmp_path)
    ledger = Ledger(points, progress)
    for point in points[:2]:
        progress.hear(point.config.key, attempt(*progress.task(point)))
        ledger.write()
        assert sum(r.state != "planned" for r in read(tmp_path).planned) == len(progress.finished) + len(
            progress.failed
        )
    records = read(tmp_path)
    assert [r.state for r in records.planned] == ["finished", "failed", "planned"]
    assert len(records) == 1
    why = records.failed[0].failure
    assert why.startswith("step 1: the loss (nan) is not finite")
    assert str(tmp_path) not in why
    (judged,) = report.tell(study, records, tmp_path, ABOUT)
    assert judged.verdict.outcome == "undecided"
    assert judged.verdict.evidence["missing"] == [
        f"a, lr 1e+30, seed 0 failed: {why}",
        "a, lr 0.2, seed 0 has not been run",
    ]
    page = (tmp_path / "report.html").read_text()
    assert "1 of 3 runs finished, 1 failed, 1 not run" in page
    assert "a, lr 1e+30, seed 0" in page
    assert why in page
    assert why in (tmp_path / "report.md").read_text()
    table = (tmp_path / "records.csv").read_text()
    assert "\\" not in table  # lines end in line ends, not in their escapes
    lines = table.splitlines()
    assert len(lines) == 4
    assert ",failed," in lines[2]


@pytest.mark.slow
def test_runs_are_made_seed_by_seed_so_that_what_is_compared_is_paired(tmp_path):
    points = expand(replace(STUDY, claims=(), figures=()), "smoke", seeds=2)
    shown = []
    execute.run_points(points, tmp_path, workers=1, show=lambda p: shown.append([*p.running]))
    began = list(dict.fromkeys(key for keys in shown for key in keys))
    seeds = {p.config.key: p.seed for p in points}
    assert len(began) == len(points) > 2
    assert [seeds[key] for key in began] == sorted(seeds.values())


def test_the_command_that_reports_again_trusts_what_is_not_ours():
    ours = replace(ABOUT, source="")
    assert ours.report_from("studies/a b") == "isotherm report 'studies/a b'"
    theirs = replace(ABOUT, source="mine/study.py:STUDY")
    assert theirs.report_from("studies/a") == "isotherm report studies/a --trust-code    # runs mine/study.py"


def test_a_run_that_collapsed_is_told_of(tmp_path):
    study = replace(STUDY, arms=(replace(STUDY.arms[0], over={"lr": (100.0,)}),), claims=(), figures=())
    points = expand(study, "smoke")
    progress = Progress.of(points, tmp_path)
    progress.hear(points[0].config.key, attempt(*progress.task(points[0])))
    Ledger(points, progress).write()
    (record,) = read(tmp_path)
    assert "collapsed" in " ".join(record.warnings)
    report.tell(study, read(tmp_path), tmp_path, ABOUT)
    assert record.warnings[0] in (tmp_path / "report.html").read_text()


def test_a_page_tells_of_a_study_whose_runs_all_failed(tmp_path):
    failed = [Record("a", {TAU: t}, 0, f"k{t}", {}, 0.0, {}, tmp_path, "failed", "no luck") for t in (0.1, 0.5)]
    (judged,) = report.tell(STUDY, Records(failed), tmp_path, ABOUT)
    assert judged.verdict.outcome == "undecided"
    assert "0 of 2 runs finished, 2 failed" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_failed_run_is_told_at_the_end(tmp_path, capsys):
    arms = 'arms=(Arm("a", {"loss": "NTXentLoss"}, {"lr": (0.1, 1e30)}),)'
    study = tmp_path / "diverging.py"
    study.write_text(
        '"""A question?"""\nfrom isotherm.experiments.study import Arm, Scale, Study\n'
        f"STUDY = Study(base={{'monitor': 0}}, scales={{'smoke': Scale('', {SIZE})}}, {arms})\n"
    )
    folder = tmp_path / "s"
    assert main(["study", str(study), "--out", str(folder), "--workers", "1"]) == 1
    said = capsys.readouterr()
    assert "has no scale 'cpu'; this is its scale 'smoke'" in said.err
    assert "1 of 2 runs failed; the first, a, lr 1e+30, seed 0: step 1: the loss (nan) is not finite" in said.err
    assert "a, lr 1e+30, seed 0 failed: step 1: the loss (nan)" in said.out
    assert "1 of 2 runs finished, 1 failed" in said.out
    assert "claim" not in said.out
    assert len(read(folder)) == 1
    assert (folder / "report.html").exists()


def test_seeds_are_counted_for_each_measure(tmp_path):
    def run(seed, state="finished", **measures):
        return Record("a", {}, seed, f"k{seed}", measures, 1.0, {}, tmp_path, state)

    measures = {"knn": 0.5, "uniformity": -1.0}
    records = [run(0, **measures), run(1, **measures), run(2, knn=0.6, uniformity=math.nan), run(3, "failed")]
    heads, (row,) = result_tables.results(STUDY, Records(records))
    cells = dict(zip(heads, row, strict=True))
    assert cells["seeds"] == "3 of 4"
    assert cells["kNN accuracy"].note.endswith("of 3 of 4")
    assert cells["−uniformity"].value == 1.0
    assert cells["−uniformity"].note.endswith("of 2 of 4")
    whole = result_tables.results(STUDY, Records(records[:2]))[1][0]
    assert whole[2] == 2
    assert "of" not in whole[3].note


def test_whatever_goes_wrong_in_a_run_is_told_of_it(tmp_path):
    (point, _) = small()
    assert attempt(point.config, tmp_path / "r", ("no such group",), "").startswith("no group of measures")
    assert "Traceback" in (tmp_path / "r/failure.txt").read_text()
    assert done(tmp_path / "r") is None
    assert attempt(point.config, tmp_path / "r", point.measure, "").measures  # what an attempt left is in nobody's way
    assert measuring.reason(RuntimeError("One.5 thing. Another.")) == "RuntimeError: One.5 thing"
    assert measuring.reason(EOFError()) == "EOFError"


# other data


@pytest.fixture
def arrays(tmp_path):
    """A set of images in a file, and how to write another in its place."""
    path = tmp_path / "images.npz"

    def write(**seeds):
        parts = {}
        for split in ("train", "test"):
            rng = np.random.default_rng(seeds.get(split, 0))
            parts[f"{split}_images"] = rng.integers(0, 256, (60, 8, 8), dtype=np.uint8)
            parts[f"{split}_labels"] = np.arange(60) % 3
        np.savez(path, **parts)

    write()
    return f"arrays:{path}", write


@pytest.mark.parametrize("changed", ["train", "test"])
def test_runs_on_other_data_are_made_again(tmp_path, arrays, changed):
    data, write = arrays
    points = small((0.1,), data=data, images=None)
    (point,) = points
    folder = tmp_path / "s"
    carry_out_here(points, folder)
    same = Progress.of(points, folder)
    same.compare_data()
    assert (same.todo, same.notes) == ([], [])
    write(**{changed: 1})
    progress = Progress.of(points, folder)
    assert progress.todo == []
    progress.compare_data()
    assert progress.todo == points
    assert "1, are made again: the data behind the name has changed" in progress.notes[0]
    assert (folder / "runs/aside" / point.config.key / "measured.json").exists()
    before = same.finished[point.config.key]
    after = attempt(*progress.task(point))
    assert after.fingerprint != before.fingerprint
    assert after.measures != before.measures


def test_a_run_that_began_on_other_data_starts_over(tmp_path, arrays):
    data, write = arrays
    (point,) = small((0.1,), data=data, images=None)
    folder = tmp_path / "runs" / point.config.key
    carry_out(point.config, folder, point.measure)
    (folder / "measured.json").unlink()
    (folder / "result.json").unlink()
    write(train=1)
    assert attempt(point.config, folder, point.measure, "").measures


def test_data_that_is_gone_troubles_nobody_whose_runs_are_done(tmp_path, arrays):
    data, _ = arrays
    points = small((0.1,), data=data, images=None)
    carry_out_here(points, tmp_path / "s")
    (tmp_path / "images.npz").unlink()
    progress = Progress.of(points, tmp_path / "s")
    progress.compare_data()
    assert progress.todo == []
    assert "the data that they would be compared with is not here" in progress.notes[0]


def test_versions_and_unknown_data_are_told_where_runs_differ(tmp_path):
    def run(seed, **more):
        return Record("a", {}, seed, f"k{seed}", {"knn": 0.5}, 1.0, {}, tmp_path, **more)

    new = run(0, versions={"isotherm": "2", "torch": "3"}, fingerprint="f")
    assert report.notes(Records([new])) == []
    old = run(1, versions={"isotherm": "1", "torch": "3"}, fingerprint="f")
    (said,) = report.notes(Records([new, old]))
    assert said == "The runs were made by different versions of isotherm: 2 (1 runs), 1 (1 runs)."
    (said,) = report.notes(Records([run(2, versions=new.versions)]))
    assert "learnt is not known" in said


def test_warnings_of_one_kind_are_counted_and_their_list_is_folded(tmp_path):
    collapse = "warning: the embedding has collapsed: all items lie at nearly one point (uniformity −0.00{}). Advice."
    runs = [
        Record("NT-Xent", {}, seed, f"k{seed}", {"knn": 0.5}, 1.0, {}, tmp_path, fingerprint="f", warnings=(said,))
        for seed, said in enumerate(
            [collapse.format(1), collapse.format(2), "warning: the features are worse: kNN 1%."]
        )
    ]
    assert report.notes(Records(runs)) == [
        "2 of 3 runs warn: the embedding has collapsed.", "NT-Xent, seed 2: warning: the features are worse: kNN 1%.",
    ]  # fmt: skip
    page = Page("")
    report._show_missing(page, Records(runs))
    openly, _, folded = page.html().partition("<details><summary>Runs that warn")
    assert "2 of 3 runs warn" in openly
    assert "uniformity" not in openly
    assert folded.count("uniformity") == 2


@pytest.mark.parametrize(("title", "said"), [("A paper", True), ("", False)])
def test_a_study_without_a_paper_is_not_said_to_have_one(title, said, tmp_path):
    claim = Claim("Mine wins.", "ours", rules.Ahead("knn", "a", "b", 0.01))
    study = Study({}, [], {"smoke": Scale("", {})}, [claim], paper=Paper(title), name="mine", doc="Mine?")
    run = Record("a", {}, 0, "k", {"knn": 0.5}, 1.0, {}, tmp_path, fingerprint="f")
    report.tell(study, Records([run]), tmp_path, About("mine", "smoke", "digits", "isotherm study mine"))
    page = (tmp_path / "report.html").read_text()
    assert ("What the paper found" in page) == said
    assert "docs/decisions" not in page


# records alone


def test_a_study_goes_on_from_its_records_alone(made, tmp_path):
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("study.json", "records.jsonl"):
        shutil.copy(made / name, clone / name)
    assert max(map(len, (clone / "records.jsonl").read_bytes().splitlines())) < 4096
    with execute.begin(clone, ABOUT):
        records = execute.run_points(small(), clone)
        assert not any((clone / "runs").iterdir())
        (judged,) = report.tell(STUDY, records, clone, ABOUT)
    assert judged.verdict.part.seeds == 1
    ours, theirs = (json.loads((folder / "records.jsonl").read_text().splitlines()[0]) for folder in (clone, made))
    assert ours == theirs
    assert (clone / "claims.json").read_bytes() == (made / "claims.json").read_bytes()
    page = (clone / "report.html").read_text()
    assert "Of 2 of 2 runs only the records are here" in page
    assert "On the way: −uniformity" in page  # the curves are in the records
    assert "Maps (fig. 3): the records have nothing to draw of it" in page
    assert "only the records are here" not in (made / "report.html").read_text()


def test_records_that_are_not_asked_for_are_not_lost(made, tmp_path):
    shutil.copy(made / "records.jsonl", tmp_path / "records.jsonl")
    assert len(execute.run_points(small((0.5,)), tmp_path)) == 1
    assert len(read(tmp_path)) == 1
    assert len((tmp_path / FORMER).read_text().splitlines()) == 1
    assert len(execute.run_points(small(), tmp_path)) == 2
    more = [replace(point, measure=(*point.measure, "nearest")) for point in small()]
    progress = Progress.of(more, tmp_path)
    assert progress.todo == more  # they lack what is asked for now
    Ledger(more, progress).write()
    assert len((tmp_path / FORMER).read_text().splitlines()) == 2


def test_damaged_records_are_kept_and_the_runs_folders_count(made, tmp_path):
    shutil.copytree(made, tmp_path / "s")
    (tmp_path / "s/records.jsonl").write_text("<<<<<<< ours\n")
    assert len(execute.run_points(small(), tmp_path / "s")) == 2
    assert (tmp_path / "s/records.damaged").read_text() == "<<<<<<< ours\n"


def test_former_records_stay_whatever_is_asked_for_next(tmp_path):
    def record(point, data):
        folder = tmp_path / "runs" / point.config.key
        return Record(point.arm, point.varied, 0, point.config.key, {"knn": 0.5}, 1.0, {}, folder, fingerprint=data)

    def former():
        return sorted((r.varied[TAU], r.fingerprint) for r in stored(tmp_path / FORMER, tmp_path / "runs"))

    both = small((0.1, 0.5))
    (tmp_path / FORMER).write_text(as_lines(record(point, "old") for point in both))
    (tmp_path / "records.jsonl").write_text(as_lines(record(point, "new") for point in both))
    Ledger(both[:1], Progress.of(both[:1], tmp_path))  # one arm is gone, after the data had changed
    assert former() == [(0.1, "old"), (0.5, "new"), (0.5, "old")]
    Ledger(both, Progress.of(both, tmp_path))
    assert {(0.1, "old"), (0.5, "old")} <= set(former())


def test_damaged_former_records_are_kept(made, tmp_path):
    shutil.copy(made / "records.jsonl", tmp_path / "records.jsonl")
    for text in ("<<<<<<< ours\n", ">>>>>>> theirs\n"):
        (tmp_path / FORMER).write_text(text)
        execute.run_points(small(), tmp_path)
    assert (tmp_path / "former.damaged").read_text() == "<<<<<<< ours\n"
    assert (tmp_path / "former.1.damaged").read_text() == ">>>>>>> theirs\n"


def test_records_of_an_earlier_version_count(made, tmp_path):
    lines = [json.loads(line) for line in (made / "records.jsonl").read_text().splitlines()]
    names = ("key", "arm", "varied", "seed", "measures", "seconds", "config", "folder")
    early = "".join(json.dumps({name: line[name] for name in names}) + "\n" for line in lines)
    (tmp_path / "records.jsonl").write_text(early)
    records = execute.run_points(small(), tmp_path)
    assert len(records) == 2
    assert "From which data 2 of 2 runs learnt is not known" in report.notes(records)[0]


# damaged runs


@pytest.mark.parametrize(
    ("name", "content", "ended"),
    [
        ("checkpoint.pt", b"", False),
        ("checkpoint.pt", None, True),
        ("metrics.jsonl", b"", False),
        ("config.yaml", b"a: [", True),
    ],
)
def test_a_damaged_run_is_put_aside_and_starts_over(made, tmp_path, name, content, ended):
    (point, _) = small()
    whole = done(made / "runs" / point.config.key)
    folder = tmp_path / "runs" / point.config.key
    shutil.copytree(made / "runs" / point.config.key, folder)
    (folder / "measured.json").unlink()
    if not ended:
        (folder / "result.json").unlink()
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    answer = attempt(point.config, folder, point.measure, "")
    assert answer.measures == whole.measures
    assert (tmp_path / "runs/aside" / folder.name).is_dir()


def test_a_run_that_somebody_is_at_is_not_put_aside(made, tmp_path):
    (point, _) = small()
    folder = tmp_path / "runs" / point.config.key
    shutil.copytree(made / "runs" / point.config.key, folder)
    (folder / "measured.json").unlink()
    (folder / "checkpoint.pt").write_bytes(b"")
    with runs.alone(folder):
        assert attempt(point.config, folder, point.measure, "").startswith("another process is at work")
    assert (folder / "checkpoint.pt").exists()


# the lock


def test_a_second_runner_writes_nothing(tmp_path):
    tmp_path.joinpath("s").mkdir()
    other = replace(ABOUT, command="another command")
    with runs.alone(tmp_path / "s"):
        with pytest.raises(ValueError, match="another process is at work in"), execute.begin(tmp_path / "s", other):
            pass
        assert not (tmp_path / "s/study.json").exists()


def test_a_report_is_not_written_while_a_study_runs(made, tmp_path, capsys):
    shutil.copytree(made, tmp_path / "s")
    (tmp_path / "s/study.json").write_text(json.dumps({**ABOUT.as_dict(), "study": "temperature"}))
    before = (tmp_path / "s/report.html").stat().st_mtime_ns
    with runs.alone(tmp_path / "s"):
        assert main(["report", str(tmp_path / "s")]) == 2
    assert "another process is at work" in capsys.readouterr().err
    assert (tmp_path / "s/report.html").stat().st_mtime_ns == before


# what a page leaves out


def test_a_study_without_claims_and_figures_has_no_empty_headings(made, tmp_path):
    bare = replace(STUDY, claims=(), figures=())
    assert report.tell(bare, read(made), tmp_path, ABOUT) == []
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
    assert " claims " not in page
    assert ">Claims<" not in page
    assert ">Figures<" not in page
    assert "| claim |" not in text


def test_a_comparison_without_partners_says_why(tmp_path):
    runs_ = [
        Record(name, {over: 1}, 0, name, {"knn": 0.5}, 1.0, {}, tmp_path) for name, over in (("a", "x"), ("b", "y"))
    ]
    study = replace(STUDY, compare=(Comparison("b", "knn"),))
    report.tell(study, Records(runs_), tmp_path, ABOUT)
    for name in ("report.html", "report.md"):
        text = (tmp_path / name).read_text()
        assert "no run has a partner" in text
        assert "what is varied there (y)" in text
        assert "95 % interval" not in text
