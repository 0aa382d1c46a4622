"""The monitor as a callback of the trainers of transformers and sentence-transformers."""

from __future__ import annotations

from typing import Any

from isotherm.monitor import Monitor, Status

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "isotherm.integrations.trainer_callback needs transformers: pip install 'isotherm[text]'."
    ) from error

__all__ = ["MonitorCallback"]


class MonitorCallback(TrainerCallback):
    """Logs what the embeddings of a step are like beside the loss, and warns when they collapse.

    `source` is the `ContrastiveModel` or `SentenceTransformerLoss` that is trained: it remembers the views of its last
    batch. At each log of the trainer the monitor's last numbers go into `log_history` and to the callbacks after this
    one as ``monitor_uniformity`` and so on.
    """

    def __init__(self, source: Any, monitor: Monitor | None = None) -> None:
        if not hasattr(source, "seen"):
            raise TypeError(
                f"the monitor looks at a ContrastiveModel or SentenceTransformerLoss, got {type(source).__name__}."
            )
        self.source = source
        self.monitor = Monitor() if monitor is None else monitor
        self.last: Status | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Look at the step's last batch."""
        if self.source.seen:
            status = self.monitor(*self.source.seen)
            if status is not None:  # that of a diverged batch has no numbers, and those before it are not its own
                self.last = status

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Add the numbers to a log of training."""
        if self.last is None or not logs or "loss" not in logs:
            return
        numbers = {f"monitor_{name}": value for name, value in self.last.items()}
        logs.update(numbers)
        if state.log_history:
            state.log_history[-1].update(numbers)
