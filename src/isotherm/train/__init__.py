"""One loop for every method, on any device; a run is a folder. In Python: ``isotherm.train("runs/a", epochs=6)``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from isotherm import extras

if TYPE_CHECKING:
    from isotherm.train.trained import Trained


class Train(ModuleType):
    """This module, which can be called (docs/decisions/0029)."""

    def __call__(self, out: str | Path, preset: str | None = None, **settings: Any) -> Trained:
        """Train in the folder `out` and give what came of it; a run that is there already is taken or resumed.

        >>> run = isotherm.train("runs/a", data="digits", loss="NTXentLoss", epochs=6)
        >>> run = isotherm.train("runs/b", loss=isotherm.nn.DySTreSSLoss(tau_max=0.3), method="simclr", seed=1)
        >>> run.measures["knn"], run.encoder, run.inspect()

        The settings are those of `isotherm train --help`; a part (loss, encoder, head, predictor, method) is a name,
        ``{"name": …, setting: …}``, or, of a loss, one of `isotherm.nn` with plain settings. `preset` is one of
        `isotherm presets`, under them.
        """
        with extras.named():
            from isotherm.train.trained import train  # noqa: PLC0415 - torch, and the extra `lab`

            return train(out, preset, settings)


sys.modules[__name__].__class__ = Train
