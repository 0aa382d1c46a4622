"""A study as a page for a repository: every claim once, every link a file, nothing of the user's touched."""

import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.cli import main
from isotherm.experiments import execute, points
from isotherm.experiments.claims import rules
from isotherm.experiments.claims.verdict import Part
from isotherm.experiments.design import commit_now, design_of, same_since
from isotherm.experiments.drawn import charts_of, draw_figures
from isotherm.experiments.execute import About
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.judging import judge
from isotherm.experiments.looks import Looks
from isotherm.experiments.points import expand
from isotherm.experiments.publish import OURS, publish
from isotherm.experiments.records import Record, as_lines, read
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, Paper, PaperTable, Scale, Study, Where
from isotherm.experiments.wording import part_in_words
from isotherm.report import Line, Lines, markdown
from isotherm.report.page import spread
from isotherm.studies import temperature

TAU = "loss.temperature"
TEMPERATURES = (0.1, 0.4, 1.0)
PLAIN, DECOUPLED = "plain", "decoupled"
BOTH = "Both"
STUDY = Study(
    name="told",
    doc="Does a page tell what was found? (nobody 2021)",
    base={"monitor": 0},
    arms=(
        Arm(PLAIN, {"loss": "NTXentLoss"}, {TAU: TEMPERATURES}),
        Arm(DECOUPLED, {"loss": "DCLLoss"}, {TAU: TEMPERATURES}),
    ),
    scales={"smoke": Scale("small", {"images": 60, "epochs": 1, "batch": 30, "encoder.widths": [8]}, seeds=3)},
    claims=(
        Claim("Accuracy falls with the temperature.", "§1", rules.Trend("linear", PLAIN, -1), figure=BOTH),
        Claim("Uniformity is lost.", "§2", rules.Trend("uniformity", PLAIN, 1), figure=BOTH),
        Claim("Accuracy rises, decoupled.", "§3", rules.Trend("linear", DECOUPLED, 1), figure=BOTH),
        Claim(
            "Plain is ahead at 0.4.",
            "§4",
            rules.Ahead("linear", Where(PLAIN, {TAU: 0.4}), [Where(DECOUPLED, {TAU: 0.4})], 0.01),
        ),
    ),
    figures=(
        Figure(BOTH, "fig. 1", Against([PLAIN, DECOUPLED], TAU, "temperature", ("linear", "uniformity", "knn"))),
        Figure("Nobody's", "fig. 2", Against([PLAIN], TAU, "temperature", ("tolerance",))),
    ),
    compare=(Comparison(PLAIN, "linear"),),
    paper=Paper(
        title="Nobody 2021",
        address="https://example.org",
        differs="Everything.",
        tables={
            "Table 1": PaperTable(
                Path(__file__).with_name("published.csv"),
                [Where(arm, {TAU: t}) for arm in (PLAIN, DECOUPLED) for t in TEMPERATURES],
                [("accuracy", "linear")],
            )
        },
    ),
)
ABOUT = About("told", "smoke", "digits", "isotherm study told --out /home/somebody/studies/told")
HOSTILE = "a | b\n<script>alert(1)</script> [x](javascript:alert(1)) `c` *d* $e$"


def recorded(folder: Path, study: Study = STUDY, about: About = ABOUT, lacking: int = 0) -> Path:
    """A study's folder with records of made-up runs, the last of them not run."""
    with execute.begin(folder, about):
        pass
    with execute.begin(folder, replace(about, design="1234567")):  # a later call does not know how it began
        assert not execute.about(folder).design
    records = []
    for point in expand(study, "smoke"):
        tau = point.varied[TAU]
        accuracy = 0.6 - 0.1 * tau + 0.001 * point.seed * (point.arm == study.arms[0].name)
        measures = {"linear": accuracy, "knn": 0.5, "uniformity": -3 + tau, "tolerance": 0.1}
        place, key = folder / "runs" / point.config.key, point.config.key
        versions = {"isotherm": "0.1.0", "torch": "2"}
        records.append(
            Record(
                *(point.arm, point.varied, point.seed, key, measures, 60.0, point.config.as_dict(), place),
                versions=versions,
                fingerprint="abc",
            )
        )
    for i in range(lacking):
        records[-1 - i] = replace(records[-1 - i], state="planned", measures={})
    (folder / "records.jsonl").write_text(as_lines(records))
    return folder


