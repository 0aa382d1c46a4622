"""torchvision's operators in plain PyTorch, for a torchvision that was built for another torch: slow, the same numbers.

The tests register them; the package never does. A file to run, too, where torchvision's own operators do not load:

    python tests/torchvision_operators.py detect runs/first --on scenes      is  isotherm detect runs/first --on scenes
"""

import importlib
import sys
from pathlib import Path

import torch

_KEEP = []  # a library's definitions live as long as it does


def stand_in():
    """Define `nms` and `roi_align` where torchvision has them not."""
    from isotherm.bench.rivals import torchvision_that_imports  # noqa: PLC0415 - this file is also a program

    torchvision_that_imports()
    extension = importlib.import_module("torchvision.extension")
    if extension._has_ops():
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor"
    )
    for operator in (nms, roi_align):
        library.impl(operator.__name__, operator, "CompositeImplicitAutograd")
    _KEEP.append(library)
    importlib.import_module("torchvision.ops")
    for module in (extension, sys.modules["torchvision.ops.roi_align"]):
        module._has_ops = lambda: True


def nms(dets, scores, iou_threshold):
    """Those boxes, best first, that no better one that stays overlaps by more."""
    order = scores.argsort(descending=True, stable=True)
    boxes = dets[order]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    corner = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    inner = (torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - corner).clamp(min=0).prod(2)
    over = (inner / (area[:, None] + area[None] - inner) > iou_threshold).numpy()
    stays = torch.ones(len(boxes), dtype=torch.bool).numpy()
    for i in range(len(boxes)):
        if stays[i]:
            stays[i + 1 :] &= ~over[i, i + 1 :]
    return order[torch.from_numpy(stays)]


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """Bilinear samples and their means are linear along each edge: two matrices per region."""
    shift = 0.5 if aligned else 0.0
    left, top, right, bottom = (rois[:, i] * spatial_scale - shift for i in (1, 2, 3, 4))
    rows = _weights(top, bottom, pooled_height, sampling_ratio, aligned, input.shape[2])
    columns = _weights(left, right, pooled_width, sampling_ratio, aligned, input.shape[3])
    out = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    for image in rois[:, 0].unique().long().tolist():
        there = (rois[:, 0] == image).nonzero()[:, 0]
        summed = torch.einsum("kph,chw->kcpw", rows[there], input[image])
        out = out.index_copy(0, there, summed @ columns[there].transpose(1, 2)[:, None])
    return out


def _weights(start, end, bins, samples, aligned, edge):
    """How much each of `edge` pixels counts in each bin of each region, (K, bins, edge)."""
    length = end - start if aligned else (end - start).clamp(min=1.0)
    grid = torch.full_like(length, samples) if samples > 0 else (length / bins).ceil().clamp(min=1)
    most = int(grid.max()) if len(grid) else 1
    i = torch.arange(most, dtype=length.dtype)
    place = torch.arange(bins, dtype=length.dtype)[None, :, None] + (i + 0.5) / grid[:, None, None]
    x = start[:, None, None] + place * (length / bins)[:, None, None]
    counts = (i < grid[:, None, None]) & (x >= -1) & (x <= edge)
    x = x.clamp(0, edge - 1)
    low = x.floor()
    part = torch.where(counts, (x - low), 0.0), torch.where(counts, 1 - (x - low), 0.0)
    weights = torch.zeros(len(length), bins, edge, dtype=length.dtype)
    weights.scatter_add_(2, low.long(), part[1])
    weights.scatter_add_(2, (low.long() + 1).clamp(max=edge - 1), part[0])
    return weights / grid[:, None, None]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
    from isotherm.cli import main

    stand_in()
    sys.exit(main())
