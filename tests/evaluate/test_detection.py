"""Detectors around our encoders: real torchvision, with plain operators where its own do not load; real pycocotools."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from isotherm.cli import main
from isotherm.data.scenes import drawn
from isotherm.data.scenes.scene import Scene
from isotherm.encoders import ResNet
from isotherm.encoders.export import exported, write_export
from isotherm.evaluate.detection import fit as fitting
from isotherm.evaluate.detection.assess import Plan, detect
from isotherm.evaluate.detection.detector import detector
from isotherm.evaluate.detection.metrics import Judge
from isotherm.evaluate.detection.schedules import COCO, SCENES, VOC, changed
from isotherm.evaluate.models import Wanted, open_model
from peers import library
from torchvision_operators import nms, roi_align, stand_in

torchvision = library("torchvision")
library("pycocotools.coco")
stand_in()


def small(**more):
    """A schedule of a moment."""
    quick = replace(SCENES, regions=16, proposals=20, width=16, edges=(64,), longest=64, statistics=1)
    return changed(quick, **{"steps": 2, "batch": 2, **more})


def resnet(seed=0, size=64):
    return open_model("random:resnet18", Wanted(size=size, seed=seed))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [2, -1])
def test_plain_roi_align_is_torchvisions_own_written_in_python(samples, aligned):
    theirs = sys.modules["torchvision.ops.roi_align"]._roi_align.__wrapped__
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(2, 3, 9, 11, generator=generator, dtype=torch.float64)
    corner = torch.rand(7, 2, generator=generator, dtype=torch.float64) * 40 - 3
    ends = corner + torch.rand(7, 2, generator=generator, dtype=torch.float64) * 35 + 0.5
    rois = torch.cat([torch.tensor([[0.0], [1], [1], [0], [0], [1], [0]]).double(), corner, ends], 1)
    ours = roi_align(maps, rois, 0.125, 4, 5, samples, aligned)
    torch.testing.assert_close(ours, theirs(maps, rois, 0.125, 4, 5, samples, aligned), rtol=1e-9, atol=1e-12)


def test_plain_roi_align_sees_nothing_beyond_the_border():
    """As the compiled operator; torchvision's in Python repeats the border instead."""
    beyond = torch.tensor([[0.0, 100, 100, 140, 140]])
    assert not roi_align(torch.ones(1, 1, 9, 11), beyond, 0.125, 2, 2, 2, False).any()


def test_plain_nms_keeps_what_no_better_box_covers():
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 0, 11, 10], [20, 20, 30, 30], [9, 0, 19, 10]])
    assert nms(boxes, torch.tensor([0.6, 0.9, 0.5, 0.7]), 0.5).tolist() == [1, 3, 2]


def average_precision(wanted, detected, overlap):
    """From its definition, for one class: greedy matching by score, precision made monotone, 101 points of recall."""
    detected = sorted(detected, key=lambda d: -d[1])
    taken, right = set(), []
    for image, _, box in detected:
        best, at = overlap, None
        for j, (other, target) in enumerate(wanted):
            if other == image and j not in taken and iou(box, target) >= best:
                best, at = iou(box, target), j
        right.append(at is not None)
        taken.add(at)
    points, hits = [], np.cumsum(right)
    for recall in np.linspace(0, 1, 101):
        reached = [hits[k] / (k + 1) for k in range(len(hits)) if hits[k] / len(wanted) >= recall]
        points.append(max(reached, default=0.0))
    return float(np.mean(points))


def iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    inner = max(width, 0) * max(height, 0)
    return inner / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inner)


def some_boxes(rng, n):
    corner = rng.uniform(0, 60, (n, 2))
    return np.concatenate([corner, corner + rng.uniform(8, 30, (n, 2))], 1)


