"""Small problems run fastest on one thread, and pytest-xdist brings a process per core."""

import os

import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
