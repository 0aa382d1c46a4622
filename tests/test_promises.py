"""docs/promises.md: every test that is named there exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROMISES = (ROOT / "docs/promises.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test_and_every_test_named_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PROMISES)
    assert len(named) > 30
    for path, test in named:
        assert (ROOT / path).is_file(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"
    for row in re.findall(r"^\| (?!promise|---)(.*) \|$", PROMISES, re.MULTILINE):
        assert "`tests/" in row or "the same" in row, row


def test_the_way_to_report_a_hole_is_said():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "Report a vulnerability" in text
    assert "docs/promises.md#files" in text