@pytest.fixture
def page(tmp_path):
    publish(STUDY, recorded(tmp_path / "study"), tmp_path / "page")
    return tmp_path / "page"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def linked(page: Path) -> set[str]:
    text = (page / "README.md").read_text()
    found = re.findall(r"\]\(([^)]*)\)", text) + re.findall(r'src="([^"]*)"', text)
    return {link for link in found if not link.startswith("https://")}


def verdicts(study: Study, folder: Path) -> dict[str, str]:
    return {each.claim.claim: each.verdict.outcome for each in judge(study, read(folder))}


def test_every_claim_stands_once_with_its_verdict(page):
    text = (page / "README.md").read_text()
    for claim, outcome in verdicts(STUDY, page).items():
        assert text.count(claim) == 1
        assert re.search(rf'<a id="claim-(\d)"></a>\n\n### \1\. . {outcome}: {re.escape(claim)}\n', text)
    assert "**2 held, 2 contradicted, 0 undecided.** If no claim were true, expect at most 0.2 false" in text
    assert "18 runs, 3 seeds per point" in text
    assert "fingerprint `abc`" in text
    assert "18.0 minutes of training" in text


def test_every_link_is_a_file_and_every_file_is_listed(page):
    files = set(contents(page))
    assert linked(page) <= files
    assert {name for name in files if name.endswith((".png", ".csv"))} == linked(page)
    (listed,) = OURS.findall((page / "README.md").read_text())
    assert {"README.md", *listed.split(", ")} == files
    assert {"records.jsonl", "study.json"} < files


def test_a_claim_gets_the_chart_of_its_measure_and_a_chart_stands_once(page):
    text = (page / "README.md").read_text()
    shown = re.findall(r"!\[.*\]\((.*)\)", text)
    of_claims = ["fig-1-linear-accuracy-against-temperature.png", "fig-1-uniformity-against-temperature.png"]
    assert shown == [*of_claims, "fig-2-tolerance-against-temperature.png"]  # no claim names the last
    assert text.count("Figure: at claim 1.") == 1
    drawn = draw_figures(STUDY.figures, read(page))
    assert [each.chart.measure for each in charts_of(STUDY.claims[1], drawn)] == ["uniformity"]
    assert charts_of(STUDY.claims[3], drawn) == []


def test_nothing_of_the_machine_is_told(page):
    for name, written in contents(page).items():
        assert b"/home/somebody" not in written, name
        assert str(page.parent).encode() not in written, name
    assert "isotherm study told --out studies/told" in (page / "README.md").read_text()


def test_the_published_records_give_the_same_verdicts_and_the_same_page(page, tmp_path):
    assert verdicts(STUDY, page) == verdicts(STUDY, tmp_path / "study")
    before = contents(page)
    publish(STUDY, page, page)  # in place, as after another wording
    assert contents(page) == before
    publish(STUDY, page, tmp_path / "elsewhere" / "page")
    changed = {name for name, written in contents(tmp_path / "elsewhere" / "page").items() if written != before[name]}
    assert not changed


def test_publishing_twice_gives_the_same_bytes_and_takes_away_what_is_no_more(page, tmp_path):
    before = contents(page)
    (page / "of the user.png").write_text("mine")
    (page / "notes.md").write_text("mine")
    publish(STUDY, tmp_path / "study", page)
    assert contents(page) == before | {"of the user.png": b"mine", "notes.md": b"mine"}
    publish(replace(STUDY, claims=STUDY.claims[:1]), tmp_path / "study", page)
    gone = before.keys() - contents(page).keys()
    assert gone == {"fig-1-uniformity-against-temperature.png"}
    assert (page / "notes.md").read_text() == "mine"


