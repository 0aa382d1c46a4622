"""The workbench for contrastive representation learning.

>>> import torch, isotherm
>>> loss = isotherm.nn.NTXentLoss(temperature=0.1)          # every loss: isotherm.nn, `isotherm losses`
>>> value = loss(torch.randn(64, 128), torch.randn(64, 128))  # two views, not normalized; any batch size fits in memory
>>> isotherm.measures.uniformity(torch.randn(64, 128)) < -3   # what a loss did to an embedding
True

========================  ======================================================================================
`isotherm.nn`             the losses as modules: ``loss(z0, z1, *more_views, negatives=None, weights=None)``
`isotherm.temperature`    numbers, schedules, and temperatures that depend on the similarity
`isotherm.measures`       uniformity, tolerance, alignment, … of embeddings (N, D), tensors or arrays
`isotherm.Monitor`        in a loop of your own: is it collapsing? ``status = monitor(z0, z1)``
`isotherm.cached`         in a loop of your own: a batch too large for memory, ``cached(loss, encoder)(x0, x1)``
`isotherm.Queue`          in a loop of your own: keys of past steps as negatives; `MomentumCopy` makes them
`isotherm.inspect`        is an embedding healthy? ``isotherm.inspect(array, labels)``
`isotherm.train`          any method, any loss: ``run = isotherm.train("runs/a", data="digits", epochs=6)``
`isotherm.load_encoder`   the encoder of a run: ``isotherm.load_encoder("runs/a")``
`isotherm.integrations`   the losses and the monitor in other people's trainers, one module per library
`isotherm.pairing`        who is compared with whom
`isotherm.engine`         sums over rows of similarities that are never stored: what a loss of your own is made of
========================  ======================================================================================

`train` and the pages need the extra ``lab``; the rest stands on torch and numpy. The rest of the workbench is mostly
used from the command line (``isotherm --help``): `evaluate`, `compare`, `study`, `check`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotherm import engine, inspect, integrations, losses, measures, nn, pairing, temperature, train
    from isotherm.gradient_cache import cached
    from isotherm.momentum import MomentumCopy, Queue
    from isotherm.monitor import Monitor
    from isotherm.train.runs import load_encoder

__version__ = "0.1.0"
__all__ = [
    "MomentumCopy",
    "Monitor",
    "Queue",
    "cached",
    "engine",
    "inspect",
    "integrations",
    "load_encoder",
    "losses",
    "measures",
    "nn",
    "pairing",
    "temperature",
    "train",
]
_ELSEWHERE = {
    "MomentumCopy": "momentum",
    "Monitor": "monitor",
    "Queue": "momentum",
    "cached": "gradient_cache",
    "load_encoder": "train.runs",
}
"""The modules of what is no module itself."""


def __getattr__(name: str) -> object:
    """A part of the public face, imported when it is first asked for: `import isotherm` alone imports no torch."""
    if name in __all__:
        from isotherm import extras  # noqa: PLC0415 - it reads what is installed

        with extras.named():
            module = importlib.import_module(f"isotherm.{_ELSEWHERE.get(name, name)}")
        return getattr(module, name) if name in _ELSEWHERE else module
    from isotherm.checks import did_you_mean  # noqa: PLC0415 - for the mistaken only

    raise AttributeError(f"module 'isotherm' has no attribute '{name}'{did_you_mean(name, __all__, lead='it has')}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
