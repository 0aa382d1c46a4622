"""Hugging Face's transformers: imported when it is needed, and kept quiet."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from isotherm import extras

PANIC = "PanicException"
"""What tokenizers raises where it fails in a way nobody thought of: no Exception, and no class that can be named."""


def library() -> Any:
    """transformers, or one sentence on why not."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # else it warns whenever a process starts another
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise ValueError(f"text encoders need {error.name}, which is not installed.") from error
        raise ValueError(f"text encoders need transformers: {extras.command('text')}.") from error


@contextmanager
def quietly() -> Iterator[None]:
    """transformers and the hub without bars, reports and advice; a panic of what is Rust in them is an error."""
    transformers = library()
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    hub = logging.getLogger("huggingface_hub")
    of_hub = hub.level
    log.set_verbosity_error()
    log.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BaseException as error:
        if type(error).__name__ == PANIC:
            raise RuntimeError(str(error)) from error
        raise
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
        hub.setLevel(of_hub)
