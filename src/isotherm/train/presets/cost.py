"""What a preset would cost: views, arithmetic, and hours of a GPU whose throughput is stated. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from isotherm.data.catalogue import SETS
from isotherm.train.presets.preset import Preset

THROUGHPUT = 1600.0
"""Views per second of ResNet-50 at 224 pixels, forward and backward: an A100 in mixed precision reaches about that when
its data keeps up. Other networks in proportion to their arithmetic; small ones reach less of it."""
FORWARD = {
    ("resnet18", 32): 1.111,
    ("resnet50", 32): 2.596,
    ("resnet50", 64): 0.667,
    ("resnet50", 96): 1.501,
    ("resnet50", 224): 8.174,
    ("small_alexnet", 32): 0.389,
    ("small_alexnet", 64): 1.646,
    ("vit_base", 96): 6.378,
    ("vit_base", 224): 35.126,
    ("convnet", 8): 0.0015,
    ("convnet", 28): 0.004,
    ("convnet", 32): 0.025,
    ("vae", 28): 0.005,
    ("hf:bert-base-uncased", 32): 5.5,
}
"""Thousand million operations of one view through an encoder, by its edge in pixels (or tokens): 2 for a multiplication
and addition. Up to 32 pixels a ResNet has the small stem; 96 is
that of a small crop in a network for 224."""
BACKWARD = 2
"""A gradient takes twice as many again."""
VIEWS = {"bank": 1, "vae": 1, "supervised": 1}
SLOW = {"mocov2", "mocov3", "byol", "dino"}
"""Methods in which a slow copy looks, too; never at small crops."""
SMALL_CROPS = {"multi-crop": 6}
"""How many a recipe has, where the settings do not say."""
SMALL_EDGE = 96
IMAGES = {
    ("cifar10", "long-tail"): 12_406,
    ("cifar100", "long-tail"): 10_847,
    ("imagenet100", "imagenet100-lt"): 12_205,
    ("folder:webvision", "none"): 2_400_000,
    ("folder:imagenet22k", "none"): 14_200_000,
    ("text:wiki1m_for_simcse.txt", "none"): 1_000_000,
}
"""Items of what is not a set of the catalogue as it is."""
SIZES = {"stl10": 64, "tiny-imagenet": 64, "mnist": 28, "digits": 8}


@dataclass(frozen=True)
class Cost:
    """Of one training, without its probes."""

    views: int
    """With small crops."""
    operations: float
    """Thousand millions."""

    def hours(self, throughput: float = THROUGHPUT) -> float:
        """On one GPU that takes so many views per second of ResNet-50 at 224 pixels."""
        return self.operations / (throughput * FORWARD["resnet50", 224] * (1 + BACKWARD)) / 3600


def cost_of(preset: Preset) -> Cost:
    """What training it takes."""
    s = preset.settings
    data, method = str(s["data"]), str(s.get("method", "simclr"))
    encoder = str(s.get("encoder", "convnet"))
    views = int(s.get("views") or VIEWS.get(method, 2))
    small = int(s.get("small_crops", SMALL_CROPS.get(str(s.get("recipe")), 0)))
    times = _items(preset) * int(s.get("epochs", 40))
    size = 32 if encoder.startswith("hf:") else SIZES.get(data, 224 if "image" in data or "folder:" in data else 32)
    one_asks = method == "mocov2" and not s.get("method.every_view")
    asking = 1 if one_asks else views
    answering = (views - one_asks) if method in SLOW else 0
    each = (asking * (1 + BACKWARD) + answering) * FORWARD[encoder, size]
    if small:
        each += small * (1 + BACKWARD) * FORWARD[encoder, SMALL_EDGE]
    return Cost(times * (views + small), times * each)


def _items(preset: Preset) -> int:
    s = preset.settings
    data = str(s["data"])
    unequal = (data, str(s.get("imbalance", "none")))
    if s.get("images"):
        return int(s["images"])
    return IMAGES[unequal] if unequal in IMAGES else SETS[data].images[s.get("split", "train")]
