"""The laws on every loss there is, and on losses that break them: a law that cannot fail proves nothing."""

import re
from pathlib import Path

import pytest
import torch

import isotherm
from found import LOSSES
from isotherm.cli import main
from isotherm.losses import laws
from isotherm.nn import Loss, NTXentLoss

ELSEWHERE = {"oracle": "test_oracles compares with tests/oracles.py", "processes": "test_world takes all at once"}


def test_exemptions_name_losses_and_laws_that_exist():
    assert {name for _, name in laws.EXEMPT} <= set(LOSSES)
    assert {law for law, _ in laws.EXEMPT} | ELSEWHERE.keys() <= laws.LAWS.keys()


def every_law_and_loss():
    """All of them; those of memory, which take thousands of rows, are slow but for one loss."""
    for law in laws.LAWS:
        for name in LOSSES if law not in ELSEWHERE else ():
            slow = law == "memory" and name != "NTXentLoss"
            yield pytest.param(law, name, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("law", "name"), list(every_law_and_loss()))
def test_the_law_holds(law, name):
    outcome = laws.judge(law, laws.Maker(LOSSES[name]))
    assert outcome.verdict != "broken", outcome.detail
    if outcome.verdict == "not applicable":
        assert law == "per query"
        assert "has no value per query" in outcome.detail


@pytest.mark.parametrize("name", LOSSES)
def test_the_docstring_names_paper_and_equation(name):
    doc = LOSSES[name].__doc__
    assert "arXiv:" in doc
    assert any(mark in doc for mark in ("eq.", "§", "Table"))


class Dense(NTXentLoss):
    """Computed with the whole matrix.

    It stands for what people write: .. math:: x. arXiv:0. Fixed points: none.
    """

    def forward(self, a, b):
        z = torch.nn.functional.normalize(torch.cat([a, b]), dim=1)
        s = (z @ z.T / self.temperature).fill_diagonal_(-torch.inf)
        n = len(a)
        return torch.nn.functional.cross_entropy(s, torch.arange(2 * n).roll(n))


class Wrong(Loss):
    """Sums what should be averaged."""

    def per_query(self, pairs):
        rank = torch.arange(len(pairs.positives))[:, None]
        return (pairs.positives.detach() * rank - pairs.positives * pairs.positives.detach()).sum(1) / 0.0


@pytest.mark.parametrize(
    ("kind", "law", "words"),
    [
        (Dense, "memory", "for backward"),
        (Dense, "order", "TypeError"),
        (Dense, "extremes", "torch.float16"),
        (Dense, "autocast", "under autocast"),
        (Wrong, "extremes", "is (inf|nan|-inf)"),
        (Wrong, "gradient", "2 views: "),
        (Wrong, "docstring", "lacks an equation"),
    ],
)
def test_a_law_can_fail(kind, law, words):
    outcome = laws.judge(law, laws.Maker(kind))
    assert outcome.verdict == "broken"
    assert re.search(words, outcome.detail), outcome.detail


MEAN = """from isotherm.nn import Loss
class Mean(Loss):
    \"\"\"x\"\"\"
    def per_query(self, pairs):
        return (1 - pairs.positives).mean()
"""


@pytest.mark.filterwarnings("ignore")
def test_a_loss_that_takes_the_mean_itself_is_told_so_once(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(MEAN)
    words = [word for law in ("order", "processes", "per query") for word in ("--law", law)]
    assert main(["check", f"{tmp_path / 'mine.py'}:Mean", *words]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("Mean.per_query must give one value per query, shape (queries,); it gave shape ()") == 1
    assert said.count("as above") == 2
    assert "Traceback" not in said


@pytest.mark.slow
def test_isotherm_check_prints_the_proof(capsys):
    assert main(["check", "SimpleContrastiveLoss"]) == 0
    said = capsys.readouterr().out
    assert "no law broken" in said
    assert all(law in said for law in laws.LAWS)


@pytest.mark.slow
def test_a_loss_in_a_file_is_checked_against_its_oracle(capsys, tmp_path):
    example = Path(__file__).parents[2] / "examples/my_loss.py"
    assert main(["check", f"{example}:PowerLoss"]) == 0
    assert "not applicable" not in capsys.readouterr().out
    wrong = tmp_path / "with a space.py"
    wrong.write_text(example.read_text().replace("0.01) ** power", "0.02) ** power"))
    assert main(["check", f"{wrong}:PowerLoss", "--law", "oracle"]) == 1
    assert "the oracle says" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("import nothing_there", "A", "does not import: line 1: ModuleNotFoundError: No module named 'nothing_there'."),
        ("x = 1", "A", "has no 'A'; it has: x."),
        ("A = 3", "A", "is no loss: a class that extends isotherm.nn.Loss is wanted, got a int."),
        ("class A: pass", "A", "is no loss"),
        ("import sys; sys.exit(3)", "A", "ends the program when it is imported (exit 3)."),
        ("def f(:", "A", "does not import: line 1: SyntaxError"),
        ("print('hello'); 1 / 0", "A", "does not import: line 1: ZeroDivisionError: division by zero."),
    ],
)
def test_a_file_with_a_mistake_gets_one_line(capsys, tmp_path, text, name, words):
    (tmp_path / "mine.py").write_text(text)
    assert main(["check", f"{tmp_path / 'mine.py'}:{name}"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert "Traceback" not in said.err


def test_the_only_loss_of_a_file_is_taken_and_several_are_named(capsys, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("from isotherm.nn import Loss, NTXentLoss\nclass A(NTXentLoss):\n    pass\n")
    assert laws.Maker.of(str(mine)).name == f"{mine}:A"
    mine.write_text(f"{mine.read_text()}class B(NTXentLoss):\n    pass\n")
    with pytest.raises(ValueError, match=r"has several losses; name one: .*:A, .*:B\."):
        laws.Maker.of(str(mine))


def test_a_schedule_given_to_a_loss_is_told_how_to_be_given():
    with pytest.raises(TypeError, match=r"a loss takes its value in one: schedule\.at\(epoch\)"):
        isotherm.nn.NTXentLoss(isotherm.temperature.CosineSchedule(0.1, 0.5, 10))
