"""The monitor as a callback of PyTorch Lightning; our losses need nothing: call them in `training_step`.

It belongs to the Lightning that is imported already: `lightning` or `pytorch_lightning`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from isotherm.monitor import Monitor

__all__ = ["MonitorCallback"]


def _callback_class() -> Any:
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).Callback
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name.partition(".")[0]):
                raise
    raise ModuleNotFoundError("isotherm.integrations.lightning needs lightning 2 or later: pip install lightning.")


class MonitorCallback(_callback_class()):  # type: ignore[misc]
    """Logs what the embeddings of each step are like, and warns when they collapse.

    `training_step` returns ``{"loss": loss, "embeddings": (z0, z1)}``; on each step that the monitor looks at, its
    numbers are logged as ``PREFIX/uniformity`` and so on. Its place is part of the trainer's checkpoint.
    """

    def __init__(self, monitor: Monitor | None = None, key: str = "embeddings", prefix: str = "monitor") -> None:
        super().__init__()
        self.monitor = Monitor() if monitor is None else monitor
        self.key, self.prefix = key, prefix

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if not isinstance(outputs, dict) or self.key not in outputs:
            came = ", ".join(map(str, outputs)) if isinstance(outputs, dict) else f"a {type(outputs).__name__}"
            if isinstance(outputs, dict) and list(outputs) == ["loss"]:  # as Lightning hands on what was a tensor, too
                came = "the loss alone"
            raise ValueError(
                f'training_step must return {{"loss": …, "{self.key}": (z0, z1)}} for the monitor to see; got {came}.'
            )
        views = outputs[self.key]
        status = self.monitor(*(views if isinstance(views, list | tuple) else (views,)))
        if status:
            pl_module.log_dict({f"{self.prefix}/{name}": value for name, value in status.items()})

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.monitor.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.monitor.step = state_dict["step"]
