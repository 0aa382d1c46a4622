"""A run's folder: what is in it, whether it may be used, and how to open it again."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
import yaml
from safetensors.torch import load_file

import isotherm
from isotherm.data.images import Images
from isotherm.encoders import Encoder
from isotherm.methods import Network
from isotherm.train import checkpoint
from isotherm.train.build import Built, encoder_of, networks, pictures, views
from isotherm.train.config import Config, configure, differences
from isotherm.views import Recipe

CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
CHECKPOINT = "checkpoint.pt"
BEST = "best.pt"
RESULT = "result.json"
ENCODER = "encoder.safetensors"
REPLAY = "nonfinite.pt"


def prepare(out: Path, config: Config, resume: bool) -> dict[str, Any] | None:
    """Make the folder ready for this run, or say why it is not; the result, if the run is finished already."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out names a folder.")
    known = out / CONFIG
    if known.exists():
        old = read_config(out)
        changed = differences(old, config.as_dict())
        if changed:
            shown = "; ".join(changed[:6]) + (f"; and {len(changed) - 6} more" if len(changed) > 6 else "")
            raise ValueError(f"{out} holds a run with other settings ({shown}). Choose another --out.")
        if not resume:
            raise ValueError(f"{out} holds this run already; --resume continues it, or choose another --out.")
        if (out / RESULT).exists():
            found: dict[str, Any] = json.loads((out / RESULT).read_text())
            return found
        return None
    if out.exists() and any(not p.name.startswith(".") for p in out.iterdir()):
        raise ValueError(f"{out} is not empty and holds no run; choose another --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot make {out}: {error.strerror}.") from error
    checkpoint.write_text(known, as_yaml(config))
    return None


def as_yaml(config: Config) -> str:
    text: str = yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)
    return text


def read_config(out: Path) -> dict[str, Any]:
    found = yaml.safe_load((out / CONFIG).read_text())
    if not isinstance(found, dict):
        raise ValueError(f"{out / CONFIG} holds no settings.")
    return found


def last_checkpoint(out: Path) -> dict[str, Any] | None:
    path = out / CHECKPOINT
    return checkpoint.load(path) if path.exists() else None


def needs_final_checkpoint(out: Path, step: int) -> bool:
    saved = last_checkpoint(out)
    return saved is None or saved["step"] != step


def result(config: Config, measures: Mapping[str, float], seconds: float, steps: int) -> dict[str, Any]:
    return {
        "key": config.key,
        "config": config.as_dict(),
        "measures": dict(measures),
        "seconds": round(seconds, 3),
        "steps": steps,
        "versions": {
            "isotherm": isotherm.__version__,
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "python": platform.python_version(),
        },
        "seed": config.seed,
    }


def export_encoder(out: Path, config: Config, built: Built, encoder: Encoder) -> None:
    images = built.images
    card = {
        "encoder": config.encoder,
        "channels": images.shape[0] + images.bits,
        "size": built.size,
        "width": encoder.width,
        "normalise": {"mean": list(built.recipe.mean), "std": list(built.recipe.std)},
        "data": config.data,
        "method": config.method,
        "loss": config.loss,
        "key": config.key,
        "isotherm": isotherm.__version__,
    }
    checkpoint.export(out / ENCODER, encoder, card)


def load_encoder(path: Path) -> Encoder:
    """The encoder of a run's folder, or of an encoder.safetensors with its card."""
    path = path / ENCODER if path.is_dir() else path
    card_path = path.with_suffix(".json")
    if not path.exists() or not card_path.exists():
        raise ValueError(f"no encoder in {path.parent}: {path.name} and {card_path.name} belong together.")
    card = json.loads(card_path.read_text())
    made = encoder_of(card["encoder"], card["channels"], card["size"])
    made.load_state_dict(load_file(path))
    return made.eval()


@dataclass(frozen=True, eq=False)
class Opened:
    """A run as it stands in its folder."""

    out: Path
    config: Config
    network: Network
    images: Images
    test: Images | None
    recipe: Recipe


def open_run(out: Path) -> Opened:
    """A run's network with its weights (the last, or their average if the run kept one), and its data."""
    if not (out / CONFIG).exists():
        raise ValueError(f"{out} is no run: it has no {CONFIG}. `isotherm train --out {out}` makes one.")
    config = configure(read_config(out))
    saved = last_checkpoint(out)
    if saved is None:
        raise ValueError(f"{out} has no {CHECKPOINT} yet.")
    images = pictures(config, config.split)
    made = views(config, images)
    network, _ = networks(config, images, made.views[0].size or images.shape[1])
    of = saved["method"] if saved["average"] is None else saved["average"]
    network.load_state_dict({k.removeprefix("network."): v for k, v in of.items() if k.startswith("network.")})
    try:
        test: Images | None = None if config.test == config.split else pictures(config, config.test)
    except (ValueError, FileNotFoundError):
        test = None
    return Opened(out, config, network.eval(), images, test, made)
