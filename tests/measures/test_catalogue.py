"""A measure is one constant: added by a package of its own, it is in every table, figure, page and progress line."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from installed import install
from isotherm.measures import catalogue
from isotherm.measures.measure import Measure

MINE = '''
"""How spiky the first coordinate is."""
from isotherm.measures.measure import Healthy, as_measure


def below_two(around):
    return Healthy("below 2", "good")


@as_measure("spikiness of x₁", ("geometry",), sign=-1, better="lower", monitor=True, healthy=below_two)
def spikiness(subject):
    """Mean absolute first coordinate of the unit embeddings."""
    z = subject.embeddings.double()
    return float((z[:, 0] / z.norm(dim=1)).abs().mean())
'''
STUDY = '''
"""Does it show a measure of somebody else's?"""
from isotherm.experiments.claims.rules import Trend
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study

TAU = "loss.temperature"
STUDY = Study(
    base={"data": "digits", "images": 60, "epochs": 1, "batch": 30, "encoder.widths": [4], "monitor": 1},
    arms=(Arm("nt-xent", {"loss": "NTXentLoss"}, {TAU: (0.1, 0.3, 1.0)}),),
    scales={"smoke": Scale("seconds", {})},
    claims=(Claim("It falls.", "ours", Trend("spikiness", "nt-xent", -1, TAU)),),
    figures=(Figure("Spikes", "ours", Against(["nt-xent"], TAU, "temperature", ("spikiness",))),),
    measure=("geometry",),
)
'''
EVERYWHERE = """
import sys
from pathlib import Path
from isotherm.cli import main
from isotherm.experiments import find
from isotherm.experiments.live_table import table_of
from isotherm.experiments.points import expand
from isotherm.experiments.progress import Progress
from rich.console import Console

if __name__ == "__main__":
    here = Path(sys.argv[1])
    assert main(["inspect", str(here / "a.npy"), "--html", str(here / "a.html"), "--map", "none"]) == 0
    assert main(["compare", str(here / "a.npy"), str(here / "b.npy")]) == 0
    small = ["--images", "60", "--batch", "30", "--epochs", "1", "--encoder.widths", "[4]", "--monitor", "1"]
    assert main(["train", *small, "--out", str(here / "run")]) == 0
    out = here / "study"
    assert main(["study", str(here / "mine_study.py"), "--scale", "smoke", "--workers", "1", "--out", str(out)]) == 0
    points = expand(find.load(str(here / "mine_study.py")), "smoke")
    Console(width=300).print(table_of(Progress.of(points, out)))
"""


@pytest.fixture
def installed(tmp_path):
    """A folder with a package that brings a measure."""
    install(tmp_path, "mine", MINE, measures="spikiness = mine:spikiness")
    return tmp_path


@pytest.mark.slow
def test_a_measure_of_another_package_is_in_every_place(installed):
    (installed / "mine_study.py").write_text(STUDY)
    random = np.random.default_rng(0)
    z = random.standard_normal((400, 8)).astype(np.float32)
    np.save(installed / "a.npy", z)
    np.save(installed / "b.npy", z + np.eye(8, dtype=np.float32)[0] * 2)
    (installed / "everywhere.py").write_text(EVERYWHERE)
    words = [sys.executable, str(installed / "everywhere.py"), str(installed)]
    environment = {**os.environ, "PYTHONPATH": f"{installed}:{':'.join(sys.path)}", "COLUMNS": "200"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    expected = np.abs(unit[:, 0]).mean()
    inspected, compared = done.stdout.split("  measure  ", 1)
    assert f"{expected:.3f}" in inspected
    assert "below 2" in inspected
    row = next(line for line in compared.splitlines() if "spikiness of x₁" in line)
    assert f"{expected:.3f} ★" in row  # lower is better
    assert "−spikiness of x₁ −0." in done.stderr  # the progress of training
    assert re.search(r"run: .*−spikiness of x₁ −0\.", done.stdout)  # its result
    assert "last −spikiness of x₁" in done.stdout  # the live table
    page = (installed / "study/report.html").read_text()
    assert "−spikiness of x₁" in page
    assert "Mean absolute first coordinate" in page
    assert list((installed / "study/figures").glob("*spikiness*.png"))
    assert "spikiness" in (installed / "study/records.csv").read_text()
    assert "Mean absolute first coordinate" in (installed / "a.html").read_text()


@pytest.mark.slow
def test_an_entry_point_that_is_no_measure_or_takes_a_name_is_told(installed):
    code = "from isotherm.measures.catalogue import measures; measures()"
    environment = {**os.environ, "PYTHONPATH": f"{installed}:{':'.join(sys.path)}"}
    for text, words in (
        ("spikiness = 3", "'spikiness': mine:spikiness is no Measure but a"),
        (
            MINE.replace("def spikiness", "def uniformity") + "spikiness = uniformity",
            "there is a measure 'uniformity' already",
        ),
    ):
        (installed / "mine.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert words in done.stderr


def test_every_measure_says_what_it_is():
    for name, measure in catalogue.measures().items():
        assert isinstance(measure, Measure)
        assert measure.name == name
        assert measure.meaning.endswith(".")
        assert measure.title
        assert measure.groups
        assert measure.sign == 1 or measure.unit != "%"


def test_what_nobody_knows_is_shown_as_it_is():
    assert catalogue.measure("probes.knn").unit == "%"
    assert catalogue.measure("something_else").title == "something else"
    assert catalogue.measure("something_else").better is None
    with pytest.raises(ValueError, match="no group of measures 'geometri'; did you mean 'geometry'"):
        catalogue.in_groups(["geometri"])
