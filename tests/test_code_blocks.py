"""Every block of code in README and docs: run, or at least understood by the program it is written for.

Python is run page by page, in a folder with what the page says is there. Lines of a shell are given to the parser of
the command; those that train also get all their settings resolved; and README's are run, made smaller. What is not
run stands in a table with its reason.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from isotherm.cli import _parser, main
from isotherm.experiments import find
from isotherm.experiments.points import expand
from isotherm.experiments.records import Record, Records
from isotherm.train.commandline import parse

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = {"", "python", "sh", "yaml"}
RUN_ELSEWHERE = {
    "docs/guides/your-own-loop.md": "tests/test_package.py",
    "docs/text-ecosystem.md": "tests/integrations/test_text_ecosystem_page.py",
}
"""Pages whose Python another test runs, and which."""
NOT_RUN = {
    "docs/sentences.md": "scores encoders on SentEval's data, which is not in the repository",
    "docs/decisions/0034-what-the-advice-is-worth.md": "reads the runs of a study: half an hour of training",
}
"""Pages whose Python is only compiled, and why."""
GIVEN = {
    "docs/guides/many-machines.md": "import torch; z0, z1 = torch.randn(2, 8, 4)\n",
    "docs/guides/choose-a-temperature.md": """
import isotherm
small = dict(data="digits", images=300, epochs=1, batch=100, monitor=0, quiet=True)
for run, method in (("a", "simclr"), ("tau", "tau"), ("isogclr", "isogclr")):
    isotherm.train(f"runs/{run}", method=method, **small)
""",
}
"""What a page takes as given: what was embedded, the runs that its commands make, smaller."""
WRITTEN = {
    "README.md": ("mine.py", 1),
    "docs/guides/add-a-data-set.md": ("my_data.py", 0),
    "docs/guides/add-a-study.md": ("wins_study.py", 0),
    "docs/guides/first-study.md": ("views_study.py", 0),
}
"""Files that pages say to write: their names, and which block of Python they are."""
SMALLER = {
    "train": "--epochs 1 --images 200 --batch 100 --monitor 0 --quiet",
    "check": "--law docstring --law order",
    "grid": "--epochs 1 --images 100 --batch 50 --encoder.widths [4] --seeds 1 --workers 1",
}
"""What README's commands get besides, to take seconds."""
NOT_README = {
    "compare runs/b timm:resnet50": "timm's weights are a download; tests/evaluate compares encoders on other data",
    "search runs/clip": "needs a run of two towers; the notebook image-text and tests/evaluate/test_encode.py search",
    "study temperature": "an hour; tests/experiments runs this study at smoke scale",
    "study randbit": "trains a few steps of every arm to reckon the rest; tests/experiments plans studies",
}
"""README's commands that are understood and not run, and why."""


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def lines(page):
    """The commands of a page, one by one: continued lines joined, comments away."""
    for language, text in blocks(page):
        if language == "sh":
            for line in re.findall(r"^(?:\w+=\S* )?(?:\S*/)?isotherm (.*)", text.replace("\\\n", " "), re.MULTILINE):
                words = shlex.split(line, comments=True)
                yield words[: words.index("|") if "|" in words else None]


def name(page):
    return str(page.relative_to(ROOT))


COMMANDS = {(name(page), " ".join(words)): words for page in PAGES for words in lines(page)}
PYTHON = [page for page in PAGES if any(language == "python" for language, _ in blocks(page))]


