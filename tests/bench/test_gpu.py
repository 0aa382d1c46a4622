"""The table of `isotherm bench losses --device cuda`, by this machine's processor and at a tiny size."""

import math

import pytest
import torch

from isotherm.bench import gpu
from isotherm.cli import bench, main, terminal
from isotherm.losses import catalogue


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_says_so_in_one_sentence(capsys):
    assert main(["bench", "losses", "--device", "cuda"]) == 2
    assert capsys.readouterr().err.strip() == (
        "isotherm: this machine has no CUDA device; `isotherm bench losses` measures its processor."
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # whatever a rival says
def test_the_whole_table_by_the_processors_clock(capsys):
    meter = gpu.Processor()
    rows = gpu.run(meter, (16,), 2, lambda stage, what: None)
    ours = {row.name: row for row in rows if row.path == "plain"}
    assert set(ours) == {entry.name for entry in catalogue.losses()}
    for row in ours.values():
        if row.why_not:
            assert row.name == "WMSELoss", row  # it takes more items than an embedding has numbers
            continue
        assert row.tile == 512
        assert 0 < row.seconds < 60
        assert row.launches > 5
        if row.name != "GeneralizedContrastiveLoss":  # which draws samples of a prior
            assert row.gradient_error < 1e-3, row
        assert math.isclose(row.tflops * 1e12 * row.seconds, 6 * 128 * 32**2)
        assert row.roofline > 0
    named = {row.name: row for row in rows if row.path == "rival"}
    assert set(named) == set(gpu.RIVALS)
    assert not named["dense"].why_not
    assert named["dense"].gradient_error < 1e-4
    assert "ModuleNotFoundError" in named["Inf-CL, one direction"].why_not
    assert torch.get_float32_matmul_precision() == "highest"
    bench.show_gpu(terminal.console(), meter.facts(), rows)
    printed = capsys.readouterr().out
    assert "NTXentLoss" in printed
    assert "precision: highest" in printed


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_is_nt_xent():
    z = [torch.randn(12, 16) for _ in range(2)]
    with torch.no_grad():
        torch.testing.assert_close(gpu.rivals.flex(*z), gpu.rivals.dense(*z))