class LookingIntoRuns:
    """Two charts of what only a run's folder has."""

    measures = ()

    def draw(self, records):
        titles = ("A map | of *it*", "Another") if all(r.folder.exists() for r in records) else ()
        return [Lines(title, [Line("a", [1.0, 2.0], [3.0, 4.0])]) for title in titles]


def test_figures_that_look_into_runs_are_kept_where_only_the_records_are(tmp_path):
    study = replace(STUDY, figures=(*STUDY.figures, Figure("Maps", "fig. 7", LookingIntoRuns())))
    folder, page = recorded(tmp_path / "study", study), tmp_path / "page"
    for record in read(folder):
        record.folder.mkdir(parents=True)
    publish(study, folder, page)
    before = contents(page)
    assert {"fig-7-a-map-of-it.png", "fig-7-another.png"} <= before.keys()
    publish(study, page, page)
    assert contents(page) == before
    shutil.rmtree(folder / "runs")
    publish(study, folder, page)
    assert contents(page) == before
    (page / "records.jsonl").write_text("")  # of which runs the pictures are is not known
    publish(study, folder, page)
    assert before.keys() - contents(page).keys() == {"fig-7-a-map-of-it.png", "fig-7-another.png"}


@pytest.mark.parametrize("name", ["README.md", "runs.csv", "study.json"])
def test_a_file_of_the_users_is_not_replaced(name, tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / name).write_text("mine")
    with pytest.raises(ValueError, match=f"would replace: {name}. Move them away, or name another folder"):
        publish(STUDY, recorded(tmp_path / "study"), tmp_path / "page")
    assert contents(tmp_path / "page") == {name: b"mine"}


def test_a_page_of_another_study_or_of_more_runs_is_not_replaced(page, tmp_path):
    before = contents(page)
    other = recorded(tmp_path / "other", about=replace(ABOUT, study="asked"))
    with pytest.raises(ValueError, match=r"has another study's page \(study told instead of asked\)"):
        publish(STUDY, other, page)
    with pytest.raises(ValueError, match=r"has 2 finished runs that .* lacks, and they would be lost"):
        publish(STUDY, recorded(tmp_path / "fewer", lacking=2), page)
    assert contents(page) == before


def test_the_folder_of_a_study_is_no_place_for_its_page(tmp_path):
    folder = recorded(tmp_path / "study")
    before = (folder / "study.json").read_bytes()
    with pytest.raises(ValueError, match=r"would replace: study\.json"):
        publish(STUDY, folder, folder)
    assert (folder / "study.json").read_bytes() == before


