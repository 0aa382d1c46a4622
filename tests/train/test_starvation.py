"""A run says that it is being starved: by the kernel's own clock, once, and only when it is true."""

import pytest

from isotherm.train import starvation
from isotherm.train.starvation import Starvation


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """A schedstat file and a wall clock that the test moves: (seconds in line, seconds passed)."""
    now = [0.0]
    monkeypatch.setattr(starvation.time, "monotonic", lambda: now[0])
    path = tmp_path / "schedstat"

    def move(in_line, passed):
        now[0] += passed
        before = int(path.read_text().split()[1]) if path.exists() else 0
        path.write_text(f"0 {before + int(in_line * 1e9)} 1\n")
        return path

    return move


def test_a_run_that_stands_in_line_says_so_once(clock):
    watch = Starvation(clock(0, 0))
    clock(9, 10)
    assert watch.complaint() == ""  # too soon to tell
    clock(9, 15)
    assert "stands in line for a core 72% of the time" in watch.complaint()
    clock(30, 30)
    assert watch.complaint() == ""


def test_a_run_with_a_core_of_its_own_says_nothing(clock):
    watch = Starvation(clock(0, 0))
    for _ in range(5):
        clock(3, 25)
        assert watch.complaint() == ""


def test_elsewhere_nothing_is_said(clock, tmp_path):
    watch = Starvation(tmp_path / "none")
    clock(100, 100)
    assert watch.complaint() == ""
