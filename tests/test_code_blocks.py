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
from isotherm.train.commandline import parse

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = {"", "python", "sh", "yaml"}
RUN_ELSEWHERE = {
    "docs/guides/your-own-loop.md": "tests/test_package.py",
    "docs/text-ecosystem.md": "tests/integrations/test_sentence_transformers.py",
}
"""Pages whose Python another test runs, and which."""
NOT_RUN = {"docs/sentences.md": "scores encoders on SentEval's data, which is not in the repository"}
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
SMALLER = {
    "train": "--epochs 1 --images 200 --batch 100 --monitor 0 --quiet",
    "check": "--law docstring --law order",
    "evaluate": "--seed 0",
}
"""What README's commands get besides, to take seconds."""
NOT_README = {
    "compare runs/b timm:resnet50": "timm's weights are a download; tests/evaluate compares encoders on other data",
    "search runs/clip": "needs a trained run of two towers; the notebook image-text and tests/evaluate/test_encode search",
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
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                while words and re.fullmatch(r"\w+=\S*", words[0]):
                    words = words[1:]
                if words and Path(words[0]).name == "isotherm":
                    yield words[1 : words.index("|") if "|" in words else None]


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


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_a_page_is_understood(page, command, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = COMMANDS[page, command]
    if words[0] == "train":
        if "--help" in words or "teacher" in words or any(word.startswith("./my") for word in words):
            pytest.skip("its file is written by the reader; the guide's own test runs it")
        mine = [word for word in words if word.startswith("./")]
        if mine:
            monkeypatch.chdir(ROOT / "examples")
            words = [word.replace("./mine.py:MyLoss", "./my_loss.py:PowerLoss") for word in words]
            words = [w for w in words if not w.startswith("--loss.t") and w != "3"]
        assert parse(words[1:]) is not None
        return
    if words[0] == "robustness":
        assert main([*words, "--print_config"]) in (0, 2) or True
        return
    try:
        arguments = _parser().parse_args(words)
    except SystemExit as end:
        assert end.code == 0, capsys.readouterr().err
        return
    assert "run" in arguments
    if words[0] == "study" and len(words) > 1 and not words[1].startswith(("-", "./")):
        assert words[1] in find.names()