def test_metrics_are_average_precision_written_as_loops():
    rng, classes = np.random.default_rng(0), ("a", "b")
    judge, wanted, detected = Judge(classes, False), {0: [], 1: []}, {0: [], 1: []}
    for image in range(6):
        boxes, labels = some_boxes(rng, 4), rng.integers(0, 2, 4)
        given = np.concatenate([boxes + rng.normal(0, 2, boxes.shape), some_boxes(rng, 2)])
        said, scores = np.concatenate([labels, rng.integers(0, 2, 2)]), rng.uniform(0, 1, 6)
        blank, crowd = torch.zeros(3, 100, 100, dtype=torch.uint8), torch.zeros(4, dtype=torch.bool)
        judge.add(
            Scene(blank, torch.tensor(boxes), torch.tensor(labels), crowd),
            *(torch.tensor(x) for x in (given, said, scores)),
        )
        for box, label in zip(boxes, labels, strict=True):
            wanted[label].append((image, box))
        for box, label, score in zip(given, said, scores, strict=True):
            detected[label].append((image, score, box))
    result = judge.metrics()["box"]
    by_overlap = {
        o: np.mean([average_precision(wanted[c], detected[c], o) for c in (0, 1)]) for o in np.arange(50, 100, 5) / 100
    }
    assert 0.2 < result["AP50"] < 0.99
    assert result["AP50"] == pytest.approx(by_overlap[0.5], abs=1e-9)
    assert result["AP75"] == pytest.approx(by_overlap[0.75], abs=1e-9)
    assert result["AP"] == pytest.approx(np.mean(list(by_overlap.values())), abs=1e-9)


def test_what_is_exactly_right_has_an_ap_of_one_and_nothing_one_of_zero():
    scenes = drawn.read("test", 3)
    right, silent = Judge(scenes.classes, True), Judge(scenes.classes, True)
    for i in range(3):
        scene = scenes.take(i)
        right.add(scene, scene.boxes, scene.labels, torch.ones(len(scene.labels)), scene.masks.float())
        silent.add(scene, torch.zeros(0, 4), torch.zeros(0).long(), torch.zeros(0), torch.zeros(0, 96, 96))
    for kind in ("box", "mask"):
        assert right.metrics()[kind]["AP"] == pytest.approx(1.0)
        assert silent.metrics()[kind]["AP"] == 0.0


def test_a_detection_on_a_crowd_is_neither_right_nor_wrong():
    judge = Judge(("a",), False)
    boxes = torch.tensor([[0.0, 0, 20, 20], [50, 50, 90, 90]])
    scene = Scene(torch.zeros(3, 100, 100), boxes, torch.tensor([0, 0]), torch.tensor([False, True]))
    judge.add(scene, boxes, torch.tensor([0, 0]), torch.tensor([0.5, 0.9]))
    assert judge.metrics()["box"]["AP"] == pytest.approx(1.0)


@pytest.mark.parametrize("shape", ["c4", "fpn"])
@pytest.mark.parametrize("masks", [False, True])
def test_every_layer_of_the_encoder_learns_in_both_shapes(shape, masks):
    model, scenes = resnet(), drawn.read("train", 4)
    before = {name: p.clone() for name, p in model.encoder.state_dict().items()}
    network = fitting.fit(model, scenes, small(shape=shape, masks=masks))
    assert all(torch.equal(before[name], p) for name, p in model.encoder.state_dict().items())
    learnt = {tuple(p.shape): [] for p in network.parameters()}
    for p in network.parameters():
        learnt[tuple(p.shape)].append(p)
    for name, p in model.encoder.named_parameters():
        assert all(not torch.equal(p, q) for q in learnt[tuple(p.shape)]), f"{name} is where it was"
    metrics = fitting.judged(network, model, drawn.read("test", 2), masks)
    assert set(metrics) == ({"box", "mask"} if masks else {"box"})


@pytest.mark.parametrize(("size", "stride"), [(64, 16), (32, 4)])
def test_anchors_and_regions_follow_the_strides(size, stride):
    """The stem for small images has a quarter of the strides, and so of the anchors."""
    network = detector(resnet(size=size), 10, small(shape="c4"))
    assert network.rpn.anchor_generator.sizes == (tuple(2 * stride * 2**i for i in range(5)),)
    pyramid = detector(resnet(size=size), 10, small())
    assert [s for (s,) in pyramid.rpn.anchor_generator.sizes] == [2 * stride * 2**i for i in range(5)]


