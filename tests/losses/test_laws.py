"""The laws on every loss there is, and on losses that break them: a law that cannot fail proves nothing."""

import re

import pytest
import torch

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


@pytest.mark.slow
def test_isotherm_check_prints_the_proof(capsys):
    assert main(["check", "SimpleContrastiveLoss"]) == 0
    said = capsys.readouterr().out
    assert "no law broken" in said
    assert all(law in said for law in laws.LAWS)
