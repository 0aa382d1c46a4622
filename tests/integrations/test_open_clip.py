"""Losses with open_clip's call, against its own."""

import pytest
import torch

from isotherm import nn
from isotherm.integrations import open_clip as ours
from peers import example, library

theirs = library("open_clip.loss")


def features(n=9, d=8):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64)
    pair = [z + 0.4 * torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(2)]
    return [v.requires_grad_() for v in pair]


def everything(loss, bias):
    raw = features()
    scale = torch.tensor(2.3, dtype=torch.float64, requires_grad=True)
    shift = torch.tensor(-1.5, dtype=torch.float64, requires_grad=True) if bias else None
    given = [torch.nn.functional.normalize(z, dim=1) for z in raw]
    value = loss(*given, scale.exp(), shift, output_dict=True)["contrastive_loss"]
    value.backward()
    gradients = [*(z.grad for z in raw), scale.grad]
    return [value.detach(), *gradients, *([shift.grad] if bias else [])]


@pytest.mark.parametrize(("name", "bias"), [("ClipLoss", False), ("SigLipLoss", True)])
def test_value_and_gradient_are_open_clip_s(name, bias):
    for a, b in zip(*(everything(getattr(lib, name)(), bias) for lib in (theirs, ours)), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-10)


def test_another_loss_takes_the_place():
    z = [torch.nn.functional.normalize(v.detach(), dim=1) for v in features()]
    value = ours.ClipLoss(make=nn.DCLLoss)(*z, logit_scale=torch.tensor(10.0))
    torch.testing.assert_close(value, nn.DCLLoss(0.1)(*z), rtol=1e-6, atol=1e-7)
    with pytest.raises(ValueError, match="use_horovod is not taken"):
        ours.ClipLoss(use_horovod=True)


@pytest.mark.filterwarnings("ignore")
def test_the_example_learns_its_pairs():
    values = example("open_clip_loss.py")()
    assert values[-1] < 0.8 * values[0]
