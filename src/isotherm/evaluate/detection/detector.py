"""A ResNet inside torchvision's Faster R-CNN or Mask R-CNN.

C4 (Ren et al. 2015, arXiv:1506.01497; He et al. 2017, arXiv:1703.06870, Figure 4 left): stages up to the fourth make
one map for all regions; the fifth stage, with one more batch normalization (MoCo, detection/train_net.py), works on
each region of 14×14, for boxes and masks alike. FPN (Lin et al. 2017, arXiv:1612.03144): a pyramid of the four
stages, two linear layers per region. All layers are trained, and batch normalization is on, also in the pyramid
(MoCo, appendix).

Differs from detectron2: torchvision's regions are not shifted by half a pixel and have 2×2 samples per bin, its losses
of boxes are smooth near 0, and a network with the stem for small images has anchors in proportion to its strides,
which are a quarter.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from isotherm.encoders.build import needed
from isotherm.evaluate.detection.schedules import Schedule
from isotherm.evaluate.models import Model

STAGES = ("layer1", "layer2", "layer3", "layer4")
PARTS = ("conv1", "bn1", "maxpool", *STAGES)
RATIOS = (0.5, 1.0, 2.0)
CANDIDATES = {"c4": (12, 6), "fpn": (2, 1)}
"""Boxes per proposal that suppression starts from, in training and in tests; of a pyramid on every level."""
RESOLUTION = {"c4": 14, "fpn": 7}
"""Bins along an edge of a region, for its box."""


def library() -> Any:
    """torchvision's detectors, or one sentence on why not."""
    needed("torchvision", "detection")
    return importlib.import_module("torchvision.models.detection")


