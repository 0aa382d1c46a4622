"""`isotherm bench step`: the profile that `make gpu-check` makes on a GPU, here of the processor and at a tiny size."""

import json

import pytest
import torch
from torch import nn

from isotherm.bench import step
from isotherm.cli import main

TINY = ["--network", "convnet", "--size", "16", "--batch", "4", "--rounds", "2"]


def test_every_stage_and_the_longest_operations_are_told(tmp_path, capsys):
    assert main(["bench", "step", *TINY, "--json", str(tmp_path / "step.json")]) == 0
    told = capsys.readouterr().out
    for words in (*step.STAGES, "aten::", "launches", "waits", "in kernels"):
        assert words in told
    written = json.loads((tmp_path / "step.json").read_text())
    assert set(written["stages"]) == set(step.STAGES)
    assert all(seconds > 0 for seconds in written["stages"].values())
    assert written["machine"]["torch"] == torch.__version__
    times = [kernel["seconds"] for kernel in written["kernels"]]
    assert times == sorted(times, reverse=True)
    assert written["launches"] == pytest.approx(sum(kernel["calls"] for kernel in written["kernels"]))
    convolutions = next(k for k in written["kernels"] if k["name"] == "aten::convolution")
    layers = sum(isinstance(m, nn.Conv2d) for m in step._Step(torch.device("cpu"), "convnet", 4, 16).network.modules())
    assert convolutions["calls"] == layers


def test_a_step_in_stages_has_the_gradients_of_a_step():
    ours = step._Step(torch.device("cpu"), "convnet", 4, 16)
    ours.network.eval()
    ours.optimizer.step = lambda: None
    ours.stages()
    views = ours.network(torch.cat(ours.recipe(ours.pixels, ours.ids)))
    wanted = torch.autograd.grad(ours.loss(views[:4], views[4:]), list(ours.network.parameters()))
    for parameter, gradient in zip(ours.network.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_a_step_that_asks_the_device_is_counted(monkeypatch):
    quiet = step.run("cpu", "convnet", 4, 16, 1, lambda stage, what: None)
    monkeypatch.setattr(step, "NTXentLoss", lambda: lambda a, b: (a * b).sum() * (1.0 + (a * b).sum().item() * 0))
    asking = step.run("cpu", "convnet", 4, 16, 1, lambda stage, what: None)
    assert asking.waits >= 1
    assert quiet.waits != asking.waits


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_says_so_in_one_sentence(capsys):
    assert main(["bench", "step", "--device", "cuda"]) == 2
    assert capsys.readouterr().err.strip() == (
        "isotherm: this machine has no CUDA device; `isotherm bench step --device cpu` profiles its processor."
    )


def test_an_encoder_that_is_not_there_is_named(capsys):
    assert main(["bench", "step", "--network", "resnet19"]) == 2
    said = capsys.readouterr().err.strip()
    assert "resnet19" in said
    assert len(said.splitlines()) == 1
