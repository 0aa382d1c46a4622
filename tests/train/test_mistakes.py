"""Methods, losses, batches and settings that do not go together: a sentence says why and what to use."""

import re

import pytest
import yaml

from isotherm.cli import main
from isotherm.methods.build import METHODS
from isotherm.train.build import build
from isotherm.train.commandline import configure, parse
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
SCHEDULE = '{"name":"CosineSchedule","tau_min":0.1,"tau_max":1,"period":5}'
OWN_VIEWS = r"whatever CACRLoss\(negatives_from='other'\) says of the views of a batch: leave that out, or .*cacr"
UNREAD = {
    "--method mocov2 --loss CACRLoss --loss.negatives_from other": f"MoCo v2 compares with its queue, {OWN_VIEWS}",
    "--method mocov3 --loss CACRLoss --loss.negatives_from other": f"MoCo v3 compares with the keys.*{OWN_VIEWS}",
    "--method nnclr --loss CACRLoss --loss.negatives_from other": f"NNCLR compares with the predictions.*{OWN_VIEWS}",
    "--method bank --loss CACRLoss --loss.negatives_from other": f"a memory bank compares.*{OWN_VIEWS}",
    "--method mocov2 --loss InfoNCELoss --loss.symmetric false": r"InfoNCELoss\(symmetric=False\) .* --method simclr",
    f"--method siglip --loss.temperature {SCHEDULE}": "SigLIPLoss learns its .* a schedule .* false",
    f"--loss GeneralizedContrastiveLoss --loss.temperature {SCHEDULE}": "temperature is of the log-sum-exp, .* lse",
    "--method swav --loss.temperature 0.3": "takes no loss, got loss.temperature; say --method.temperature",
    "--method dino --loss.alpha 0.3": "takes no loss, got loss.alpha; leave it out",
    "--method nnclr --small_crops 2": "'nnclr' has no use for views that are never looked for: say --small_crops 0",
    "--method tau --small_crops 2": "'tau' has no use for views",
    "--method isogclr --small_crops 2": "'isogclr' has no use for views",
    "--method bank --small_crops 2": "'bank' has no use for views",
    "--small_size 8": "small_size 8 is about small crops, and there are none: say --small_crops 6",
    "--predictor byol": r"--predictor is of methods that predict \(mocov3, nnclr, byol, simsiam\), and",
    "--method byol --head.width 64 --predictor.width 32": "--predictor.width follows the embedding.*--head.width",
    "--ratio 0.1": "--ratio is of a long tail; say --imbalance long-tail, or leave it out",
    "--digit_size 9": "--digit_size is of pasted digits, and there are none; say --digits 64",
    "--trust 0.01": "--trust is of LARS; say --optimizer lars",
    "--optimizer adam --nesterov": "--nesterov is of SGD; say --optimizer sgd",
    "--factor 0.5": "--factor multiplies the rate at milestones, and there are none",
    "--monitor_images 100": "--monitor_images is of what is measured on the way, which --monitor 0 turns off",
    "--method swav --method.queue_start 2": "--method.queue_start is of a queue, and there is none",
    "--method dino --method.teacher_warmup 0 --method.teacher_start 0.01": "teacher_start is where .* say --method",
    "--method vae --method.plane_weight 2": "--method.plane_weight is of RandBit planes, and there are none",
    "--method cacr --loss.attraction uniform --loss.t_pos 2": "--loss.t_pos is of the weights of positives, which",
    "--method cacr --loss.repulsion uniform --loss.t_neg 2": "--loss.t_neg is of the weights of negatives, which",
}
"""Settings that nobody would read."""
READ = (
    "--imbalance long-tail --ratio 0.1",
    "--digits 9 --digit_size 9",
    "--optimizer lars --trust 0.01",
    "--nesterov",
    "--schedule step --milestones [1] --factor 0.5",
    "--method byol --predictor byol --predictor.hidden 8",
    "--method byol --head.width 64 --predictor.width 64",
    "--method swav --method.queue 64 --method.queue_start 0",
    "--method dino --method.teacher_start 0.01",
    "--method cacr --loss.negatives_from other --loss.t_pos 2 --loss.t_neg 2",
    "--loss GeneralizedContrastiveLoss --loss.distribution lse --loss.temperature 0.3",
    f"--method siglip --loss.learnable false --loss.temperature {SCHEDULE}",
    "--loss InfoNCELoss --loss.symmetric false",
    "--monitor 1 --monitor_images 100",
)
"""The same settings where they are read."""
CASES = {f"--method {pair.replace(' ', ' --loss ')}": why for pair, why in PAIRS.items()} | OTHERS | UNREAD


@pytest.mark.parametrize("words", CASES)
def test_what_does_not_go_together_is_told_in_a_sentence(words, tmp_path, capsys):
    length = ["--images", "64", "--epochs", "1", "--monitor", "0", "--quiet"]
    length += [] if "--batch" in words else ["--batch", "64"]
    assert main(["train", *words.split(), *length, "--out", str(tmp_path / "a")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(CASES[words], said), said
    assert "Traceback" not in said
    assert not (tmp_path / "a" / "result.json").exists()


@pytest.mark.parametrize("words", READ)
def test_settings_that_are_read_are_taken(words):
    config, _, _ = parse(words.split())
    build(config)


def test_settings_of_a_file_may_say_what_nobody_reads(tmp_path):
    """Every run keeps all its settings in a file, and begins again from it."""
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(configure({"method": "simclr"}).as_dict()))
    assert parse(["--config", str(file)])[0].key == configure({"method": "simclr"}).key


ALONE = {"byol", "simsiam", "swav", "dino", "supervised", "vae", "supcon"}
"""Methods that take an item by itself; SupCon has its two views for positives."""


@pytest.mark.parametrize("method", sorted({*METHODS} - ALONE - {"simcse", "mlm", "clip"}))
def test_a_batch_of_one_is_told_in_a_users_words(method, tmp_path, capsys):
    words = ["--method", method, "--batch", "1", "--images", "16", "--epochs", "1", "--monitor", "0", "--quiet"]
    assert main(["train", *words, "--encoder.widths", "[4]", "--out", str(tmp_path / "a")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"at least 2 items (to have a negative|are needed|to normalize)?.*, got 1. Use a larger", said), (
        said
    )
    assert "_" not in said, said  # no name of a function


@pytest.mark.parametrize("queue", [40, 10_000])
def test_a_queue_that_is_never_full_is_no_mistake(queue, tmp_path):
    """SwAV waits for its queue, NNCLR searches what there is, MoCo begins with random directions."""
    shared = {"images": 64, "batch": 32, "epochs": 1, "monitor": 0, "encoder.widths": [4], "method.queue": queue}
    for method, own in {"swav": {"method.queue_start": 0.0}, "nnclr": {}, "mocov2": {}}.items():
        result = train(configure({**shared, "method": method, **own}), Runtime(out=tmp_path / method, quiet=True))
        assert result.steps == 2
