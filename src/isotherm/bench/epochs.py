"""`isotherm bench train --peers`: whole epochs of SimCLR, ours against a plain lightly loop, and what checkpoints cost.

5,000 32×32 images, the small convnet with the same head, batch 256, SGD. The rival is what lightly's own examples do:
its transform image by image in worker processes, its NT-Xent, one forward a view.
"""

from __future__ import annotations

import importlib
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotherm import files
from isotherm.bench.measure import Target
from isotherm.bench.rivals import torchvision_that_imports
from isotherm.data.images import Images
from isotherm.data.sets import SETS, load
from isotherm.encoders import encoder, head
from isotherm.methods import Network
from isotherm.train import names
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.devices import fabric_for, keep_freed_memory
from isotherm.train.loop import Run
from isotherm.train.state import save_checkpoint

IMAGES = 5000
BATCH = 256
OURS = "isotherm train"
WORKERS = (0, 1, 2)
SAVING = "one checkpoint"


def run(rounds: int, note: Callable[[str, str], None]) -> dict[str, float]:
    """Images a second of whole epochs, the best of several; and the seconds of one checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        images = cifar_or_noise(Path(folder))
        keep_freed_memory()
        rivals = {f"lightly, {n} workers": _lightly(images, n) for n in WORKERS}
        best: dict[str, float] = {}
        for i in range(rounds):
            ours, saving = _ours(Path(folder), i)
            best[OURS] = max(best.get(OURS, 0.0), ours)
            best[SAVING] = min(best.get(SAVING, 1e9), saving)
            note("whole epochs", f"{OURS} {best[OURS]:,.0f} images/s")
            for name, epoch in rivals.items():
                best[name] = max(best.get(name, 0.0), epoch())
                note("whole epochs", f"{name} {best[name]:,.0f} images/s")
    return best


def targets(rates: dict[str, float]) -> list[Target]:
    rival = max((rate, name) for name, rate in rates.items() if name.startswith("lightly"))
    ratio = rates[OURS] / rival[0]
    share = rates[SAVING] / (Runtime().checkpoint + rates[SAVING])
    return [
        Target(f"epochs of SimCLR, against {rival[1]}", "≥ 2×", f"{ratio:.1f}×", ratio >= 2),
        Target("checkpoints at their default frequency", "≤ 3 % of the time", f"{share:.2%}", share <= 0.03),
    ]


def cifar_or_noise(folder: Path) -> Images:
    """CIFAR-10 if it is there, else noise: the time is the same. Also written where our side reads it."""
    if SETS["cifar10"].there():
        pixels = load("cifar10").at(torch.arange(IMAGES))
    else:
        pixels = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8)
    np.save(folder / "bench.npy", pixels.permute(0, 2, 3, 1).numpy())
    return load(f"arrays:{folder / 'bench.npy'}")


def _ours(folder: Path, number: int) -> tuple[float, float]:
    settings = {"data": f"arrays:{folder / 'bench.npy'}", "recipe": "simclr-cifar", "batch": BATCH, "epochs": 2}
    config = configure({**settings, "monitor": 0, "test": "train"})
    place = Runtime(out=folder / str(number), quiet=True, checkpoint=1e9)
    (folder / str(number)).mkdir()
    run = Run(fabric_for(config, place), config, place)
    run.to_the_end()
    lines = [json.loads(line) for line in files.lines(folder / str(number) / names.METRICS)]
    first, second = (line["seconds"] for line in lines if "epoch" in line)
    began = time.perf_counter()
    save_checkpoint(folder / str(number) / names.CHECKPOINT, run.state.saved({}, 0))
    return len(run.loader) * BATCH / (second - first), time.perf_counter() - began


def _lightly(images: Images, workers: int) -> Callable[[], float]:
    """An epoch of lightly's SimCLR; gives images per second."""
    torchvision_that_imports()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transforms = importlib.import_module("lightly.transforms")
        loss = importlib.import_module("lightly.loss").NTXentLoss(temperature=0.2)
    image = importlib.import_module("PIL.Image")
    transform = transforms.SimCLRTransform(input_size=32, cj_strength=0.5, gaussian_blur=0.0)
    arrays = images.at(torch.arange(len(images))).permute(0, 2, 3, 1).contiguous().numpy()

    class Views(torch.utils.data.Dataset[list[Tensor]]):
        def __len__(self) -> int:
            return len(arrays)

        def __getitem__(self, i: int) -> list[Tensor]:
            views: list[Tensor] = transform(image.fromarray(arrays[i]))
            return views

    backbone = encoder("convnet", 3, 32)
    network = Network(backbone, head("dystress", backbone.width))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    settings: dict[str, Any] = {"persistent_workers": True} if workers else {}
    loader: Any = torch.utils.data.DataLoader(
        Views(), BATCH, shuffle=True, drop_last=True, num_workers=workers, **settings
    )

    def epoch() -> float:
        began = time.perf_counter()
        for a, b in loader:
            optimizer.zero_grad()
            value = loss(network(a), network(b))
            value.backward()
            optimizer.step()
        return len(loader) * BATCH / (time.perf_counter() - began)

    return epoch
