"""A run's folder: what is in it, whether it may be used, and how to open it again."""

from __future__ import annotations

import fcntl
import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch
import yaml
from safetensors.torch import load_file

import isotherm
from isotherm import files
from isotherm.data.images import Images
from isotherm.data.sentences import is_text
from isotherm.encoders import Encoder
from isotherm.encoders.text import HUB, TextEncoder, pretrained, read_tokenizer
from isotherm.methods import Network
from isotherm.train.build import networks
from isotherm.train.commandline import configure
from isotherm.train.config import Config
from isotherm.train.layers import differences, read_yaml
from isotherm.train.modality import sentences
from isotherm.train.modality.images import ENCODER, ImageModality, encoder_of
from isotherm.train.state import load_checkpoint
from isotherm.views import Recipe

CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
CHECKPOINT = "checkpoint.pt"
BEST = "best.pt"
RESULT = "result.json"
REPLAY = "nonfinite.pt"


def prepare(out: Path, config: Config, resume: bool) -> dict[str, Any] | None:
    """Make the folder ready for this run, or say why it is not; the result, if the run is finished already."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out names a folder.")
    known = out / CONFIG
    if known.exists() and _begun(out):
        old = read_config(out)
        changed = differences(old, config.as_dict())
        if changed:
            shown = "; ".join(changed[:6]) + (f"; and {len(changed) - 6} more" if len(changed) > 6 else "")
            raise ValueError(f"{out} holds a run with other settings ({shown}). Choose another --out.")
        if not resume:
            raise ValueError(f"{out} holds this run already; --resume continues it, or choose another --out.")
        if (out / RESULT).exists():
            return read_result(out)
        return None
    if out.exists() and any(
        not p.name.startswith(".") and p.name not in (CONFIG, METRICS, sentences.TOKENIZER) for p in out.iterdir()
    ):
        raise ValueError(f"{out} is not empty and holds no run; choose another --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot make {out}: {error.strerror}.") from error
    (out / sentences.TOKENIZER).unlink(missing_ok=True)  # of a run that was refused
    files.write_text(known, as_yaml(config))
    return None


def _begun(out: Path) -> bool:
    """Whether a run has left anything but its settings: one that was refused has not."""
    metrics = out / METRICS
    return (out / CHECKPOINT).exists() or (out / RESULT).exists() or (metrics.exists() and metrics.stat().st_size > 0)


def read_result(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / RESULT).read_text())
        if isinstance(found, dict) and "measures" in found:
            return found
    except ValueError:
        pass
    raise ValueError(f"{out / RESULT} is damaged; delete it, and --resume writes it again.")


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Nobody else in this run's folder; whoever dies lets go of it."""
    path = out / ".lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(f"another process is at work in {out}; wait for it, or choose another --out.") from error
        for left in out.glob(".*.[0-9]*"):  # by a process that was killed while it wrote
            left.unlink(missing_ok=True)
        yield
    path.unlink(missing_ok=True)


def as_yaml(config: Config) -> str:
    text: str = yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)
    return text


def read_config(out: Path) -> dict[str, Any]:
    return read_yaml(out / CONFIG)


def last_checkpoint(out: Path) -> dict[str, Any] | None:
    path = out / CHECKPOINT
    return load_checkpoint(path) if path.exists() else None


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


def load_encoder(path: Path) -> Encoder | TextEncoder:
    """The encoder of a run's folder, or of an encoder.safetensors with its card."""
    path = path / ENCODER if path.is_dir() else path
    card_path = path.with_suffix(".json")
    if not path.exists() or not card_path.exists():
        raise ValueError(f"no encoder in {path.parent}: {path.name} and {card_path.name} belong together.")
    card = json.loads(card_path.read_text())
    if "model" in card:
        return pretrained(f"{HUB}{path.parent / card['model']}", card["pooling"]).eval()
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
    config, saved = _opened(out)
    if is_text(config.data):
        raise ValueError(f"{out} learnt from sentences, and this is about images.")
    given = ImageModality.of(config)
    network, _ = networks(config, given.encoder())
    network.load_state_dict(_weights(saved, "network."))
    try:
        test = given.test
    except (ValueError, FileNotFoundError):
        test = None
    return Opened(out, config, network.eval(), given.images, test, given.recipe)


def open_text_encoder(out: Path) -> tuple[Config, TextEncoder]:
    """What a run made of sentences: its settings, and its encoder as the last checkpoint has it; no data is read."""
    config, saved = _opened(out)
    if not is_text(config.data):
        raise ValueError(f"{out} learnt from images ({config.data}), and this is about sentences.")
    own, exported = out / sentences.TOKENIZER, out / sentences.MODEL
    if own.exists():
        encoder = sentences.encoder_of(config, read_tokenizer(own))
    else:  # what it started from may be gone; the exported model has its shape
        start = {"name": f"{HUB}{exported}"} if exported.is_dir() else {}
        encoder = sentences.encoder_of(replace(config, encoder={**config.encoder, **start}))
    encoder.load_state_dict(_weights(saved, "network.encoder."))
    return config, encoder.eval()


def _opened(out: Path) -> tuple[Config, dict[str, Any]]:
    if not (out / CONFIG).exists():
        raise ValueError(f"{out} is no run: it has no {CONFIG}. `isotherm train --out {out}` makes one.")
    saved = last_checkpoint(out)
    if saved is None:
        raise ValueError(f"{out} has no {CHECKPOINT} yet.")
    return configure(read_config(out)), saved


def _weights(saved: dict[str, Any], of: str) -> dict[str, Any]:
    state = saved["method"] if saved["average"] is None else saved["average"]
    return {k.removeprefix(of): v for k, v in state.items() if k.startswith(of)}