def test_tables_are_numbers_with_deviations_beside(page):
    with (page / "claims.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["verdict"] for row in rows] == ["held", "held", "contradicted", "contradicted"]
    assert (rows[0]["effect"], rows[0]["low"], rows[0]["least"], rows[0]["seeds"]) == ("1.0", "1.0", "0.8", "3")
    assert (rows[3]["effect"], rows[3]["unit"], rows[3]["least"]) == ("0.1", "points", "1.0")
    with (page / "runs.csv").open(newline="") as file:
        (first, *_) = csv.DictReader(file)
    assert (first["varied"], first["seeds"], first["linear accuracy"]) == ("temperature 0.1", "3", "59.1")
    assert (first["linear accuracy sd"], first["−uniformity"], first["−uniformity sd"]) == ("0.1", "2.9", "0.0")
    with (page / "table-1.csv").open(newline="") as file:
        heads, ours, *printed = csv.reader(file)
    assert len({len(row) for row in (heads, ours, *printed)}) == 1
    assert ours[:4] == ["ours, digits", "accuracy", "59.1", "0.1"]
    assert len(printed) == len(STUDY.paper.tables["Table 1"].rows)
    assert (page / "linear-against-plain.csv").read_text().startswith("arm,varied,seeds,difference,low,high\n")


def test_a_run_that_is_missing_is_named_and_leaves_its_claim_undecided(tmp_path):
    publish(STUDY, recorded(tmp_path / "study", lacking=2), tmp_path / "page")
    text = (tmp_path / "page" / "README.md").read_text()
    assert "1 undecided" in text
    assert "16 of 18 runs finished, 2 not run, 1 to 3 seeds per point" in text
    assert "- decoupled temperature 1.0, seeds 1, 2: has not been run" in text


def test_hostile_names_are_text(tmp_path):
    study = replace(
        STUDY,
        doc=HOSTILE.replace("\n", " "),
        arms=(replace(STUDY.arms[0], name=HOSTILE), STUDY.arms[1]),
        claims=(Claim(HOSTILE, HOSTILE, rules.Trend("linear", HOSTILE, -1), figure=HOSTILE),),
        figures=(Figure(HOSTILE, HOSTILE, Against([HOSTILE], TAU, HOSTILE, ("linear",))),),
        compare=(),
        paper=Paper(HOSTILE, f"javascript:alert('{HOSTILE}')", HOSTILE, STUDY.paper.tables),
    )
    publish(study, recorded(tmp_path / "study", study, lacking=1), tmp_path / "page")
    text = (tmp_path / "page" / "README.md").read_text()
    assert "<script" not in text
    assert "](javascript" not in text
    assert linked(tmp_path / "page") <= set(contents(tmp_path / "page"))
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table
    with (tmp_path / "page" / "claims.csv").open(newline="") as file:
        assert len(list(csv.reader(file))) == 2


def test_markdown_escapes_what_would_be_markup_and_nothing_else():
    assert markdown.text("a_b [0.9 to 1], 3 × 5 − 2 & so on (x)") == "a_b [0.9 to 1], 3 × 5 − 2 & so on (x)"
    assert markdown.text("<b> | *x* _y_ `z`\n&lt; [a](b)") == r"&lt;b&gt; \| \*x\* \_y\_ \`z\` &amp;lt; [a]\(b)"
    assert markdown.text("1. one") == r"1\. one"
    assert markdown.text("0.05: x") == "0.05: x"
    assert markdown.text("# x") == r"\# x"
    assert markdown.block("a\n```\nb") == ["````", "a", "```", "b", "````"]
    assert markdown.link("x", "javascript:alert(1)") == "x (javascript:alert(1))"
    assert markdown.link("x", "data:text") == "x (data:text)"


@pytest.mark.parametrize(
    ("deviation", "around", "text"),
    [(1.3e-14, 1.0, "0"), (0.4567, 45.3, "0.46"), (0.00077, 0.996, "0.0008"), (12.3, 400, "12"), (0.0, 0.0, "0")],
)
def test_a_deviation_has_digits_that_mean_something(deviation, around, text):
    assert spread(deviation, around) == text
    assert spread(3.2e-5, 0.00123) == "0.000032"


@pytest.mark.parametrize(
    ("effect", "words"),
    [
        (2.2e-16, "0 [0 to 0], 2 seeds"),
        (-1.97e-05, "−0.0000197 [−0.0000197 to −0.0000197], 2 seeds"),
        (1234.5, "1,234 [1,234 to 1,234], 2 seeds"),
        (0.98765, "0.988 [0.988 to 0.988], 2 seeds"),
    ],
)
def test_an_effect_is_written_as_people_write_numbers(effect, words):
    part = Part("it", effect, (effect, effect), 0.0, False, {0: effect, 1: effect}, "held", 2)
    assert words in part_in_words(part)
    assert "−0.00" not in part_in_words(replace(part, effect=-1e-9, interval=(-1e-9, 0.0), measure="linear"))


def test_a_claim_names_only_a_figure_that_there_is():
    wrong = replace(STUDY.claims[0], figure="Bth")
    with pytest.raises(ValueError, match=r"study told: 'Accuracy falls .*' names the figure 'Bth'.*Both"):
        points.check_measures(replace(STUDY, claims=(wrong,)))


def test_the_design_is_the_last_commit_of_the_studys_file(tmp_path):
    def git(*words):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@x.org", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    file = tmp_path / "below" / "mine_study.py"
    file.parent.mkdir()
    file.write_text("1")
    assert design_of(file) is None  # no repository, or none that knows it
    git("init", "-q")
    assert design_of(file) is None
    git("add", ".")
    git("commit", "-qm", "first")
    first = git("log", "-1", "--format=%h")
    (tmp_path / "other.py").write_text("2")
    git("add", ".")
    git("commit", "-qm", "another file")
    design = design_of(file)
    assert (design.file, design.commit, design.changed) == ("below/mine_study.py", first, False)
    assert commit_now(file) == first
    assert same_since(file, first)
    assert not same_since(file, "0000000")
    file.write_text("3")
    assert design_of(file).changed
    assert not same_since(file, first)
    assert (design_of(None), commit_now(None), commit_now(file)) == (None, "", "")


def test_the_command_publishes_and_its_page_can_be_judged_again(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    about = About("temperature", "smoke", "digits", "isotherm study temperature")
    study = replace(temperature.STUDY, name="temperature", doc=temperature.__doc__)
    folder = tmp_path / "study"
    with execute.begin(folder, about):
        pass
    records = [
        Record(
            *(p.arm, p.varied, p.seed, p.config.key, {"linear": 0.5, "uniformity": -1.0}, 1.0, p.config.as_dict()),
            folder / "runs" / p.config.key,
        )
        for p in expand(study, "smoke")
    ]
    (folder / "records.jsonl").write_text(as_lines(records))
    assert main(["report", "study", "--publish", "docs/page"]) == 0
    assert "report: docs/page/README.md" in capsys.readouterr().out
    assert not (folder / "report.html").exists()  # it is only read
    page = (tmp_path / "docs/page/README.md").read_text()
    assert "isotherm report docs/page" in page
    assert main(["report", "docs/page"]) == 0
    told = json.loads((tmp_path / "docs/page/claims.json").read_text())
    with (tmp_path / "docs/page/claims.csv").open(newline="") as file:
        assert [row["verdict"] for row in csv.DictReader(file)] == [claim["verdict"] for claim in told]
    assert main(["report", "study", "--publish", "study/records.jsonl"]) == 2
    assert "--publish names a folder" in capsys.readouterr().err


def test_a_study_of_ones_own_is_named_from_the_folder_where_it_is_published(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_study.py").write_text("")
    about = replace(ABOUT, source=f"{tmp_path / 'own_study.py'}:STUDY")
    folder = recorded(tmp_path / "study", replace(STUDY, source=about.source), about)
    publish(replace(STUDY, source=about.source), folder, Path("page"))
    assert execute.about(tmp_path / "page").source == "own_study.py:STUDY"
    assert str(tmp_path) not in (tmp_path / "page/study.json").read_text()
    with execute.begin(tmp_path / "page", about):  # it goes on there
        pass
    with pytest.raises(ValueError, match="holds another study"):
        execute.begin(tmp_path / "page", replace(about, source=f"{tmp_path / 'another.py'}:STUDY")).__enter__()


def test_looks_are_published_and_their_verdicts_go_by_number(tmp_path):
    folder = recorded(tmp_path / "study")
    looks = Looks(folder)
    records = read(folder)
    looks.add(records, judge(STUDY, records), None, "every claim is decided")
    publish(STUDY, folder, tmp_path / "page")
    text = (tmp_path / "page" / "README.md").read_text()
    assert "| claim | after 18 runs |\n|---|---|\n| 1 | held |\n| 2 | held |\n| 3 | contradicted |" in text
    assert Looks.of(tmp_path / "page").looks == looks.looks
    before = contents(tmp_path / "page")
    (folder / "looks.json").unlink()
    with pytest.raises(ValueError, match=r"tells of more looks .* Copy its looks\.json there"):
        publish(STUDY, folder, tmp_path / "page")
    assert contents(tmp_path / "page") == before


def test_a_page_is_of_the_records_beside_it_whatever_the_study_does_meanwhile(tmp_path, monkeypatch):
    folder, page = recorded(tmp_path / "study", lacking=2), tmp_path / "page"

    def runs_on(figures, records):
        recorded(folder)
        return draw_figures(figures, records)

    monkeypatch.setattr("isotherm.experiments.publish.draw_figures", runs_on)
    publish(STUDY, folder, page)
    assert "16 of 18 runs finished" in (page / "README.md").read_text()
    assert len(read(page)) == 16
    assert len(read(folder)) == 18
