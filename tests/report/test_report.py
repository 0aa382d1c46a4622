"""Pages: whole, escaped, quiet; charts that answer the pointer in a real browser; the same charts as pictures."""

import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from isotherm.report import (
    Cell,
    Dots,
    Finding,
    HeatMap,
    Heights,
    Histogram,
    Line,
    Lines,
    Page,
    Points,
    Scatter,
    Span,
    figures,
    number,
)
from isotherm.report.charts import as_json
from isotherm.report.page import places
from isotherm.screen import visible

pytest_plugins = ("browser",)
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\u2028'\""
TAU = [0.05, 0.1, 0.2, 0.5, 1.0]


def charts():
    random = np.random.default_rng(0)
    clouds = [
        Points(
            f"class {c}", random.normal(3 * c, 1, 250), random.normal(c % 3, 1, 250), [f"item {i}" for i in range(250)]
        )
        for c in range(10)
    ]
    return {
        "lines": Lines(
            "Uniformity",
            [
                Line(
                    "ours",
                    TAU,
                    [-3.9, -3.5, -3, -2, -1],
                    low=[-4, -3.6, -3.2, -2.2, -1.3],
                    high=[-3.8, -3.4, -2.8, -1.8, -0.7],
                ),
                Line("paper", TAU, [-3.8, np.nan, -3.1, -2.1, -1.2], dashed=True),
            ],
            x="τ",
            y="uniformity",
            log_x=True,
            spans=[Span(0.1, 0.3, "recommended")],
            note="Band: one standard deviation.",
        ),
        "scatter": Scatter("Map", clouds, axes=False),
        "histogram": Histogram(
            "Similarities", np.linspace(-1, 1, 9), [Heights("a", range(8)), Heights("b", [3] * 8)], x="s", y="density"
        ),
        "dots": Dots(
            "Accuracy", ["one", "another"], [Heights("knn", [0.9, -0.2], [0.01, 0.02]), Heights("linear", [0.8, None])]
        ),
        "heat": HeatMap("Grid", ["a", "b"], ["0.1", "0.2", "0.5"], [[1, 2, 3], [4, None, 6]], x="τ", y="loss"),
    }


def page():
    made = Page("A study", "What is the question?", footer="isotherm")
    made.facts([("embeddings", 50_000), ("uniformity", -3.2134, "of −3.94")])
    made.section("Claims", "One.\n\nTwo.")
    made.findings([Finding("good", "Fine.", "0.9 > 0.8"), Finding("look", "Look."), Finding("bad", "Collapsed.")])
    made.table(
        ["claim", "held", "ours"], [["falls", Cell("held", level="good"), Cell(1.5, best=True)], ["rises", "no", None]]
    )
    made.section("Figures")
    for chart in charts().values():
        made.figure(chart)
    made.section("Again")
    made.code("isotherm study " + "temperature " * 40)
    with made.fold("Every run"):
        made.table([f"column {i}" for i in range(12)], [[f"run {i}" for i in range(12)]])
    return made


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return page().write(tmp_path_factory.mktemp("page") / "deep" / "page.html")


def tip(browser):
    return browser.run("const t = document.querySelector('.tip'); return t.hidden ? null : t.textContent;")


def test_page_draws_every_chart_without_network_or_complaints(browser, written):
    browser.open(written)
    assert browser.complaints() == []
    assert browser.requests() == [written.as_uri()]
    drawn = browser.run(
        "return [...document.querySelectorAll('.canvas')].map(c => c.querySelectorAll('path, rect').length)"
    )
    assert len(drawn) == 5
    assert min(drawn) > 0
    assert browser.run("return document.querySelectorAll('nav a').length") == 3


def test_hovering_shows_what_is_there(browser, written):
    browser.open(written)
    browser.hover(*browser.middle("figure:has([data-series='ours']) .canvas .line"))
    assert "τ" in tip(browser)
    assert "ours" in tip(browser)
    x, y = browser.run(
        "const svg = document.querySelectorAll('.canvas svg')[1]; svg.scrollIntoView({block: 'center'});"
        "const start = svg.querySelector('.cloud').getAttribute('d').match(/M([\\d.]+) ([\\d.]+)/);"
        "const b = svg.getBoundingClientRect(); return [b.x + Number(start[1]), b.y + Number(start[2])];"
    )
    browser.hover(x, y)
    assert re.search(r"item \d+", tip(browser))
    assert browser.run("return document.querySelectorAll('.over .dot').length") == 1
    for kind, said in (("canvas .steps", "s "), ("canvas .value", "knn"), ("cell", "a · 0.1")):
        browser.hover(*browser.middle(f".{kind}"))
        assert said in tip(browser), kind
    browser.hover(2, 2)
    assert tip(browser) is None


