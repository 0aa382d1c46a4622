"""Other people's libraries, where they are installed and import; a test that needs one skips itself otherwise."""

import contextlib
import importlib
import runpy
import warnings
from pathlib import Path

import pytest

from isotherm.bench.rivals import torchvision_that_imports

EXAMPLES = Path(__file__).parents[1] / "examples"


def library(name):
    """The module, or a skip that says why."""
    with contextlib.suppress(ModuleNotFoundError):
        torchvision_that_imports()  # which most of them import, and which may miss an operator of this torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except Exception as error:
            pytest.skip(f"{name} does not import here: {type(error).__name__}: {error}", allow_module_level=True)


def example(name):
    """What `main` of an example gives."""
    return runpy.run_path(str(EXAMPLES / name))["main"]
