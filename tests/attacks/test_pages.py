"""Names that would like to be obeyed, in every output: pages in Chromium, tables, images, the terminal."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from isotherm.cli import main
from isotherm.experiments import csv_tables
from isotherm.experiments.figures.portraits import _strip
from isotherm.experiments.records import Record, Records
from isotherm.experiments.report import as_csv
from isotherm.report import Dots, Heights, Line, Lines, Page, figures
from isotherm.screen import UNSEEN

pytest_plugins = ("browser",)

HOSTILE = (
    "<script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "</title></script><svg onload=document.title='run'>",
    "javascript:document.title='run'",
    "\x1b]0;mine\x07\x1b[2J",
    "\u202egnp.exe\u2066",
    '=HYPERLINK("http://127.0.0.1:9/","x")',
    "+1+cmd|' /C calc'!A0",
    "@SUM(1:1)",
    "-2+3",
    "$\\frac{$ %s {0} \\input{/etc/passwd}",
    "a\nb\tc\0d",
    "'; drop table x; --",
)


def obeyed(browser, page: Path) -> list[str]:
    """What a browser did with a page besides showing it."""
    browser.open(page)
    done = [*browser.complaints(), *(a for a in browser.requests() if a != page.as_uri())]
    if browser.run("return document.title") == "run":
        done.append("a script ran")
    names = "script:not([type]), img:not([src^='data:']), iframe, object, embed, form, a[href]:not([href^='#'])"
    inside = browser.run(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.outerHTML.slice(0, 60))", names
    )
    done += [tag for tag in inside if not tag.startswith('<script>"use strict"') and not tag.startswith("<script>/")]
    attributes = (
        "return [...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => /^on/.test(n))"
    )
    return done + browser.run(attributes)


def hidden(page: Path) -> set[str]:
    """Characters of a page that nobody would see, or that turn its lines."""
    return set(UNSEEN.findall(page.read_text()))


def hostile_file(folder: Path) -> Path:
    """An embedding whose file, key and classes have such names."""
    z = np.random.default_rng(0).standard_normal((78, 4))
    classes = np.array([HOSTILE[i % len(HOSTILE)].replace("\0", "0") for i in range(78)])
    path = folder / "<script>document.title='run'<\u202eb>\x1b[2J.npz"
    np.savez(path, **{"<b>z\u202e": z, "labels": classes})
    return path


def hostile_records() -> Records:
    return Records(
        Record(
            name, {f"loss.{name}": name}, i, f"key{i}", {"knn": 0.5, name: 0.1}, 1.0, {"data": name}, Path("nowhere"),
            state="failed" if i % 2 else "finished", failure=name, warnings=(name,),
        )
        for i, name in enumerate(HOSTILE)
    )  # fmt: skip


def test_inspecting_hostile_names_shows_them_and_obeys_none(browser, tmp_path, capsys):
    path, page = hostile_file(tmp_path), tmp_path / "page.html"
    assert main(["inspect", str(path), "--map", "pca", "--html", str(page), "--json", str(tmp_path / "a.json")]) == 0
    assert obeyed(browser, page) == []
    assert hidden(page) == set()
    said = capsys.readouterr()
    assert UNSEEN.findall(said.out + said.err) == []
    assert json.loads((tmp_path / "a.json").read_text())["name"].startswith("<script>")


def test_comparing_hostile_files_obeys_none(browser, tmp_path, capsys):
    path, page = hostile_file(tmp_path), tmp_path / "page.html"
    other = path.with_name("=1+2.npz")
    other.write_bytes(path.read_bytes())
    assert main(["compare", str(path), str(other), "--html", str(page)]) == 0
    assert obeyed(browser, page) == []
    assert hidden(page) == set()
    said = capsys.readouterr()
    assert UNSEEN.findall(said.out + said.err) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_every_part_of_a_page_takes_a_name_as_text(browser, tmp_path, name):
    made = Page(name, name, name, name)
    made.section(name, name)
    made.table([name], [[name]], name)
    made.figure(Lines(name, [Line(name, [1, 2], [1, 2], labels=[name, name])], name, name, note=name))
    made.figure(Dots(name, [name], [Heights(name, [1])]))
    page = made.write(tmp_path / "page.html")
    assert obeyed(browser, page) == []
    assert hidden(page) == set()


def test_a_spreadsheet_computes_nothing_in_our_tables():
    tables = [as_csv(hostile_records()), csv_tables._csv([HOSTILE, ["-1.5", "+3e-4", "−2", -1.5]])]
    cells = [cell for table in tables for row in csv.reader(io.StringIO(table)) for cell in row]
    assert [c for c in cells if c[:1] in ("=", "+", "@", "-") and not csv_number(c)] == []
    assert UNSEEN.findall("".join(cells)) == []
    assert {"-1.5", "+3e-4", "'-2+3", '\'=HYPERLINK("http://127.0.0.1:9/","x")'} <= set(cells)


def csv_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:Glyph")
def test_an_image_bears_any_name_and_carries_none(tmp_path, name):
    path = figures.draw(Lines(name, [Line(name, [1, 2], [1, 2])], name, name), tmp_path / "a.png")
    drawn = (path.read_bytes(), _strip([(name, torch.zeros(3, 4, 4))]))
    for content in drawn:
        with Image.open(io.BytesIO(content)) as image:
            assert set(image.info) <= {"Software", "dpi"}
            assert "run" not in str(image.info)
