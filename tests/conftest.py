"""Small problems run fastest on one thread, and pytest-xdist brings a process a core."""

import os

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # workers of studies take several threads, which else wait at work

os.environ.pop("COLUMNS", None)  # pytest-xdist gives its processes 80: tables are as wide as without a terminal

import torch

from isotherm import doors

pytest.register_assert_rewrite("small_text")  # a plugin of fixtures, whose constants tests import as well
torch.set_num_threads(1)


@pytest.fixture
def nobody_is_trusted(monkeypatch):
    """Nobody's code was allowed to run by a test before."""
    monkeypatch.setattr(doors, "_allowed", set())