def test_legend_hides_and_shows_a_series(browser, written):
    browser.open(written)
    count = "return document.querySelectorAll('figure')[1].querySelectorAll('[data-series]').length"
    assert browser.run(count) == 10
    place = browser.middle("figure:nth-of-type(1):has(.cloud) .legend button:nth-child(3)")
    browser.click(*place)
    assert browser.run(count) == 9
    assert not browser.run("return document.querySelector('[data-series=\"class 2\"]')")
    assert browser.run("return document.querySelector('button[aria-pressed=false]').textContent") == "class 2"
    browser.click(*place)
    assert browser.run(count) == 10


@pytest.mark.parametrize("dark", [False, True])
def test_page_is_readable_on_a_phone_and_in_the_dark(browser, written, dark):
    browser.open(written, width=400, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("return document.documentElement.scrollWidth") <= 400
    ratio, what = browser.contrasts()[0]
    assert ratio > 4.5, what
    shade = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(shade) < 60) == dark
    smallest = browser.run(
        "return Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
    )
    assert smallest > 10


def test_series_stand_out_in_light_and_dark(browser, written):
    for dark in (False, True):
        browser.open(written, dark=dark)
        colours = browser.run(
            "const s = getComputedStyle(document.documentElement);"
            "return ['paper', ...Array(8).keys()].map(k => s.getPropertyValue(k < 8 ? `--c${k}` : '--paper').trim());"
        )
        paper, *series = [luminance(c) for c in colours]
        for colour in series:
            assert (max(paper, colour) + 0.05) / (min(paper, colour) + 0.05) > 3


def test_no_two_colours_of_series_are_alike(browser, written):
    """As far apart in OKLab as orange and ochre, in light and dark; the ramp gets lighter, and stands out too."""
    for dark in (False, True):
        browser.open(written, dark=dark)
        names = [*(f"--c{k}" for k in range(8)), *(f"--r{k}" for k in range(4)), "--paper"]
        *colours, paper = browser.run(
            "const s = getComputedStyle(document.documentElement);"
            "return arguments[0].map(name => s.getPropertyValue(name).trim());",
            names,
        )
        places = np.array([oklab(colour) for colour in colours])
        for i, j in itertools.combinations(range(8), 2):
            assert np.linalg.norm(places[i] - places[j]) > 0.125, (colours[i], colours[j], dark)
        ramp = [luminance(colour) for colour in colours[8:]]
        assert ramp == sorted(ramp)
        for shade in ramp:
            assert (max(shade, luminance(paper)) + 0.05) / (min(shade, luminance(paper)) + 0.05) > 3