def detector(model: Model, classes: int, schedule: Schedule) -> nn.Module:
    """Around a copy of the model's encoder; the classes' labels start at 1, as 0 is the background there."""
    detection = library()
    missing = [part for part in PARTS if not isinstance(getattr(model.encoder, part, None), nn.Module)]
    if missing:
        raise ValueError(
            f"detection takes a ResNet (resnet18, resnet34, resnet50); {model.name} is a "
            f"{type(model.encoder).__name__} without '{missing[0]}'."
        )
    body = copy.deepcopy(model.encoder).float().requires_grad_(True)
    mean, std = (model.recipe.mean, model.recipe.std) if model.recipe.mean else ((0.0,), (1.0,))
    given: dict[str, Any] = {
        "min_size": schedule.edges,
        "max_size": schedule.longest,
        "image_mean": list(mean) * (model.channels // len(mean)),
        "image_std": list(std) * (model.channels // len(std)),
        "rpn_pre_nms_top_n_train": CANDIDATES[schedule.shape][0] * schedule.proposals,
        "rpn_post_nms_top_n_train": 2 * schedule.proposals,
        "rpn_pre_nms_top_n_test": CANDIDATES[schedule.shape][1] * schedule.proposals,
        "rpn_post_nms_top_n_test": schedule.proposals,
        "box_batch_size_per_image": schedule.regions,
    }
    widths, strides = _measured(body, model.channels)
    outputs = classes + 1
    build = _c4 if schedule.shape == "c4" else _fpn
    backbone, parts = build(body, widths, strides, outputs, schedule)
    kind = detection.MaskRCNN if schedule.masks else detection.FasterRCNN
    network: nn.Module = kind(backbone, None, **given, **parts)
    return network


def _measured(body: nn.Module, channels: int) -> tuple[list[int], list[int]]:
    """Width and stride of every stage."""
    edge = 64
    with torch.no_grad():
        maps = _Stages(copy.deepcopy(body).eval(), STAGES)(torch.zeros(1, channels, edge, edge))
    return [m.shape[1] for m in maps.values()], [edge // m.shape[2] for m in maps.values()]


class _Stages(nn.Module):
    """The stem and some of the stages of a ResNet; the maps of each stage, or of the last alone."""

    def __init__(self, body: nn.Module, stages: tuple[str, ...], last: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(body.conv1, body.bn1, nn.ReLU(inplace=True), body.maxpool)  # type: ignore[arg-type]
        self.stages = nn.ModuleList(getattr(body, stage) for stage in stages)
        self.last = last

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.stem(x)
        maps: dict[str, Tensor] = OrderedDict()
        for place, stage in enumerate(self.stages):
            x = stage(x)
            maps[str(place)] = x
        return OrderedDict([("0", x)]) if self.last else maps


class _Pyramid(nn.Module):
    def __init__(self, body: nn.Module, widths: list[int], out_channels: int) -> None:
        super().__init__()
        ops = importlib.import_module("torchvision.ops.feature_pyramid_network")
        self.body = _Stages(body, STAGES)
        self.fpn = ops.FeaturePyramidNetwork(widths, out_channels, ops.LastLevelMaxPool(), nn.BatchNorm2d)
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps: dict[str, Tensor] = self.fpn(self.body(x))
        return maps


class _Averaged(nn.Module):
    """What a stage says about a region: the mean over its positions."""

    def __init__(self, stage: nn.Module) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.stage(x)
        return y.mean((2, 3))


def _c4(
    body: nn.Module, widths: list[int], strides: list[int], outputs: int, schedule: Schedule
) -> tuple[nn.Module, dict[str, Any]]:
    detection, ops = library(), importlib.import_module("torchvision.ops")
    backbone = _Stages(body, STAGES[:3], last=True)
    backbone.out_channels = widths[2]  # type: ignore[assignment]
    fifth = nn.Sequential(body.layer4, nn.BatchNorm2d(widths[3]))  # type: ignore[arg-type]
    sizes = tuple(2 * strides[2] * 2**i for i in range(5))  # 32 to 512 at the usual stride of 16
    pool = _pool(ops, ["0"], RESOLUTION["c4"], strides[0])
    parts: dict[str, Any] = {
        "rpn_anchor_generator": detection.rpn.AnchorGenerator((sizes,), (RATIOS,)),
        "box_roi_pool": pool,
        "box_head": _Averaged(fifth),
        "box_predictor": detection.faster_rcnn.FastRCNNPredictor(widths[3], outputs),
    }
    if schedule.masks:
        parts |= {
            "mask_roi_pool": _pool(ops, ["0"], RESOLUTION["c4"], strides[0]),
            "mask_head": fifth,
            "mask_predictor": detection.mask_rcnn.MaskRCNNPredictor(widths[3], 256, outputs),
        }
    return backbone, parts


def _fpn(
    body: nn.Module, widths: list[int], strides: list[int], outputs: int, schedule: Schedule
) -> tuple[nn.Module, dict[str, Any]]:
    detection, ops = library(), importlib.import_module("torchvision.ops")
    width, hidden, levels = schedule.width, 4 * schedule.width, ["0", "1", "2", "3"]
    sizes = tuple((8 * stride,) for stride in (*strides, 2 * strides[3]))  # 32 to 512 at the usual strides of 4 to 64
    parts: dict[str, Any] = {
        "rpn_anchor_generator": detection.rpn.AnchorGenerator(sizes, (RATIOS,) * len(sizes)),
        "box_roi_pool": _pool(ops, levels, RESOLUTION["fpn"], strides[0]),
        "box_head": detection.faster_rcnn.TwoMLPHead(width * RESOLUTION["fpn"] ** 2, hidden),
        "box_predictor": detection.faster_rcnn.FastRCNNPredictor(hidden, outputs),
    }
    if schedule.masks:
        parts |= {
            "mask_roi_pool": _pool(ops, levels, 14, strides[0]),
            "mask_head": detection.mask_rcnn.MaskRCNNHeads(width, (width,) * 4, 1),
            "mask_predictor": detection.mask_rcnn.MaskRCNNPredictor(width, width, outputs),
        }
    return _Pyramid(body, widths, width), parts


def _pool(ops: Any, levels: list[str], resolution: int, first_stride: int) -> Any:
    """Regions of 224 pixels belong to the third level at the usual first stride of 4, smaller ones in proportion."""
    return ops.MultiScaleRoIAlign(
        levels,
        resolution,
        sampling_ratio=2,
        canonical_scale=56 * first_stride,
        canonical_level=2 + round(math.log2(first_stride)),
    )
