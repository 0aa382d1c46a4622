"""The monitor in Lightning's trainer: the real library."""

import pytest

from isotherm import Monitor
from peers import example, library

library("lightning.pytorch")

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_example_trains_and_logs_what_the_monitor_sees():
    monitor = example("lightning_simclr.py")()
    assert [status.step for status in monitor.history] == [0, 5, 10, 15, 20, 25]
    assert monitor.history[-1]["uniformity"] < monitor.history[0]["uniformity"]
    assert {"alignment", "lidar", "rankme", "alpha_req"} <= set(monitor.history[-1])


def test_the_numbers_reach_the_logger_and_the_checkpoint_keeps_the_place():
    from isotherm.integrations.lightning import MonitorCallback  # noqa: PLC0415 - needs the library

    logged = {}

    class Module:
        def log_dict(self, values):
            logged.update(values)

    import torch  # noqa: PLC0415

    callback = MonitorCallback(Monitor(every=2))
    for _ in range(3):
        callback.on_train_batch_end(None, Module(), {"loss": 1, "embeddings": torch.randn(2, 30, 8).unbind(0)}, None, 0)
    assert {"monitor/uniformity", "monitor/alignment", "monitor/effective_rank"} <= set(logged)
    again = MonitorCallback(Monitor(every=2))
    again.load_state_dict(callback.state_dict())
    assert again.monitor.step == 3
    for outputs, came in (
        ({"loss": 1}, "the loss alone"),
        (torch.ones(()), "a Tensor"),
        ({"loss": 1, "z": 2}, "loss, z"),
    ):
        with pytest.raises(ValueError, match=rf"training_step must return .* for the monitor to see; got {came}\.$"):
            callback.on_train_batch_end(None, Module(), outputs, None, 0)
