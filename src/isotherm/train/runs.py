"""A run's folder: what is in it, whether it may be used, and how to open it again."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from safetensors.torch import load_file

from isotherm import doors, files
from isotherm.encoders import Encoder
from isotherm.encoders.text import HUB, TextEncoder, pretrained
from isotherm.train.choice import Choice
from isotherm.train.commandline import recorded
from isotherm.train.config import Config
from isotherm.train.layers import Settings, differences, read_yaml
from isotherm.train.modality import MODALITIES, ImageModality, SentenceModality, modality_of
from isotherm.train.modality.images import ENCODER, OpenedImages, encoder_of
from isotherm.train.modality.modality import Opened, Weights
from isotherm.train.result import RunResult
from isotherm.train.state import Saved, load_checkpoint

CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
CHECKPOINT = "checkpoint.pt"
BEST = "best.pt"
RESULT = "result.json"
REPLAY = "nonfinite.pt"


def prepare(out: Path, config: Config, resume: bool) -> RunResult | None:
    """Make the folder ready for this run, or say why it is not; the result, if the run is finished already."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out names a folder.")
    known = out / CONFIG
    if known.exists() and _begun(out):
        old = read_config(out)
        changed = differences(old, config.as_dict())
        if changed:
            several = "; ".join(changed[:6]) + (f"; and {len(changed) - 6} more" if len(changed) > 6 else "")
            raise ValueError(f"{out} holds a run with other settings ({several}). Choose another --out.")
        if not resume:
            raise ValueError(f"{out} holds this run already; --resume continues it, or choose another --out.")
        if (out / RESULT).exists():
            return read_result(out)
        return None
    leftovers = [name for modality in MODALITIES for name in modality.leftovers]
    if out.exists() and any(
        not p.name.startswith(".") and p.name not in (CONFIG, METRICS, *leftovers) for p in out.iterdir()
    ):
        raise ValueError(f"{out} is not empty and holds no run; choose another --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot make {out}: {error.strerror}.") from error
    for name in leftovers:  # of a run that was refused
        (out / name).unlink(missing_ok=True)
    files.write_text(known, as_yaml(config))
    return None


def _begun(out: Path) -> bool:
    """Whether a run has left anything but its settings: one that was refused has not."""
    metrics = out / METRICS
    return (out / CHECKPOINT).exists() or (out / RESULT).exists() or (metrics.exists() and metrics.stat().st_size > 0)


def read_result(out: Path) -> RunResult:
    try:
        return RunResult.from_dict(json.loads((out / RESULT).read_text()))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"{out / RESULT} is damaged; delete it, and --resume writes it again.") from None


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


def read_config(out: Path) -> Settings:
    return read_yaml(out / CONFIG)


def last_checkpoint(out: Path) -> Saved | None:
    path = out / CHECKPOINT
    return load_checkpoint(path) if path.exists() else None


def load_encoder(path: Path | str) -> Encoder | TextEncoder:
    """The encoder of a run's folder, or of an encoder.safetensors with its card."""
    path = Path(path)
    path = path / ENCODER if path.is_dir() else path
    card_path = path.with_suffix(".json")
    if not path.exists() or not card_path.exists():
        raise ValueError(f"no encoder in {path.parent}: {path.name} and {card_path.name} belong together.")
    card = json.loads(card_path.read_text())
    if "model" in card:
        return pretrained(f"{HUB}{path.parent / card['model']}", card["pooling"]).eval()
    choice = Choice.of(card["encoder"])
    doors.refuse_strangers(choice.name, card_path)
    if choice.code and choice.stamped().code not in ("", choice.code):
        raise ValueError(f"{card_path}: {choice.name} has changed since this run. Bring the old file back.")
    encoder = encoder_of(choice, card["channels"], card["size"])
    encoder.load_state_dict(load_file(path))
    return encoder.eval()


def reopen(out: Path) -> Opened:
    """A run as it stands in its folder, with its last weights (or their average if the run kept one)."""
    config, weights = _opened(out)
    return modality_of(config).reopen(out, config, weights)


def open_run(out: Path) -> OpenedImages:
    """A run on images: its network and its data."""
    config, weights = _opened(out)
    modality = modality_of(config)
    if modality is not ImageModality:
        raise ValueError(f"{out} learnt from {modality.noun}, and this is about images.")
    return ImageModality.reopen(out, config, weights)


def open_text_encoder(out: Path) -> tuple[Config, TextEncoder]:
    """What a run made of sentences: its settings, and its encoder; no data is read."""
    config, weights = _opened(out)
    modality = modality_of(config)
    if modality is not SentenceModality:
        raise ValueError(f"{out} learnt from {modality.noun} ({config.data}), and this is about sentences.")
    return config, SentenceModality.reopen(out, config, weights).encoder


def _opened(out: Path) -> tuple[Config, Weights]:
    if not (out / CONFIG).exists():
        raise ValueError(f"{out} is no run: it has no {CONFIG}. `isotherm train --out {out}` makes one.")
    saved = last_checkpoint(out)
    if saved is None:
        raise ValueError(f"{out} has no {CHECKPOINT} yet.")
    state = saved["method"] if saved["average"] is None else saved["average"]
    prefix = "network."
    config = recorded(read_config(out), out / CONFIG)
    return config, {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