def oklab(colour):
    """Ottosson 2020: where a colour lies for the eye."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    cones = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
    axes = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.array(axes) @ np.cbrt(np.array(cones) @ linear)


def test_everything_is_reached_by_keys_and_shows_where_it_is(browser, written):
    browser.open(written)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    wanted = browser.run("return document.querySelectorAll('a, button, summary, .canvas, .scroll').length")
    reached = set()
    for _ in range(wanted + 5):
        browser.press("Tab")
        place, outlined = browser.run(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "return [[...document.querySelectorAll('*')].indexOf(e),"
            " e === document.body || (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0)];"
        )
        assert outlined, place
        reached.add(place)
    inside = "return [...document.querySelectorAll('a, button, summary, .canvas, .scroll')]"
    assert set(browser.run(f"{inside}.map(e => [...document.querySelectorAll('*')].indexOf(e))")) <= reached


def test_arrow_keys_read_the_values_of_every_chart(browser, written):
    browser.open(written)
    heads = []
    for k in range(5):
        browser.run("document.querySelectorAll('.canvas')[arguments[0]].focus()", k)
        browser.press("ArrowRight")
        browser.press("ArrowRight")
        heads.append(tip(browser))
        browser.press("Escape")
        assert tip(browser) is None
    assert "τ 0.1" in heads[0]
    assert "item 1" in heads[1]
    assert all(heads)


def test_every_figure_has_a_name_and_the_page_a_language_and_a_title(browser, written):
    browser.open(written)
    names = browser.run(
        "return [...document.querySelectorAll('svg[role=img], img')].map(e => e.getAttribute('aria-label') || e.alt)"
    )
    assert len(names) == 5
    assert all(names)
    assert "line chart of uniformity against τ; ours, paper" in names[0]
    assert browser.run("return [document.documentElement.lang, document.title]") == ["en", "A study"]
    tables = browser.run("return [...document.querySelectorAll('.scroll')].map(e => e.getAttribute('aria-label'))")
    assert all(tables)


def test_the_legend_draws_a_series_as_the_chart_does(browser, written):
    browser.open(written)
    pairs = browser.run(
        """const figures = [...document.querySelectorAll('figure.chart')].slice(0, 4);
        return figures.flatMap(f => [...f.querySelectorAll('.legend button')].map((b, i) => {
          const key = b.querySelector('.swatch'), drawn = f.querySelectorAll('[data-series]')[i];
          const of = n => [...n.querySelectorAll('path, circle')].map(e => e.classList[0]);
          return [getComputedStyle(key).getPropertyValue('--c'), getComputedStyle(drawn).getPropertyValue('--c'),
                  of(key).filter(c => !of(drawn).includes(c))];
        }));"""
    )
    assert len(pairs) == 16
    for key, drawn, other in pairs:
        assert key == drawn
        assert not other


def test_an_ordered_family_has_a_ramp_a_series_its_own_colour_and_the_rest_is_pale(browser, tmp_path):
    made = Page("Colours", verdict=Finding("look", "Worth a look."))
    made.figure(Lines("ramp", [Line(f"τ = {t}", [1, 2], [t, t]) for t in TAU], ramp=True))
    made.figure(Lines("own", [Line("b", [1, 2], [1, 2], colour=3)]))
    made.figure(Scatter("map", [Points("a", [1], [1]), Points("other", [2], [2], pale=True)]))
    browser.open(made.write(tmp_path / "colours.html"))
    styles = browser.run("return [...document.querySelectorAll('[data-series]')].map(g => g.getAttribute('style'))")
    assert len(set(styles[:5])) == 5
    assert all("--r" in style for style in styles[:5])
    assert styles[5:] == ["--c:var(--c3)", "--c:var(--pale)", "--c:var(--c0)"]
    assert browser.run("return document.querySelector('h1 + .verdict.look').textContent") == "◆ Worth a look."


def luminance(colour):
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_charts_follow_the_window_and_unfold_at_the_right_width(browser, tmp_path):
    made = Page("Folded")
    with made.fold("open me"):
        made.figure(charts()["lines"])
    browser.open(made.write(tmp_path / "folded.html"), width=500)
    width = "return document.querySelector('.canvas svg').viewBox.baseVal.width"
    browser.run("document.querySelector('details').open = true")
    browser.run("return new Promise(done => setTimeout(done, 100))")
    assert 350 < browser.run(width) < 500
    browser.devtools("Emulation.setDeviceMetricsOverride", width=900, height=700, deviceScaleFactor=1, mobile=False)
    browser.run("return new Promise(done => setTimeout(done, 100))")
    assert browser.run(width) > 700


def test_text_is_text_everywhere(browser, tmp_path):
    made = Page(NASTY, NASTY, NASTY, NASTY)
    made.section(NASTY, NASTY)
    made.facts([(NASTY, NASTY, NASTY)])
    made.findings([Finding("good", NASTY, NASTY)])
    made.table([NASTY, NASTY], [[NASTY, Cell(NASTY, NASTY, "bad", True)]], NASTY)
    made.code(NASTY)
    made.figure(
        Lines(
            NASTY, [Line(NASTY, [1, 2], [1, 2], labels=[NASTY, NASTY]), Line("b", [1], [1])], NASTY, NASTY, note=NASTY
        )
    )
    made.figure(Dots(NASTY, [NASTY], [Heights(NASTY, [1])]))
    made.figure(Scatter(NASTY, [Points(NASTY, [1], [1], [NASTY])]))
    with made.fold(NASTY):
        made.text(NASTY)
    browser.open(made.write(tmp_path / "nasty.html"))
    assert browser.complaints() == []
    assert browser.requests() == [(tmp_path / "nasty.html").as_uri()]
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.run("return document.querySelector('h1').textContent") == visible(NASTY)
    assert browser.run("return document.querySelectorAll('.canvas svg').length") == 3
    browser.hover(*browser.middle(".canvas .cloud"))
    assert tip(browser).startswith(visible(NASTY))


def test_an_injected_script_would_not_run(browser, tmp_path):
    """The policy is the second lock: even markup that got in could neither run nor fetch."""
    path = tmp_path / "broken.html"
    text = (
        Page("x")
        .html()
        .replace("</main>", "<script>document.title = 'run'</script><img src='http://127.0.0.1:9/x'></main>")
    )
    path.write_text(text)
    browser.open(path)
    assert browser.run("return document.title") == "x"
    assert len(browser.complaints()) == 2


def test_print_has_everything_on_white(browser, written, tmp_path):
    browser.open(written, dark=True)
    assert browser.pdf(tmp_path / "page.pdf").stat().st_size > 20_000
    browser.devtools(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert (
        browser.run("return getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()") == "#ffffff"
    )


def test_a_chart_of_thousands_of_points_stays_small_and_quick(browser, tmp_path):
    random = np.random.default_rng(0)
    xy = random.normal(size=(2, 10_000))
    made = Page("Many")
    made.figure(Scatter("10,000 points", [Points("all", *xy, [f"row {i}" for i in range(10_000)])]))
    path = made.write(tmp_path / "many.html")
    assert path.stat().st_size < 1_000_000
    browser.open(path)
    assert browser.run("return document.querySelectorAll('svg *').length") < 60


@pytest.mark.parametrize("kind", ["lines", "scatter", "histogram", "dots", "heat"])
def test_the_same_chart_is_drawn_as_a_picture(kind, tmp_path):
    with Image.open(figures.draw(charts()[kind], tmp_path / "new" / "chart.png")) as picture:
        assert picture.width == 1024
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 50


def test_a_picture_bears_any_label(tmp_path):
    chart = Lines(
        "数 $x^ %$", [Line("$\\frac$", [1, 2], [1, 2]), Line("_hidden", [1, 2], [2, 1])], x="\\frac", log_y=True
    )
    assert figures.draw(chart, tmp_path / "x.png").exists()


def test_charts_are_checked_when_made():
    with pytest.raises(ValueError, match="line 'a' needs as many of each, got 2 x, 3 y"):
        Line("a", [1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="3 labels"):
        Points("a", [1, 2], [1, 2], ["x", "y", "z"])
    with pytest.raises(ValueError, match="has 2 bins, 'h' has 3 values"):
        Histogram("t", [0, 1, 2], [Heights("h", [1, 2, 3])])
    with pytest.raises(ValueError, match="has 1 categories, 'h' has 2 values"):
        Dots("t", ["a"], [Heights("h", [1, 2])])
    with pytest.raises(ValueError, match="2 rows of 1 values"):
        HeatMap("t", ["a", "b"], ["c"], [[1]])
    with pytest.raises(ValueError, match="needs 2 cells, got 1"):
        Page("x").table(["a", "b"], [["c"]])


def test_json_has_gaps_for_what_is_not_finite_and_nothing_for_what_was_left_out():
    found = json.loads(as_json(Lines("t", [Line("a", np.arange(3), np.array([1 / 3, np.nan, np.inf]))])))
    assert found["series"] == [{"name": "a", "x": [0, 1, 2], "y": [0.333333, None, None], "labels": []}]
    assert "log_x" not in found
    assert "<" not in as_json(Lines(NASTY, []))


@pytest.mark.parametrize(
    ("value", "text"),
    [(50_000, "50,000"), (-3.94159, "−3.942"), (0.12345, "0.123"), (1.2e-7, "1.20e−07"), (None, "–"),
     (float("nan"), "–"), (12345.678, "12,346"), (3.0, "3"), (-0.0, "0"), (0.0123, "0.012"),
     (0.00123, "0.0012"), (1e9 + 0.5, "1.00e+09")],
)  # fmt: skip
def test_numbers_read_as_people_write_them(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("deviation", "digits"), [(0.26, 2), (0.35, 1), (1.3, 1), (29, 0), (0.0069, 3), (0, None)])
def test_a_value_has_the_digits_that_its_spread_leaves_certain(deviation, digits):
    assert places(deviation) == digits


def test_report_does_not_import_torch():
    code = "import sys, isotherm.report, isotherm.report.figures; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