def test_r50_c4_is_the_papers():
    """VOC: 20 classes and the background; the fifth stage and its batch normalization work on the regions."""
    network = detector(open_model("random:resnet50", Wanted(size=224)), 20, VOC)
    assert network.backbone.out_channels == 1024
    assert network.rpn.anchor_generator.sizes == ((32, 64, 128, 256, 512),)
    assert network.roi_heads.box_roi_pool.output_size == (14, 14)
    assert network.roi_heads.box_predictor.cls_score.weight.shape == (21, 2048)
    assert network.transform.min_size[-1] == 800
    masked = detector(open_model("random:resnet50", Wanted(size=224)), 80, COCO)
    assert masked.roi_heads.mask_head is masked.roi_heads.box_head.stage  # one fifth stage for both
    assert isinstance(masked.roi_heads.mask_head[1], nn.BatchNorm2d)


def test_an_interrupted_fit_ends_with_the_same_weights(tmp_path, monkeypatch):
    model, scenes, keep = resnet(), drawn.read("train", 4), tmp_path / "kept.pt"
    whole = fitting.fit(model, scenes, small(steps=3))
    monkeypatch.setattr(fitting, "EVERY", 1)
    monkeypatch.setattr("isotherm.probes.kept.PAUSE", 0.0)

    def stop(stage):
        if stage.startswith("step 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitting.fit(model, scenes, small(steps=3), keep=keep, note=stop)
    steps = []
    again = fitting.fit(model, scenes, small(steps=3), keep=keep, note=steps.append)
    assert [s.split(",")[0] for s in steps] == ["step 3 of 3"]
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True))


def test_encoders_side_by_side_with_their_differences(tmp_path):
    usual = Wanted(size=64)  # the stem for larger images
    plan = Plan(("random:resnet18", "random:resnet34"), "scenes", small(steps=1), (0, 1), 4, 2, tmp_path)
    result = detect(plan, usual)
    table, differences = result.tables()
    assert [row[0] for row in table.rows] == ["random:resnet18", "random:resnet34"]
    assert differences.rows[0][0] == "random:resnet18 − random:resnet34"
    assert len(list(tmp_path.glob("detect-*.json"))) == 4
    again = detect(plan, usual, lambda stage, detail: pytest.fail(detail) if detail.startswith("step") else None)
    assert again.as_dict() == result.as_dict()
    with pytest.raises(ValueError, match="of other settings or data"):
        detect(replace(plan, schedule=small(steps=2)), usual)
    next(iter(tmp_path.glob("detect-*.json"))).write_text("{}")
    with pytest.raises(ValueError, match="is damaged; delete it"):
        detect(plan, usual)


def test_what_is_no_resnet_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"detection takes a ResNet .*; random:convnet is a ConvNet without 'bn1'"):
        detect(Plan(("random:convnet",), "scenes", small(), images=2, tested=2))


def test_the_command_writes_every_number(tmp_path, capsys):
    out = tmp_path / "d.json"
    command = ["detect", "random:resnet18", "--on", "scenes", "--steps", "1", "--batch", "2", "--images", "2"]
    assert main([*command, "--size", "64", "--tested", "1", "--json", str(out)]) == 0
    assert "Faster R-CNN, FPN, 1 steps of 2 images" in capsys.readouterr().out.replace("\n", " ")
    held = json.loads(out.read_text())
    assert set(held["encoders"]["random:resnet18"][0]["box"]) >= {"AP", "AP50", "AP75"}


@pytest.mark.parametrize("depth", [18, 50])
def test_exported_weights_load_into_torchvisions_resnet(depth, tmp_path):
    ours = ResNet(depth).eval()
    for module in ours.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
    theirs = getattr(torchvision.models, f"resnet{depth}")(weights=None)
    theirs.fc = nn.Identity()
    path = tmp_path / "resnet.pth"
    write_export(ours, "torchvision", path)
    theirs.load_state_dict(torch.load(path, weights_only=True))
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(theirs.eval()(x), ours(x), rtol=1e-5, atol=1e-5)
    assert set(exported(ours, "torchvision")) == set(theirs.state_dict())
