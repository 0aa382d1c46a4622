"""Small problems run fastest on one thread, and pytest-xdist brings a process per core."""

import os

import pytest
import torch

pytest.register_assert_rewrite("small_text")  # a plugin of fixtures, whose constants tests import as well

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
