"""The papers' schedules, and what `isotherm detect` says where it cannot run; torchvision is not needed for these."""

import sys

import pytest

from isotherm.cli import main
from isotherm.evaluate.detection.assess import open_scenes
from isotherm.evaluate.detection.schedules import COCO, SCENES, VOC, changed, rate_at


def test_voc_and_coco_are_fine_tuned_as_the_papers_do():
    """MoCo's pascal_voc_R_50_C4_24k.yaml, and detectron2's 1× schedule with CACR's sizes."""
    assert (VOC.shape, VOC.masks, VOC.steps, VOC.milestones, VOC.warmup) == ("c4", False, 24000, (18000, 22000), 100)
    assert VOC.edges == (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)
    assert (COCO.shape, COCO.masks, COCO.steps, COCO.milestones) == ("c4", True, 90000, (60000, 80000))
    assert COCO.edges == (640, 672, 704, 736, 768, 800)
    for schedule in (VOC, COCO):
        assert (schedule.batch, schedule.rate, schedule.momentum, schedule.weight_decay) == (16, 0.02, 0.9, 1e-4)


def test_the_rate_warms_up_and_falls_twice_to_a_tenth():
    assert rate_at(VOC, 0) == pytest.approx(0.00002)
    assert rate_at(VOC, 50) == pytest.approx(0.02 * (0.0005 + 0.5))
    assert rate_at(VOC, 100) == rate_at(VOC, 17999) == 0.02
    assert rate_at(VOC, 18000) == rate_at(VOC, 21999) == pytest.approx(0.002)
    assert rate_at(VOC, 23999) == pytest.approx(0.0002)


def test_fewer_steps_and_images_keep_the_proportions():
    short = changed(VOC, steps=240, batch=4)
    assert (short.milestones, short.warmup, short.rate) == ((180, 220), 24, 0.005)
    assert changed(VOC, batch=4, rate=0.1).rate == 0.1
    assert changed(SCENES, shape="c4", masks=True).masks


def test_a_torchvision_that_does_not_import_is_told_in_a_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [m for m in sys.modules if m.split(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["detect", "random:resnet18", "--on", "scenes"]) == 2
    said = capsys.readouterr().err
    assert "isotherm: detection needs torchvision, which is installed but does not import (operator" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--on", "scnes"], "--on must be one of voc, coco, scenes; got 'scnes'; did you mean 'scenes'?"),
        (["--on", "scenes", "--detector", "yolo"], "detector must be one of c4, fpn"),
        (["--on", "scenes", "--seeds", "a"], "--seeds must be whole numbers with commas between, got 'a'"),
        (["--on", "scenes", "--lr", "-1"], "lr must be a positive number"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments, said, capsys):
    assert main(["detect", "random:resnet18", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("on", "masks", "said"),
    [
        ("voc", False, "say where it is: --on voc:PATH"),
        ("coco:nowhere", False, "there is no folder nowhere; --on coco:PATH"),
        ("voc:.", True, "VOC's boxes come without masks"),
        ("voc:.", False, "holds no VOC2007 or VOC2012"),
    ],
)
def test_folders_that_are_none_are_told_in_a_sentence(on, masks, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=said):
        open_scenes(on, masks)
