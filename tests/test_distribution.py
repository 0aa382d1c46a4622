"""What is built and installed: the wheel holds what it should, and runs with what its extra brings and nothing else."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import isotherm
from isotherm import extras
from isotherm.cli import main
from isotherm.experiments.records import read
from test_package import ROOT, needed_by

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def build(form, folder):
    command = [sys.executable, "-m", "hatchling", "build", "-t", form, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl" if form == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_the_wheel_holds_the_package_whole_and_nothing_else(wheel):
    source = ROOT / "src"
    wanted = {str(p.relative_to(source)) for p in (source / "isotherm").rglob("*") if p.is_file()}
    wanted = {name for name in wanted if "__pycache__" not in name}
    assert {Path(name).suffix for name in wanted} >= {".py", ".css", ".js", ".txt"}
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == wanted


@pytest.mark.slow
def test_the_source_distribution_holds_what_builds_and_tests_it(tmp_path):
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "Makefile", "tests/conftest.py"} <= names
    assert not [name for name in names if ".venv" in name or name.endswith(".pyc")]


@pytest.mark.slow
def test_the_wheel_runs_a_study_with_what_lab_brings_and_nothing_else(wheel, tmp_path):
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    lines = metadata.requires("isotherm") or []
    needed = [
        re.match(r"[\w.-]+", line)[0] for line in lines if "extra ==" not in line or re.search("'lab'|\"lab\"", line)
    ]
    for distribution in needed_by(*needed):
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] != ".."}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    words = ["study", "temperature", "--scale", "smoke", "--out", str(tmp_path / "out"), "--workers", "2"]
    code = f"import sys; from isotherm.cli import main; sys.exit(main({words}))"
    environment = {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(read(tmp_path / "out")) == 10
    assert (tmp_path / "out/report.html").stat().st_size > 10_000


def test_every_extra_says_what_it_brings():
    assert set(extras.EXTRAS) == set(PROJECT["optional-dependencies"]) - {"dev"}
    modules = {
        "scikit-learn": "sklearn",
        "pillow": "PIL",
        "pyyaml": "yaml",
        "faiss-cpu": "faiss",
        "mkdocs-material": "mkdocs",
    }
    for name, extra in extras.EXTRAS.items():
        brought = [re.match(r"[\w.-]+", line)[0] for line in PROJECT["optional-dependencies"][name]]
        assert {modules.get(each, each.replace("-", "_")) for each in brought} <= set(extra.libraries), name


def test_the_line_that_installs_an_extra_works_where_it_is_typed(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "_clone", lambda: tmp_path)
    assert extras.command("text") == f"pip install -c {tmp_path}/constraints.txt '{tmp_path}[text]'"
    monkeypatch.chdir(tmp_path)
    assert extras.command("text") == "pip install -c constraints.txt '.[text]'"
    monkeypatch.setattr(extras, "_clone", lambda: None)
    assert extras.command("text") == "pip install 'isotherm[text]'"


def test_the_doctor_says_what_is_missing_and_what_for(capsys, monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "flying", extras.Extra("what nobody has", ("sklearn", "no_such_library")))
    assert main(["doctor"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"isotherm {isotherm.__version__}" in told
    assert "flying missing (no_such_library) what nobody has: pip install" in told
    assert "lab ok isotherm train, evaluate, inspect, study" in told
    assert "data here digits" in told


def test_the_citation_names_this_version_and_the_four_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == isotherm.__version__
    papers = set(re.findall(r"arxiv\.org/abs/([\d.]+)", (ROOT / "README.md").read_text()))
    assert {each["url"].rpartition("/")[2] for each in citation["references"]} == papers
    assert {url.rpartition("/")[2] for url in PROJECT["urls"].values()} == papers
