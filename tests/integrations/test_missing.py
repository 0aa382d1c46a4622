"""Without the library that an example is about, the error names the extra that brings it."""

import sys

import pytest

from peers import example


def test_an_example_without_its_library_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightly", None)  # as if it were not installed
    with pytest.raises(ModuleNotFoundError, match=r"^this needs lightly: pip install .*\[peers\]"):
        example("lightly_loss.py")
