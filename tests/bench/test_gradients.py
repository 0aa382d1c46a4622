"""Two processes against one: ours exact, and the common mistakes seen as such."""

import pytest
import torch.distributed as dist

from isotherm.bench import gradients


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")
def test_ours_are_exact_on_two_processes_and_plain_ways_are_not(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    errors = gradients.run(lambda *said: None)
    ours = [e for e in errors if e.way.ours]
    assert len(ours) == 10
    assert max(max(e.value, e.gradient) for e in ours) <= 1e-6
    assert gradients.targets(errors)[0].met
    local, constant, scaled = (e for e in errors if e.way.library == "plain PyTorch")
    assert local.value > 0.05
    assert constant.value < 1e-6
    assert constant.gradient > 0.1
    assert scaled.gradient == pytest.approx(0.5)
    table = gradients.markdown(errors)
    assert all(f"| {e.way.objective} |" in table for e in errors)
