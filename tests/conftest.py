"""Small problems run fastest on one thread, and pytest-xdist brings a process per core."""

import os

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # workers of studies take several threads, which else wait at work

import torch

pytest.register_assert_rewrite("small_text")  # a plugin of fixtures, whose constants tests import as well
torch.set_num_threads(1)
