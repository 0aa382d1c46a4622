"""Studies from outside the package: found by path and by entry point, run in workers, refused in one sentence."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from installed import install
from isotherm import doors
from isotherm.cli import main
from isotherm.experiments import execute, find
from isotherm.experiments import study as definitions
from isotherm.experiments.claims.rules import Ahead
from isotherm.experiments.points import expand
from isotherm.experiments.records import read
from isotherm.experiments.study import Where
from isotherm.measures import catalogue

pytestmark = pytest.mark.usefixtures("nobody_is_trusted")
EXAMPLES = Path(__file__).parents[2] / "examples"
HEAD = '"""A question of mine?"""\nfrom isotherm.experiments.study import Arm, Scale, Study\n'
STUDY = (
    "Study(base={'monitor': 0}, arms=(Arm('a', {'loss': 'NTXentLoss'}),), scales={'smoke': Scale('', "
    "{'images': 60, 'epochs': 1, 'batch': 30, 'encoder.widths': [4]})})\n"
)
NO_ARMS = "Study(base={}, arms=(), scales={'smoke': Scale('', {})})"


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "my own" / "mine_study.py"
    path.parent.mkdir()
    path.write_text(f"{HEAD}STUDY = {STUDY}")
    return path


def installed(folder, name, value):
    """A package that brings a study."""
    folder.mkdir(parents=True, exist_ok=True)
    install(folder, f"{name.replace('-', '_')}_package", "", studies=f"{name} = {value}")


def refusal(capsys, *words):
    assert main(["study", *map(str, words)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return said


def test_listing_studies_and_asking_for_help_load_nothing_heavy():
    code = (
        "import sys; from isotherm.cli import main\n"
        "try: main(['study', *sys.argv[1:]])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'scipy', 'sklearn', 'matplotlib') if m in sys.modules])"
    )
    for words in (["--list"], ["--help"], ["--list", str(EXAMPLES / "my_study.py")]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"
        assert "--list" not in words or "temperature-bank" in done.stdout


def test_every_study_has_its_name_and_question_from_its_module():
    studies = [find.load(name) for name in find.names()]
    assert [study.name for study in studies] == find.names()
    assert all(study.question.endswith(")") and "?" in study.question for study in studies)
    assert len({study.question for study in studies}) == len(studies)
    assert definitions.USUAL == catalogue.USUAL  # said twice so that a definition needs no torch


@pytest.mark.slow
def test_a_study_from_a_file_is_listed_run_and_told_again(mine, tmp_path, capsys):
    assert main(["study", "--list", str(mine)]) == 0
    assert "A question of mine?" in capsys.readouterr().out
    out = tmp_path / "out"
    words = ["study", str(mine), "--scale", "smoke", "--out", str(out), "--workers", "1"]
    assert main(words) == 0
    about = json.loads((out / "study.json").read_text())
    assert (about["study"], about["source"]) == ("mine-study", f"{mine}:STUDY")
    (out / "report.html").unlink()
    doors._allowed.clear()
    capsys.readouterr()
    assert main(["report", str(out)]) == 2
    assert f"names {mine}:STUDY, whose code would be run" in capsys.readouterr().err
    assert not (out / "report.html").exists()
    assert main(["report", str(out), "--trust-code"]) == 0
    assert (out / "report.html").exists()
    doors._allowed.clear()
    assert main(words) == 0  # typed, it goes on
    other = shutil.copytree(mine.parent, tmp_path / "another") / mine.name
    assert main(["study", str(other), *words[2:]]) == 2
    assert "holds another study (source:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "has no STUDY; a study's file ends in STUDY = Study"),
        ("STUDY = {'base': {}}\n", "STUDY of .* must be a Study of isotherm.experiments.study, got dict"),
        ("import nothing_of_this_name\n", "does not import: line 1: ModuleNotFoundError"),
        ("x = (\n", "does not import: line 1: SyntaxError"),
        ("raise SystemExit(3)\n", r"ends the program when it is imported \(exit 3\)"),
        (
            f"{HEAD}STUDY = {NO_ARMS.replace('arms=()', 'arms=[{}]')}",
            "line 3: .*arms of a study must be Arm values, got dict",
        ),
        (f"{HEAD}STUDY = {NO_ARMS}", "has no runs at scale smoke"),
        (f"{HEAD}STUDY = {STUDY.replace('NTXentLoss', 'NTXenLoss')}", "did you mean 'NTXentLoss'"),
    ],
)
def test_a_file_that_is_no_study_is_refused_in_one_sentence(text, said, tmp_path, capsys):
    (tmp_path / "bad_study.py").write_text(text)
    message = refusal(capsys, tmp_path / "bad_study.py", "--scale", "smoke", "--out", tmp_path / "out")
    assert re.search(said, message), message
    assert not (tmp_path / "out").exists()


CLAIMED = (
    '"""Does mine win?"""\nfrom isotherm.experiments.claims.rules import *\n'
    "from isotherm.experiments.study import Arm, Claim, Scale, Study, Where\n"
    "STUDY = Study(base={'monitor': 0}, arms=(Arm('ours', {'loss': 'TripletLoss'}, {'loss.margin': (0.1, 0.3)}), "
    "Arm('usual', {'loss': 'NTXentLoss'})), scales={'smoke': Scale('', {'images': 60, 'epochs': 1, 'batch': 30, "
    "'encoder.widths': [4]})}, claims=(Claim('Mine wins.', 'ours', RULE),))\n"
)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("Ahead('knn', Where('ours', 0.3), Where('usual'), least=0.01)", "line 4: .*varied of Where must be a dict"),
        ("Ahead('knn', 3, 'usual', least=0.01)", r"where of Ahead must be a Where\(arm, .*got 3"),
        ("Ahead('knn', 'ours', 3, least=0.01)", r"rivals of Ahead must be a tuple of Where.*got 3"),
        ("Ahead('knn', 'ours', ('usual', 3), least=0.01)", "rivals of Ahead must be a Where.*got 3"),
        ("Ahead('knn', 'ours', 'usual', least='0.01')", "least of Ahead must be a number, got '0.01'"),
        ("Ahead(3, 'ours', 'usual', least=0.01)", "measure of Ahead must be a word, got 3"),
        ("Behind('knn', Where('ours'), 'usual', 0.01)", "arm of Behind must be a name of an arm"),
        ("Where('ours')", r"rule of Claim must be a rule of claims\.rules, got Where"),
        ("Trend", r"rule of Claim must be a rule of claims\.rules, got <class"),
        ("Ahead('knn', 'our', 'usual', least=0.01)", "'Mine wins.' names the arm 'our'; did you mean 'ours'"),
        ("Every([Ahead('knn', 'ours', 'others', least=0.01)])", "names the arm 'others'"),
        ("Ahead('knn', Where('ours', {'loss.margin': 0.2}), 'usual', least=0.01)", "the arm has it at: 0.1, 0.3"),
        ("Ahead('knn', 'ours', Where('usual', {'loss.margin': 0.1}), least=0.01)", "does not vary; it varies nothing"),
        (
            "Trend('knn', 'ours', 1, 'loss.margin')",
            "never be decided: Trend needs 3 or more, and ours has 2 values",
        ),
    ],
)
@pytest.mark.parametrize("more", [["--list"], ["--plan"], ["--scale", "smoke"]])
def test_a_claim_about_what_is_not_there_is_refused_before_any_run(rule, said, more, tmp_path, capsys):
    (tmp_path / "claimed.py").write_text(CLAIMED.replace("RULE", rule))
    message = refusal(capsys, tmp_path / "claimed.py", *more, *([] if "--list" in more else ["--out", tmp_path / "o"]))
    assert re.search(said, message), message
    assert not (tmp_path / "o").exists()


def test_an_arms_name_stands_for_all_of_the_arm():
    by_name, by_point = Ahead("knn", "ours", "usual", least=0.01), Ahead("knn", Where("ours"), (Where("usual"),), 0.01)
    assert by_name == by_point
    assert by_name.rivals[0].label == "usual"


def test_no_file_and_a_file_named_as_one_of_ours_are_refused(tmp_path, mine, capsys):
    assert f"no file {tmp_path / 'none.py'}" in refusal(capsys, tmp_path / "none.py")
    ours = shutil.copy(mine, tmp_path / "temperature.py")
    assert "there is one of that name already; rename the file" in refusal(capsys, ours, "--scale", "smoke")


def test_what_a_study_prints_does_not_mix_with_the_list(tmp_path, capsys):
    (tmp_path / "loud.py").write_text(f"{HEAD}print('loud')\nSTUDY = {STUDY}")
    assert main(["study", "--list", str(tmp_path / "loud.py")]) == 0
    captured = capsys.readouterr()
    assert "loud\n" in captured.err
    assert "A question of mine?" in captured.out


def test_installed_packages_bring_studies_and_a_broken_one_troubles_only_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "brought_study.py").write_text(f"{HEAD}STUDY = {STUDY}")
    installed(tmp_path, "brought", "brought_study:STUDY")
    installed(tmp_path, "broken-one", "nothing_of_this_name:STUDY")
    assert {"brought", "broken-one", "temperature"} <= set(find.names())
    study = find.load("brought")
    assert (study.name, study.question, study.source) == ("brought", "A question of mine?", "brought_study:STUDY")
    assert len(expand(study, "smoke")) == 1
    assert find.load("brought_study:STUDY").name == "brought-study"
    assert main(["study", "--list"]) == 0
    assert "does not load: no module nothing_of_this_name" in capsys.readouterr().out
    assert "no module nothing_of_this_name" in refusal(capsys, "broken-one")


def test_two_studies_of_one_name_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "brought_study.py").write_text(f"{HEAD}STUDY = {STUDY}")
    installed(tmp_path, "entropy", "brought_study:STUDY")
    assert "two studies are called 'entropy'" in refusal(capsys, "entropy", "--scale", "smoke")
    assert find.load("temperature").claims


@pytest.mark.slow
def test_the_example_study_runs_its_own_loss_in_workers(tmp_path):
    out = tmp_path / "out"
    words = ["study", str(EXAMPLES / "my_study.py"), "--scale", "smoke", "--out", str(out), "--workers", "2"]
    assert main(words) == 0
    records = read(out)
    assert [r.config.loss.get("power") for r in records] == [1.0, 4.0, 16.0, 64.0, None]
    (claim,) = json.loads((out / "claims.json").read_text())
    assert claim["verdict"] == "undecided"
    assert len(claim["evidence"]["values"]) == 4


@pytest.mark.slow
def test_ray_carries_out_a_study_from_a_file(tmp_path):
    pytest.importorskip("ray", reason="extra 'ray' is not installed")
    words = ["study", str(EXAMPLES / "my_study.py"), "--scale", "smoke", "--out", str(tmp_path / "out")]
    code = "import sys; from isotherm.cli import main; sys.exit(main(sys.argv[1:]))"
    run = [sys.executable, "-W", "ignore", "-c", code, *words, "--ray", "local"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(read(tmp_path / "out")) == 5


def test_a_folder_says_what_it_holds_and_keeps_it(tmp_path):
    about = execute.About("a", "smoke", "digits", "isotherm study a", source="nowhere.py:STUDY")
    with execute.begin(tmp_path / "s", about):
        pass
    assert execute.about(tmp_path / "s") == about
    (tmp_path / "s/study.json").write_text(json.dumps({**about.as_dict(), "of a later version": 1}))
    assert execute.about(tmp_path / "s") == about
