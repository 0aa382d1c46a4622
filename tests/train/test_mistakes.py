"""Methods, losses and batches that do not go together: one sentence that says why and what to use, and exit code 2."""

import re

import pytest

from isotherm.cli import main
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train

PAIRS = {
    "swav NTXentLoss": "'swav' has its own objective and takes no loss, got NTXentLoss; leave it out, or .* simclr",
    "dino BYOLLoss": "'dino' has its own objective and takes no loss, got BYOLLoss; .* use --method byol or simsiam",
    "supervised SupConLoss": "'supervised' has its own objective and takes no loss, got SupConLoss; .*--method supcon",
    "byol NTXentLoss": "BYOL predicts one view.*BYOLLoss or SimSiamLoss, not NTXentLoss. .*--method simclr or mocov3",
    "simsiam CACRLoss": "SimSiam predicts one view.*not CACRLoss. For that one use --method simclr or mocov3",
    "bank WMSELoss": "a memory bank compares with its .* but WMSELoss compares no items; use --method simclr",
    "mocov2 ZeroCLLoss": "MoCo v2 compares with its queue, but ZeroCLLoss compares no items; use --method simclr",
    "mocov3 ARBLoss": "MoCo v3 compares with the keys of its .* ARBLoss compares no items; use --method simclr",
    "nnclr BYOLLoss": "NNCLR compares with the predictions.*BYOLLoss compares no items; use --method byol or simsiam",
    "mocov2 SupConLoss": "MoCo v2 compares with its queue, but SupConLoss takes its positives.*; use --method supcon",
    "wmse NTXentLoss": "'wmse' is WMSELoss in the batch, and with NTXentLoss it would be .* use --method simclr",
    "zerocl WMSELoss": "'zerocl' is ZeroCLLoss in the batch, and with WMSELoss it would be .* use --method simclr",
    "simclr BYOLLoss": "BYOLLoss without a predictor or a slow copy makes all .* use --method byol or simsiam",
}
OTHERS = {
    "--method wmse --batch 64": "WMSELoss whitens 64 items at a time, .* got 64. Use a larger batch, or a narrower",
    "--method wmse --loss.size 20": "whitens 21 items at a time, .* got 64. Use a larger batch or size, or a narrower",
    "--method zerocl --batch 1": "at least 2 items are needed, got 1. Use a larger batch",
    "--method swav --method.prototypes 65": "cannot place 64 items among 65 prototypes: .* Use --method.prototypes 6",
    "--method dino --method.prototypes 99": "DINO cannot place 64 items among 99 prototypes",
    "--method fnc --views 3 --loss.support 4": r"support=4 needs 6 views of each item.*got 3. Give 6 \(--views 6\)",
    "--views 1": "method 'simclr' needs 2 or more views of each item, got 1: say --views 2",
    "--method wmse --views 1": "method 'wmse' needs 2 or more views of each item, got 1",
    "--method fnc --views 1": "method 'fnc' needs 2 or more views of each item, got 1",
}
CASES = {f"--method {pair.replace(' ', ' --loss ')}": why for pair, why in PAIRS.items()} | OTHERS


@pytest.mark.parametrize("words", CASES)
def test_what_does_not_go_together_is_told_in_a_sentence(words, tmp_path, capsys):
    length = ["--images", "64", "--epochs", "1", "--monitor", "0", "--quiet"]
    length += [] if "--batch" in words else ["--batch", "64"]
    assert main(["train", *words.split(), *length, "--out", str(tmp_path / "a")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(CASES[words], said), said
    assert "Traceback" not in said
    assert not (tmp_path / "a" / "result.json").exists()


@pytest.mark.parametrize("queue", [40, 10_000])
def test_a_queue_that_is_never_full_is_no_mistake(queue, tmp_path):
    """SwAV waits for its queue, NNCLR searches what there is, MoCo begins with random directions."""
    shared = {"images": 64, "batch": 32, "epochs": 1, "monitor": 0, "encoder.widths": [4], "method.queue": queue}
    for method, own in {"swav": {"method.queue_start": 0.0}, "nnclr": {}, "mocov2": {}}.items():
        result = train(configure({**shared, "method": method, **own}), Runtime(out=tmp_path / method, quiet=True))
        assert result.steps == 2
