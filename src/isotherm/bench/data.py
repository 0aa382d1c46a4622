"""`isotherm bench data`: two 224-pixel views of JPEGs in a folder, against torchvision's pipeline and WebDataset.

Everybody has as many processes as cores, the same files and the same SimCLR recipe, and hands out batches of float
views. The rival is torchvision's transforms in a `DataLoader`, or the same Pillow operations where it is not installed.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torch import Tensor

import isotherm
from isotherm.bench.measure import Target
from isotherm.bench.rivals import torchvision_that_imports
from isotherm.data.decoding.decoders import processes
from isotherm.data.loaders.images import Loader
from isotherm.data.sets import load
from isotherm.data.sharding import shard
from isotherm.train.devices import keep_freed_memory
from isotherm.views import recipe

OURS, OURS_SHARDS = "isotherm, folder", "isotherm, shards"
TORCHVISION, PILLOW = "torchvision in DataLoader workers", "Pillow in DataLoader workers"
WEBDATASET = "WebDataset with Pillow"
BATCH, SIZE = 128, 224
BATCHES = 4
"""Timed in a turn, after as many that are not, in which memory is looked at: the processes have started then."""
DIFFERENT = 256
"""Images that are made; the others are the same under other names."""
LARGEST = 2 << 30
"""Bytes of memory that ours may take, with all its processes."""


@dataclass
class Result:
    """Of each contender with its processes: images a second and processor seconds an image in each round, and the
    most memory, in bytes."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    work: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)

    def ratio(self, rival: str, ours: str = OURS) -> float:
        """How many times faster ours is: the best round of each, in rounds in which they took turns."""
        return max(self.rates[ours]) / max(self.rates[rival])

    def work_ratio(self, rival: str, ours: str = OURS) -> float:
        """How many times less of a processor ours takes for an image: what others do on the machine matters little."""
        mine = min(self.work[ours])
        return min(self.work[rival]) / mine if mine else math.nan  # less than the kernel's clock can tell


def run(rounds: int, images: int, peers: bool, note: Callable[[str, str], None]) -> Result:
    """Images a second of each way; every image gives two views."""
    result = Result()
    with TemporaryDirectory(prefix="isotherm-bench-") as place:
        folder = Path(place)
        note("making JPEGs", f"{images:,} of 500×375")
        write_jpegs(folder / "images" / "train", images)
        shard(folder / "images", folder / "shards")
        names = (OURS, OURS_SHARDS, *((TORCHVISION, WEBDATASET) if peers else (PILLOW,)))
        for number in range(rounds):
            for name in names:
                rate, work, peak = _turn(name, folder)
                result.rates.setdefault(name, []).append(rate)
                result.work.setdefault(name, []).append(work)
                result.memory[name] = max(result.memory.get(name, 0), peak)
                note("timing batches", f"round {number + 1} of {rounds}: {name} {rate:,.0f} images/s")
    return result


def targets(result: Result) -> list[Target]:
    """The promises this run can judge."""
    rival = TORCHVISION if TORCHVISION in result.rates else PILLOW
    ratio, work = result.ratio(rival), result.work_ratio(rival)
    memory = max(result.memory[OURS], result.memory[OURS_SHARDS])
    return [
        Target(f"224-pixel views, against {rival}", "≥ 1.5×", f"{ratio:.2f}×", ratio >= 1.5),
        Target("the same, processor time", "≥ 1.5×", f"{work:.2f}×", work >= 1.5),
        Target("memory with all processes", "< 2 GiB", f"{memory / 2**30:.2f} GiB", memory < LARGEST),
    ]


def write_jpegs(folder: Path, count: int, classes: int = 10) -> None:
    """Photos of 500×375 that nobody took: smooth shapes with grain, about as many bytes as ImageNet's."""
    generator = np.random.default_rng(0)
    for number in range(count):
        file = folder / f"class{number % classes}" / f"{number:06d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        if number < DIFFERENT:
            coarse = Image.fromarray(generator.integers(0, 256, (9, 12, 3), dtype=np.uint8))
            smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), dtype=np.float32)
            grain = generator.normal(0, 14, (375, 500, 1)).astype(np.float32)
            out = io.BytesIO()
            Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=90)
            file.write_bytes(out.getvalue())
        else:
            same = number % DIFFERENT
            os.link(folder / f"class{same % classes}" / f"{same:06d}.jpg", file)


def _ours(name: str) -> Iterator[Any]:
    options: dict[str, Any] = {"lazy": True} if name.startswith("folder:") else {}
    return Loader(load(name, size=SIZE, **options), recipe("simclr", 2, SIZE), BATCH).epoch(0)


def _batches(name: str, folder: Path) -> Iterator[Any]:
    """The batches of one contender."""
    if name in (OURS, OURS_SHARDS):
        keep_freed_memory()  # as training does
        return _ours(f"folder:{folder / 'images'}" if name == OURS else f"shards:{folder / 'shards'}")
    if name == PILLOW:
        return _data_loader(_Files(folder / "images", simclr_by_pillow), True)
    if name == TORCHVISION:
        return _data_loader(_Files(folder / "images", _simclr_by_torchvision()), True)
    return _data_loader(_web_dataset(folder / "shards", _simclr_by_torchvision()), False)


