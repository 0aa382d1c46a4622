"""What inspect shows: pages in a browser and lines in a terminal."""

import numpy as np
import pytest

from isotherm import inspect as I
from isotherm.cli import main
from isotherm.inspect.findings import verdict_of
from isotherm.report import Finding
from small_embeddings import CLUSTERS, LABELS, POINT, SPHERE

pytest_plugins = ("browser",)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    labels = np.array([f"<b>kind</b> {c}" for c in LABELS])
    np.savez(folder / "full.npz", z=CLUSTERS, labels=labels, second=CLUSTERS + 0.05 * SPHERE)
    np.save(folder / "bare.npy", POINT)
    full = I.Output(folder / "full.html", command="isotherm inspect full.npz")
    I.run(folder / "full.npz", I.Reading(views="second"), full)
    I.run(folder / "bare.npy", output=I.Output(folder / "bare.html"), layout="pca")
    I.run_compare([folder / "full.npz", folder / "bare.npy"], output=I.Output(folder / "compare.html"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("name", "figures"), [("full", 7), ("bare", 4), ("compare", 4)])
def test_pages_are_whole_quiet_and_readable(browser, pages, name, figures):
    path = pages / f"{name}.html"
    assert path.stat().st_size < 3_000_000
    for width, dark in ((1200, False), (400, False), (400, True)):
        browser.open(path, width=width, dark=dark)
        assert browser.complaints() == []
        assert browser.requests() == [path.as_uri()]
        assert browser.run("return document.querySelectorAll('figure svg path').length") >= figures
        assert browser.run("return document.querySelectorAll('figure').length") == figures
        assert browser.run("return document.documentElement.scrollWidth") <= width
        ratio, what = browser.contrasts()[0]
        assert ratio > 4.5, what


def test_map_names_the_item_under_the_pointer(browser, pages):
    browser.open(pages / "full.html")
    x, y = browser.run(
        "const svg = document.querySelector('.canvas .cloud').closest('svg'); svg.scrollIntoView({block: 'center'});"
        "const start = svg.querySelector('.cloud').getAttribute('d').match(/M([\\d.]+) ([\\d.]+)/);"
        "const b = svg.getBoundingClientRect(); return [b.x + Number(start[1]), b.y + Number(start[2])];"
    )
    browser.hover(x, y)
    assert browser.run("return document.querySelector('.tip strong').textContent").startswith("<b>kind</b> 0 · row ")


@pytest.mark.parametrize(("width", "explained"), [("80", False), ("160", True)])
def test_a_terminal_shows_findings_first_and_meanings_where_there_is_room(
    tmp_path, capsys, monkeypatch, width, explained
):
    np.save(tmp_path / "z.npy", np.random.default_rng(0).standard_normal((80, 8)))
    monkeypatch.setenv("COLUMNS", width)
    assert main(["inspect", str(tmp_path / "z.npy")]) == 0
    said = capsys.readouterr().out
    assert said.index("good") < said.index("uniformity")
    assert ("what it means" in said) == explained
    table = said[said.index("healthy") :].splitlines()
    assert max(map(len, table)) <= int(width)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (("good", "good"), "Healthy: 2 of 2 findings are good."),
        (("good", "look", "look"), "Worth a look: an item, and 1 more."),
        (("look", "bad"), "Not healthy: an item."),
    ],
)
def test_a_line_sums_the_findings_up(levels, words):
    verdict = verdict_of([Finding(level, "An item: more 3.5 of it.") for level in levels])
    assert verdict.text == words
    assert verdict.level == min(levels, key=("bad", "look", "good").index)
