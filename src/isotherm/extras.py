"""The extras: which one brings a library, what it is for, and the line that installs it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


@dataclass(frozen=True)
class Extra:
    """One of pyproject's extras."""

    purpose: str
    libraries: tuple[str, ...]
    """As they are imported."""


EXTRAS = {
    "lab": Extra(
        "isotherm train, evaluate, inspect, study",
        (
            "rich",
            "matplotlib",
            "sklearn",
            "scipy",
            "PIL",
            "lightning_fabric",
            "jsonargparse",
            "yaml",
            "safetensors",
            "jinja2",
        ),
    ),
    "text": Extra("encoders of sentences from Hugging Face", ("transformers", "tokenizers", "huggingface_hub")),
    "parquet": Extra("data and embeddings in parquet files", ("pyarrow",)),
    "vision": Extra("encoders of torchvision and timm, isotherm detect", ("torchvision", "timm", "pycocotools")),
    "onnx": Extra("isotherm export --to onnx", ("onnx", "onnxscript", "onnxruntime")),
    "ray": Extra("studies on a Ray cluster", ("ray",)),
    "tracking": Extra("--log tensorboard, --log wandb", ("tensorboard", "wandb")),
    "kernels": Extra("fused kernels on a GPU", ("triton",)),
    "docs": Extra("make site", ("mkdocs", "latex2mathml")),
    "peers": Extra("isotherm bench --peers", ("lightly", "pytorch_metric_learning", "kornia", "faiss")),
}


def extra_of(library: str) -> str | None:
    """The extra that brings a library."""
    return next((name for name, extra in EXTRAS.items() if library in extra.libraries), None)


def advice(missing: ModuleNotFoundError) -> str | None:
    """What to do about a library that is not installed; None where no extra brings it."""
    name = (missing.name or "").split(".")[0]
    extra = extra_of(name)
    return None if extra is None else f"this needs {name}: {command(extra)}"


@contextmanager
def named() -> Iterator[None]:
    """Where a library is missing, the error says which extra brings it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        said = advice(missing)
        if said is None or str(missing) == said:
            raise
        raise ModuleNotFoundError(said, name=missing.name, path=missing.path) from missing


def command(extra: str) -> str:
    """The line that installs an extra, from wherever it is typed: by the clone's path, where there is a clone."""
    clone = _clone()
    if clone is None:
        return f"pip install 'isotherm[{extra}]'"
    place = "." if clone == Path.cwd() else os.fspath(clone)
    constraints = shlex.quote("constraints.txt" if place == "." else f"{place}/constraints.txt")
    return f"pip install -c {constraints} {shlex.quote(f'{place}[{extra}]')}"


def _clone() -> Path | None:
    """The folder that Isotherm was installed from, if it is still there."""
    try:
        origin = metadata.distribution("isotherm").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    url = urlsplit(json.loads(origin or "{}").get("url", ""))
    folder = Path(url2pathname(url.path))
    return folder if url.scheme == "file" and (folder / "constraints.txt").is_file() else None