class _Files(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """What everybody first writes: an image is opened, and transformed twice."""

    def __init__(self, folder: Path, transform: Callable[[Any], Tensor]) -> None:
        self.files, self.transform = sorted(str(path) for path in folder.rglob("*.jpg")), transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        with Image.open(self.files[i]) as image:
            whole = image.convert("RGB")
        return self.transform(whole), self.transform(whole)


def _data_loader(dataset: Any, shuffle: bool) -> Iterator[Any]:
    how = {"shuffle": True} if shuffle else {}
    loader = torch.utils.data.DataLoader(dataset, BATCH, num_workers=processes(), drop_last=True, **how)  # type: ignore[arg-type]
    yield from loader


def _web_dataset(folder: Path, transform: Callable[[Any], Tensor]) -> Any:
    wds = importlib.import_module("webdataset")
    shards = sorted(str(path) for path in folder.glob("*.tar"))
    both = _Twice(transform)
    data = wds.WebDataset(shards, shardshuffle=100, workersplitter=wds.split_by_worker, empty_check=False)
    return data.shuffle(1000).decode("pilrgb").to_tuple("jpg").map_tuple(both).map(_first)


class _Twice:
    def __init__(self, transform: Callable[[Any], Tensor]) -> None:
        self.transform = transform

    def __call__(self, image: Any) -> tuple[Tensor, Tensor]:
        return self.transform(image), self.transform(image)


def _first(sample: tuple[Any, ...]) -> Any:
    return sample[0]


def _simclr_by_torchvision() -> Callable[[Any], Tensor]:
    torchvision_that_imports()
    t = importlib.import_module("torchvision.transforms")
    return t.Compose(  # type: ignore[no-any-return]
        [
            t.RandomResizedCrop(SIZE, scale=(0.08, 1.0)),
            t.RandomHorizontalFlip(),
            t.RandomApply([t.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
            t.RandomGrayscale(0.2),
            t.RandomApply([_Blur()], p=0.5),
            t.ToTensor(),
        ]
    )


class _Blur:
    """As MoCo v2 blurs: Pillow's filter, several times faster than torchvision's own."""

    def __call__(self, image: Any) -> Any:
        return image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2.0)))


def simclr_by_pillow(whole: Any) -> Tensor:
    """SimCLR's view of an image, as torchvision's transforms do it with Pillow."""
    width, height = whole.size
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w, h = min(width, height), min(width, height)
    left, top = random.randint(0, width - w), random.randint(0, height - h)
    view = whole.crop((left, top, left + w, top + h)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    if random.random() < 0.5:
        view = ImageOps.mirror(view)
    if random.random() < 0.8:
        for change in random.sample(("Brightness", "Contrast", "Color", "hue"), 4):
            if change == "hue":
                hue, saturation, value = view.convert("HSV").split()
                turned = np.array(hue) + np.uint8(random.uniform(-0.2, 0.2) * 255 % 256)
                view = Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")
            else:
                view = getattr(ImageEnhance, change)(view).enhance(random.uniform(0.2, 1.8))
    if random.random() < 0.2:
        view = ImageOps.grayscale(view).convert("RGB")
    if random.random() < 0.5:
        view = _Blur()(view)
    return torch.from_numpy(np.array(view)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)


def _turn(name: str, folder: Path) -> tuple[float, float, int]:
    """What `_measured` gives, in a process of its own: nobody has another's memory or settings."""
    home = str(Path(isotherm.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    sizes = json.dumps([BATCH, SIZE, BATCHES])
    words = [sys.executable, "-m", "isotherm.bench.data", name, str(folder), sizes]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    rate, work, peak = json.loads(done.stdout.splitlines()[-1])
    return rate, work, peak


def _measured(name: str, folder: Path) -> tuple[float, float, int]:
    """Images a second of one contender, processor seconds an image, and memory."""
    with closing(_batches(name, folder)) as batches:  # type: ignore[type-var]
        with _watched() as peak:  # looking costs the kernel time: not while it is taken
            for _ in itertools.islice(batches, BATCHES):
                pass
        began, worked = time.perf_counter(), _worked()
        for _ in itertools.islice(batches, BATCHES):
            pass
        seconds, worked = time.perf_counter() - began, _worked() - worked
    return BATCHES * BATCH / seconds, worked / (BATCHES * BATCH), peak[0]


def _worked() -> float:
    """Processor seconds of this process and its children so far."""
    ticks = 0
    for pid in (os.getpid(), *_children(os.getpid())):
        with contextlib.suppress(OSError):
            numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(numbers[11]) + int(numbers[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def _watched() -> Iterator[list[int]]:
    """The most memory that this process and its children took, each shared page counted once."""
    peak, stop = [0], threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            peak[0] = max(peak[0], sum(_memory(pid) for pid in (os.getpid(), *_children(os.getpid()))))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def _children(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has ended, or this is no Linux
        return []


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    BATCH, SIZE, BATCHES = json.loads(sys.argv[3])
    print(json.dumps(_measured(sys.argv[1], Path(sys.argv[2]))))
