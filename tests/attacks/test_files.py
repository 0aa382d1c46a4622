"""Damaged files: a sentence and exit code 2, or a result. The same damage in every run; `make fuzz` looks further."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from attack import attack, whole
from edits import edits
from targets import TARGETS

EXAMPLES = 24
"""Of a quick target; together about a minute."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what libraries say of broken files
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_a_damaged_file_is_a_sentence_or_a_result(target, tmp_path):
    folder = tmp_path / "here"
    whole(target, folder)

    @settings(
        max_examples=max(3, EXAMPLES // target.cost),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )
    @given(way=st.integers(0, len(target.ways) - 1), changes=edits)
    def once(way, changes):
        attack(target, folder, way, changes)

    once()
