"""Figures of studies: from records to charts. Its modules load when a figure is drawn, not when a study is listed."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotherm.experiments.figures import curves, portraits

__all__ = ["curves", "portraits"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return importlib.import_module(f"{__name__}.{name}")
