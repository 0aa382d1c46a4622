"""Weights under other libraries' names. torchvision's own network takes them in tests/evaluate/test_detection.py."""

import re

import pytest
import torch

from isotherm.cli import main
from isotherm.encoders import ConvNet, ResNet
from isotherm.encoders.export import detectron2_name, exported, write_export


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("conv1.weight", "stem.conv1.weight"),
        ("bn1.running_mean", "stem.conv1.norm.running_mean"),
        ("layer1.0.conv1.weight", "res2.0.conv1.weight"),
        ("layer1.0.bn3.bias", "res2.0.conv3.norm.bias"),
        ("layer4.2.bn2.running_var", "res5.2.conv2.norm.running_var"),
        ("layer2.0.downsample.0.weight", "res3.0.shortcut.weight"),
        ("layer2.0.downsample.1.weight", "res3.0.shortcut.norm.weight"),
    ],
)
def test_detectron2_names(ours, theirs):
    assert detectron2_name(ours) == theirs


def resnet50_of_detectron2():
    """The names of its R-50 with batch normalization, from its build_resnet_backbone, as loops."""
    norm = [f"norm.{n}" for n in ("weight", "bias", "running_mean", "running_var")]
    names = {f"stem.conv1.{n}" for n in ["weight", *norm]}
    for stage, blocks in zip((2, 3, 4, 5), (3, 4, 6, 3), strict=True):
        for block in range(blocks):
            layers = ["conv1", "conv2", "conv3"] + (["shortcut"] if block == 0 else [])
            names |= {f"res{stage}.{block}.{layer}.{n}" for layer in layers for n in ["weight", *norm]}
    return names


def test_all_names_of_detectron2s_resnet50_are_there(tmp_path):
    encoder = ResNet(50)
    weights = exported(encoder, "detectron2")
    assert set(weights) == resnet50_of_detectron2()
    assert torch.equal(weights["res4.5.conv3.weight"], encoder.layer3[5].conv3.weight)
    write_export(encoder, "detectron2", tmp_path / "d2.pth")
    held = torch.load(tmp_path / "d2.pth", weights_only=True)
    assert held["matching_heuristics"] is True
    assert set(held["model"]) == set(weights)


def test_torchvisions_names_are_ours():
    encoder = ResNet(18)
    assert set(exported(encoder, "torchvision")) == set(encoder.state_dict())


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        (ConvNet(), "only a ResNet has a namesake there; this is a ConvNet"),
        (ResNet(18, small=True), "has the stem for small images .* train one with --encoder.small false"),
    ],
)
def test_what_has_no_namesake_is_refused(encoder, said):
    with pytest.raises(ValueError, match=said):
        exported(encoder, "torchvision")


def test_the_command_writes_a_run_for_detectron2(tmp_path, capsys):
    """`random:` has what a run has; the file is for their checkpointer, the lines for their configuration."""
    out = tmp_path / "r18.pth"
    assert main(["export", "random:resnet18", "--to", "detectron2", "--out", str(out)]) == 2
    assert "stem for small images" in capsys.readouterr().err
    assert main(["export", "random:resnet18", "--to", "torchvision", "--out", str(tmp_path / "r18.pt")]) == 2
    assert "stem for small images" in capsys.readouterr().err  # before what the file should be called
    weights = tmp_path / "weights.pt"
    torch.save(ResNet(18).state_dict(), weights)
    wrong = ["export", str(weights), "--arch", "resnet18", "--to", "torchvision", "--out", str(tmp_path / "r18.pt")]
    assert main(wrong) == 2
    assert "--out must end in .pth" in capsys.readouterr().err
    command = ["export", str(weights), "--arch", "resnet18", "--to", "detectron2", "--out", str(out)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "100 tensors written to" in said
    assert re.search(r"PIXEL_MEAN \[123.675, 116.28, 103.53\], MODEL.PIXEL_STD \[58.395, 57.12, 57.375\]", said)
