"""Small problems run fastest on one thread, and pytest-xdist brings a process per core."""

import os

import pytest
import torch

from isotherm import doors

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)


@pytest.fixture
def nobody_is_trusted(monkeypatch):
    """Nobody's code was allowed to run by a test before."""
    monkeypatch.setattr(doors, "_allowed", set())
