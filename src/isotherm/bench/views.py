"""`isotherm bench views`: two SimCLR views of 32×32 images, against PIL image by image and kornia in batches."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from isotherm.bench.measure import Target, best_times
from isotherm.views import recipe

BATCH = 256
OURS = "isotherm"
KORNIA = "kornia, batched"
PIL = "PIL, image by image"


def run(rounds: int, peers: bool, note: Callable[[str, str], None]) -> dict[str, float]:
    """Images a second of each way; every image gives two views."""
    pixels = torch.randint(0, 256, (BATCH, 3, 32, 32), dtype=torch.uint8)
    ids = torch.arange(BATCH)
    make = recipe("simclr-cifar")
    contenders: dict[str, Callable[[], object]] = {OURS: lambda: make(pixels, ids), PIL: lambda: _pil(pixels)}
    if peers:
        kornia = _kornia()
        contenders[KORNIA] = lambda: [kornia(pixels.float() / 255) for _ in range(2)]
    best = dict.fromkeys(contenders, float("inf"))
    for call in contenders.values():
        call()
    for name, seconds in best_times(contenders, rounds, enough=1.0):
        best[name] = min(best[name], seconds)
        note("timing views", f"{name} {BATCH / best[name]:,.0f} images/s")
    return {name: BATCH / seconds for name, seconds in best.items()}


def targets(rates: dict[str, float]) -> list[Target]:
    """The promises this run can judge."""
    return [
        Target(f"two views, against {rival}", f"≥ {times:g}×", f"{rates[OURS] / rates[rival]:.1f}×", ok)
        for rival, times in ((KORNIA, 2.5), (PIL, 10.0))
        if rival in rates
        for ok in [rates[OURS] / rates[rival] >= times]
    ]


def _pil(pixels: Tensor) -> list[Tensor]:
    """The same recipe with PIL, as a data loader's worker would run it."""
    image, enhance, ops = (importlib.import_module(f"PIL.{m}") for m in ("Image", "ImageEnhance", "ImageOps"))
    views = []
    for _ in range(2):
        images = []
        for array in pixels.permute(0, 2, 3, 1).numpy():
            view = image.fromarray(array)
            area = 1024 * random.uniform(0.08, 1.0)
            ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
            w, h = min(32, round((area * ratio) ** 0.5)), min(32, round((area / ratio) ** 0.5))
            left, top = random.randint(0, 32 - w), random.randint(0, 32 - h)
            view = view.resize((32, 32), image.Resampling.BILINEAR, box=(left, top, left + w, top + h))
            if random.random() < 0.5:
                view = ops.mirror(view)
            if random.random() < 0.8:
                for change in random.sample(("Brightness", "Contrast", "Color", "hue"), 4):
                    if change == "hue":
                        hsv = np.array(view.convert("HSV"))
                        hsv[..., 0] += np.uint8(random.uniform(-0.1, 0.1) * 255 % 256)
                        view = image.fromarray(hsv, "HSV").convert("RGB")
                    else:
                        view = getattr(enhance, change)(view).enhance(random.uniform(0.6, 1.4))
            if random.random() < 0.2:
                view = view.convert("L").convert("RGB")
            images.append(torch.from_numpy(np.array(view)).permute(2, 0, 1).float() / 255)
        views.append(torch.stack(images))
    return views


def _kornia() -> Callable[[Tensor], Tensor]:
    augmentation = importlib.import_module("kornia.augmentation")
    return torch.nn.Sequential(
        augmentation.RandomResizedCrop((32, 32), scale=(0.08, 1.0)),
        augmentation.RandomHorizontalFlip(),
        augmentation.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        augmentation.RandomGrayscale(p=0.2),
    )
