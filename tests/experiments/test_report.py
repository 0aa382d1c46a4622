"""A study's report as its reader meets it in a browser: claims, figures that answer, folds, phone, dark, print."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from isotherm.experiments import execute
from isotherm.experiments import report as study_report
from isotherm.experiments.claims import rules
from isotherm.experiments.claims.decision import exact
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.points import expand
from isotherm.experiments.study import Arm, Claim, Figure, Paper, PaperTable, Scale, Study, Where
from isotherm.report import Points, Scatter
from study_runs import carry_out_here

pytest_plugins = ("browser",)
pytestmark = pytest.mark.slow  # the study trains six runs
TAU = "loss.temperature"
TEMPERATURES = (0.1, 0.4, 1.0)
PRINTED = 700
"""Pixels between the margins of a sheet of A4."""


class Seconds:
    """A plot of one's own."""

    measures = ()

    def draw(self, records):
        points = Points("runs", range(len(records)), [r.seconds for r in records])
        return [Scatter("Seconds of a run", [points], "run", "s")]


@dataclass(frozen=True)
class Runs:
    """There are so many runs."""

    wanted: int
    measures = ()

    def judge(self, records):
        return exact("runs", len(records), len(records) == self.wanted, self.wanted)


STUDY = Study(
    name="told",
    doc="Does a page tell what was found? (nobody 2021)",
    base={"monitor": 0},
    arms=(
        Arm("plain", {"loss": "NTXentLoss"}, {TAU: TEMPERATURES}),
        Arm("decoupled", {"loss": "DCLLoss"}, {TAU: TEMPERATURES}),
    ),
    scales={"smoke": Scale("", {"images": 120, "epochs": 1, "batch": 60, "encoder.widths": [8]})},
    claims=(
        Claim("Six runs were made.", "§1", Runs(6)),
        Claim("An arm that nobody ran is best.", "§2", rules.Trend("knn", "nobody", 1)),
    ),
    figures=(
        Figure("Seconds", "fig. 1", Seconds()),
        Figure(
            "Uniformity",
            "fig. 2",
            Against(["plain", "decoupled"], TAU, "temperature", ("uniformity", "tolerance")),
        ),
    ),
    paper=Paper(
        title="Nobody 2021",
        address="https://example.org",
        differs="Everything.",
        tables={
            "Table 1": PaperTable(
                Path(__file__).with_name("published.csv"),
                [Where(arm, {TAU: t}) for arm in ("plain", "decoupled") for t in TEMPERATURES],
                [("accuracy", "linear")],
            )
        },
    ),
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    points = expand(STUDY, "smoke")
    carry_out_here(points, folder)
    records = execute.run_points(points, folder)
    command = f"isotherm study told --scale smoke --out {'a/very/long/way/to/the/' * 8}folder"
    study_report.tell(STUDY, records, folder, execute.About("told", "smoke", "digits", command))
    return folder / "report.html"


def overflowing(browser):
    """What ends to the right of the page and cannot be scrolled there."""
    return browser.run(
        "return [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll *, pre *, svg *, .hidden')"
        " && e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.outerHTML.slice(0, 80))"
    )


def test_the_page_opens_without_complaints_and_fetches_nothing(browser, report):
    browser.open(report)
    assert browser.complaints() == []
    assert browser.requests() == [report.as_uri()]
    drawn = browser.run("return [...document.querySelectorAll('figure')].map(f => f.querySelectorAll('path').length)")
    assert len(drawn) == 3
    assert min(drawn) > 0


def test_every_claim_says_in_words_whether_it_held(browser, report):
    browser.open(report)
    held, failed = browser.run("return [...document.querySelectorAll('.findings li')].map(e => e.innerText)")
    assert re.match(r"\W*held\s+Six runs were made\. \(§1\)", held)
    assert re.match(r"\W*undecided\s+An arm that nobody ran is best\. \(§2\)", failed)
    assert "Fewer than three values" in failed
    assert "Of 2 claims 1 held, 1 undecided." in browser.run("return document.querySelector('header').innerText")


def test_hovering_a_figure_shows_the_values_there(browser, report):
    browser.open(report)
    chart = "figure:has([data-series='decoupled'])"
    assert browser.run("return document.querySelector('.tip').hidden")
    browser.hover(*browser.middle(f"{chart} .canvas svg"))
    said = browser.run("const t = document.querySelector('.tip'); return t.hidden ? '' : t.innerText")
    assert re.search(r"temperature 0\.4\s+plain\s+−?\d[\d.]*(e−\d+)?\s+decoupled\s+−?\d[\d.]*", said), said
    assert browser.run("return document.querySelectorAll('.over .dot').length") == 2
    browser.hover(1, 1)
    assert browser.run("return document.querySelector('.tip').hidden")


def test_a_legend_entry_hides_its_line_and_shows_it_again(browser, report):
    browser.open(report)
    chart = "figure:has([data-series='plain'] .line)"
    lines = "return [...document.querySelectorAll('figure')][1].querySelectorAll('.canvas .line').length"
    shown = "return [...document.querySelectorAll('figure')].map(f => !!f.querySelector(\"[data-series='decoupled']\"))"
    assert browser.run(lines) == 2
    button = browser.middle(f"{chart} .legend button:nth-child(2)")
    browser.click(*button)
    assert browser.run(lines) == 1
    assert browser.run(shown) == [False, False, True]
    browser.click(*button)
    assert browser.run(shown) == [False, True, True]


def test_folded_parts_open_and_hold_every_run(browser, report):
    browser.open(report)
    tables = "return [...document.querySelectorAll('details table')].map(t => t.checkVisibility())"
    count = browser.run("return document.querySelectorAll('details').length")
    assert not any(browser.run(tables))
    for i in range(count):
        browser.click(*browser.middle(f"details:nth-of-type({i + 1}) summary"))
    assert all(browser.run(tables))
    text = browser.run("return [...document.querySelectorAll('details')].map(d => d.innerText).join()")
    assert text.count("DCLLoss") == len(TEMPERATURES)


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_sticks_out_on_a_phone_and_every_text_is_readable(browser, report, dark):
    browser.open(report, width=400, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert overflowing(browser) == []
    ratio, what = browser.contrasts()[0]
    assert ratio > 4.5, what
    shade = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(shade) < 60) == dark


def test_a_wide_table_scrolls_under_the_names_of_its_rows(browser, report):
    browser.open(report, width=400)
    before, after, moved = browser.run(
        "const box = [...document.querySelectorAll('.scroll')].find(b => b.scrollWidth > b.clientWidth + 50);"
        "const left = s => box.querySelector(s).getBoundingClientRect().left, b = left('tbody th'), cell = left('td');"
        "box.scrollLeft = 50; return [b, left('tbody th'), cell - left('td')];"
    )
    assert abs(before - after) <= 1
    assert moved == 50


def test_print_is_dark_on_white_whole_and_unfolded(browser, report, tmp_path):
    browser.open(report, width=PRINTED, dark=True)
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.devtools("Emulation.setEmulatedMedia", media="print", features=[dark])
    browser.run("return new Promise(done => setTimeout(done, 100))")
    ratio, what = browser.contrasts()[0]
    assert ratio > 4.5, what
    ground, ink = browser.run(
        "const s = getComputedStyle(document.body), p = getComputedStyle(document.querySelector('.findings li'));"
        "return [p.backgroundColor, s.color]"
    )
    assert ground == "rgb(255, 255, 255)"
    assert max(map(int, re.findall(r"\d+", ink))) < 60
    assert overflowing(browser) == []
    cut = "return [...document.querySelectorAll('table, pre')].filter(t => t.scrollWidth > t.parentElement.clientWidth)"
    assert browser.run(f"{cut}.length") == 0
    heights = browser.run("return [...document.querySelectorAll('details table')].map(t => t.offsetHeight)")
    assert min(heights) > 50
    assert not browser.run("return document.querySelector('.tip').checkVisibility()")
    assert browser.pdf(tmp_path / "report.pdf").stat().st_size > 20_000
