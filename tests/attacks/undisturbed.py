"""What two folders hold, compared to the bit; only what a clock said is left out."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

CLOCK = {"seconds"}
"""Entries that say how long."""
PAGES = {".html", ".md"}


def differences(whole: Path, other: Path) -> list[str]:
    """What is not the same in two folders: names, and contents without clocks."""
    a, b = ({str(p.relative_to(f)): p for p in f.rglob("*") if p.is_file()} for f in (whole, other))
    a, b = ({name: p for name, p in files.items() if p.name != ".lock"} for files in (a, b))
    found = [f"{name} is missing" for name in sorted(a.keys() - b.keys())]
    found += [f"{name} is left over" for name in sorted(b.keys() - a.keys())]
    for name in sorted(a.keys() & b.keys()):
        ours, theirs = content(a[name]), content(b[name])
        if ours != theirs:
            found.append(f"{name} differs: {next(_where(ours, theirs), 'somewhere')}")
    return found


def content(path: Path) -> object:
    """A file as a tree of plain values, without clocks."""
    if path.suffix == ".pt":
        return _checkpoint(path)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return {name: _plain(torch.from_numpy(arrays[name])) for name in arrays.files}
    if path.suffix == ".json":
        return _plain(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_plain(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        return [_plain(row) for row in csv.DictReader(io.StringIO(path.read_text()))]
    if path.suffix in PAGES:
        return _without_times(path.read_text())
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _checkpoint(path: Path) -> object:
    """Its tensors and values; the length of the metrics depends on the digits of their seconds, and must be theirs."""
    saved = torch.load(path, weights_only=True)
    if "metrics" in saved:
        saved["metrics"] = saved["metrics"] == path.with_name("metrics.jsonl").stat().st_size
    return _plain(saved)


def _plain(value: object) -> object:
    if isinstance(value, Tensor):
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(raw).hexdigest()}"
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if str(k) not in CLOCK}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return repr(value)


def _without_times(page: str) -> str:
    """A page without what took how long, and when."""
    page = re.sub(r'(data-name="seconds">|seconds of training</dt><dd>)[\d.,]+', "TIME", page)
    page = re.sub(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?", "DATE", page)
    return re.sub(r"[\d.,]+(?:\s|&nbsp;| )(?:seconds?|minutes?|hours?|min|s|h)\b", "TIME", page)


def _where(a: object, b: object, at: str = "") -> Iterator[str]:
    """The places where two trees differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(k for k in b if k not in a)]:
            yield from _where(a.get(key), b.get(key), f"{at}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _where(x, y, f"{at}[{i}]")
    elif a != b:
        if isinstance(a, str) and isinstance(b, str) and len(a) > 200:
            first = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            a, b = a[max(0, first - 40) : first + 60], b[max(0, first - 40) : first + 60]
        yield f"{at or 'it'}: {a!r:.160} and {b!r:.160}"
