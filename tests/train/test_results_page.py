"""docs/results/README.md and what there is: its commands are understood, and every table of a preset has its row."""

import itertools
import re
from pathlib import Path

import pytest

from isotherm.evaluate.images import PROBES
from isotherm.evaluate.sentences import PROBES as OF_SENTENCES
from isotherm.experiments import find
from isotherm.train.commandline import parse
from isotherm.train.presets import PAPERS, PRESETS

PAGE = (Path(__file__).parents[2] / "docs/results/README.md").read_text(encoding="utf-8")
SECTIONS = dict(zip(PAPERS, re.split(r"^## ", PAGE, flags=re.MULTILINE)[2:], strict=True))
"""After the head, and what its tables say."""
ROWS = {
    paper: [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| ")]
    for paper, section in SECTIONS.items()
}


def spans(text):
    return re.findall(r"`([^`]+)`", text)


def expanded(word):
    """a-{b,c}-d as a-b-d and a-c-d."""
    parts = [part.split(",") for part in re.split(r"[{}]", word)]
    return ["".join(choice) for choice in itertools.product(*parts)]


COMMANDS = sorted({s.removeprefix("isotherm ") for s in spans(PAGE) if re.match(r"(isotherm )?train -", s)})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_trains_is_understood(command):
    words = command.split()[1:]
    if words[-1].endswith("-"):  # the rows' endings: below
        return
    for preset in expanded(words[1]) if words[0] == "--preset" else [""]:
        argv = [words[0], preset, *words[2:]] if preset else words
        config, *_ = parse(argv)
        assert config.method.name


def test_nothing_is_left_for_later():
    assert not re.search(r"not done|to come\b", PAGE, re.IGNORECASE)


OTHERS = ("cacr-cifar", "linear-groups")
"""A recipe, and a kind of imbalance."""


def test_names_and_endings_beside_a_preset_are_presets():
    """`cacr-cifar10` with `-cl` is cacr-cifar10-cl, `swav-imagenet-` with `100` swav-imagenet-100."""
    count = 0
    for row in (row for rows in ROWS.values() for row in rows if "train --preset" in row[-2]):
        words = [w for s in spans(row[-2]) for w in ([s] if " " not in s else re.findall(r"--preset (\S+)", s))]
        stems = [w for w in words if re.fullmatch(r"[a-z][a-z0-9-]*-", w)]
        whole = [w for w in words if re.fullmatch(r"[a-z][a-z0-9.{},-]*-[a-z0-9.{},-]*[a-z0-9}]", w)]
        names = [n for w in whole for n in expanded(w) if n not in OTHERS]
        assert [n for n in names if n not in PRESETS and not any(s + n in PRESETS for s in stems)] == []
        for ending in (w for w in words if re.match("-[^-]", w)):
            family = {n.split("-")[0] for n in (*names, *stems)}
            assert any(n.split("-")[0] in family and n.endswith(ending) for n in PRESETS), ending
        count += len(names)
    assert count > 80


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_that_a_preset_is_for_has_a_row_with_a_command(paper):
    with_command = set()
    for item, *_, command, _outcome in ROWS[paper]:
        if "`" in command:
            numbers = re.sub(r"(, )(?=[A-Z]?\.?\d)", ", Table ", item)
            with_command |= set(re.findall(r"Table [A-Z]?\.?\d+", numbers))
    tables = {t for p in PRESETS.values() if p.paper == paper for t in p.tables if t.startswith("Table")}
    assert tables - with_command == set()


def test_studies_and_probes_of_the_page_are_there():
    for span in spans(PAGE):
        for name in re.findall(r"\bstudy ([a-z-]+)", span):
            assert find.load(name)
        for name in re.findall(r"--probe ([a-z-]+)", span):
            assert name in (*PROBES, *OF_SENTENCES), span