def test_every_block_is_in_a_language_that_is_tested():
    assert {language for page in PAGES for language, _ in blocks(page)} <= LANGUAGES
    assert len(COMMANDS) > 60
    assert {name(page) for page in PYTHON} >= {*RUN_ELSEWHERE, *NOT_RUN, *GIVEN}
    for test in RUN_ELSEWHERE.values():
        assert (ROOT / test).exists()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A folder as a reader of the guides has it: the files that they say to write, some embeddings, the examples."""
    folder = tmp_path_factory.mktemp("workshop")
    python = {place: [text for language, text in blocks(ROOT / place) if language == "python"] for place in WRITTEN}
    for place, (file, index) in WRITTEN.items():
        (folder / file).write_text(python[place][index])
    (folder / "mine_study.py").write_text((folder / "views_study.py").read_text())
    (folder / "examples").symlink_to(ROOT / "examples")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    np.save(folder / "embeddings.npy", 2 * np.eye(3, 8)[labels] + rng.standard_normal((200, 8)))
    np.save(folder / "labels.npy", labels)
    return folder


OWN = {"robustness": ("--loss", "--imbalance"), "grid": ("--vary", "--seeds", "--workers")}
"""Options of commands that take the settings of train besides, and that train has not."""


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_a_page_is_understood(page, command, capsys, monkeypatch, workshop):
    monkeypatch.chdir(workshop)
    words = COMMANDS[page, command]
    if "teacher" in words:
        pytest.skip("the method that the reader adds to the package; tests/methods adds one")
    if words[0] == "train" and "--help" not in words:
        config, *_ = parse(words[1:])
        assert config.method.name
        return
    if words[0] in OWN:  # its own options come in pairs; the rest are settings of train
        pairs = zip(words[1::2], words[2::2], strict=True)
        parse([word for pair in pairs if pair[0] not in OWN[words[0]] for word in pair])
        return
    if words[0] == "train":
        assert main(words) == 0
        return
    try:
        arguments = _parser().parse_args(words)
    except SystemExit:
        pytest.fail(capsys.readouterr().err)
    assert "run" in arguments
    if words[0] == "study" and "--list" not in words and not words[1].startswith("./"):
        assert words[1] in find.names()


def test_the_study_of_the_guide_has_its_runs_and_judges_them(workshop, monkeypatch):
    monkeypatch.chdir(workshop)
    study = find.load("./wins_study.py")
    points = expand(study, "cpu")
    assert len(points) == 4 * 3
    knn = {("MyLoss", 2.0): 0.93, ("MyLoss", 4.0): 0.8, ("MyLoss", 1.0): 0.5, ("NT-Xent", None): 0.9}
    runs = [
        Record(p.arm, p.varied, p.seed, p.name, {"knn": knn[p.arm, p.varied.get("loss.t")]}, 1.0, {}, workshop)
        for p in points
    ]
    assert [claim.judge(Records(runs)).outcome for claim in study.claims] == ["held", "contradicted"]


def test_the_imports_of_the_guide_to_losses_are_there(tmp_path):
    (code,) = [text for language, text in blocks(ROOT / "docs/guides/add-a-loss.md") if language == "python"]
    names: dict[str, object] = {}
    exec(code, names)
    page = (ROOT / "docs/guides/add-a-loss.md").read_text()
    parts = page.partition("## What `per_query` is made of")[2].partition("\n\n## ")[0]
    said = set(re.findall(r"`(Linear|Gaussian|scaled|Smooth|LogSumExp|Expectation|Total|reduce|apply_rows)\b", parts))
    assert len(said) == 9
    assert said <= names.keys()


@pytest.mark.slow
@pytest.mark.parametrize("page", PYTHON, ids=name)
def test_the_python_of_a_page_runs(page, tmp_path):
    codes = [text for language, text in blocks(page) if language == "python"]
    if name(page) in RUN_ELSEWHERE or name(page) == "README.md":
        pytest.skip(f"run by {RUN_ELSEWHERE.get(name(page), 'tests/test_package.py')}")
    if name(page) in NOT_RUN:
        compile("\n".join(codes), name(page), "exec")
        return
    if name(page) == "docs/gpu.md":
        pytest.importorskip("triton")
    (tmp_path / "page.py").write_text(GIVEN.get(name(page), "") + "\n".join(codes))  # a file: triton reads its source
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "page.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_every_command_of_the_readme_runs_one_after_the_other(workshop, monkeypatch, capsys):
    """With less of everything; each leaves what the next one needs."""
    monkeypatch.chdir(workshop)
    left = set(NOT_README)
    for words in lines(ROOT / "README.md"):
        command = " ".join(words)
        skipped = [start for start in NOT_README if command.startswith(start)]
        left -= set(skipped)
        if skipped or "--help" in words:
            continue
        less = "--scale smoke" if command.startswith("study ./") else SMALLER.get(words[0], "")
        shorter = [word for word in words if word not in ("--epochs", "10")]
        assert main([*shorter, *shlex.split(less)]) == 0, command + capsys.readouterr().err
    assert not left
    assert (workshop / "health.html").exists()
    assert (workshop / "b.html").exists()
