"""The workbench for contrastive representation learning.

>>> import torch, isotherm
>>> loss = isotherm.nn.NTXentLoss(temperature=0.1)          # 22 losses: isotherm.nn, `isotherm losses`
>>> value = loss(torch.randn(64, 128), torch.randn(64, 128))  # two views, not normalized; any batch size fits in memory
>>> isotherm.measures.uniformity(torch.randn(64, 128)) < -3   # what a loss did to an embedding
True

========================  ======================================================================================
`isotherm.nn`             the losses as modules: ``loss(z0, z1, *more_views, negatives=None)``
`isotherm.temperature`    numbers, schedules, and temperatures that depend on the similarity
`isotherm.measures`       uniformity, tolerance, alignment, … of embeddings (N, D)
`isotherm.pairing`        who is compared with whom
`isotherm.engine`         sums over rows of similarities that are never stored: what a loss of your own is made of
========================  ======================================================================================

The rest is the workbench, and mostly used from the command line (``isotherm --help``): `train`, `evaluate`, `inspect`,
`study`, `check`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotherm import engine, losses, measures, nn, pairing, temperature

__version__ = "0.1.0"
__all__ = ["engine", "losses", "measures", "nn", "pairing", "temperature"]


def __getattr__(name: str) -> object:
    """A module of the public face, imported when it is first asked for: `import isotherm` alone imports no torch."""
    if name in __all__:
        return importlib.import_module(f"isotherm.{name}")
    raise AttributeError(f"module 'isotherm' has no attribute '{name}'; it has: {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
