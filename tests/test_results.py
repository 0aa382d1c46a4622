"""The results as they are told: a verdict in a text is the one that was published, and its link leads there."""

import csv
import re

import pytest

from test_package import ROOT

RESULTS = ROOT / "docs/results"
PAGES = sorted(RESULTS.glob("*.md"))
TOLD = re.compile(r"\[\*\*(held|contradicted|undecided)\*\*\]\(([\w/.-]+)#claim-(\d+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_verdict_that_is_told_is_the_published_one(page):
    for told, place, number in TOLD.findall(page.read_text()):
        published = (page.parent / place).resolve()
        assert f'<a id="claim-{number}"></a>' in published.read_text(), f"{place} has no claim {number}"
        with published.with_name("claims.csv").open(newline="") as file:
            claim = list(csv.DictReader(file))[int(number) - 1]
        assert claim["verdict"] == told, f"{page.name}: {claim['claim']}"


def test_the_head_of_the_results_tells_verdicts():
    assert len(TOLD.findall((RESULTS / "README.md").read_text())) > 20
