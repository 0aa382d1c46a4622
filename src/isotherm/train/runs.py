"""A run's folder: what is in it, whether it may be used, and how to open it again."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import yaml
from safetensors.torch import load_file

from isotherm import doors, files
from isotherm.checks import refusing
from isotherm.encoders import Encoder
from isotherm.encoders.fitting import fitted
from isotherm.encoders.text import HUB, TextEncoder, pretrained
from isotherm.methods import Method
from isotherm.train.build import build
from isotherm.train.choice import Choice
from isotherm.train.commandline import recorded
from isotherm.train.config import Config, without_later
from isotherm.train.layers import Settings, differences, read_yaml
from isotherm.train.modality import MODALITIES, ImageModality, ImageTextModality, SentenceModality, modality_of
from isotherm.train.modality.image_text import OpenedPairs, OpenedTowers, reopen_towers
from isotherm.train.modality.images import ENCODER, OpenedImages, encoder_of
from isotherm.train.modality.modality import Opened, Weights
from isotherm.train.names import CHECKPOINT, CONFIG, LOCK, METRICS, REPLAY, RESULT
from isotherm.train.result import RunResult
from isotherm.train.shared import CONFIG as SHARED_CONFIG
from isotherm.train.shared import IMAGE, WEIGHTS, shared_card
from isotherm.train.state import DIGEST, Saved, digest, how_far, load_checkpoint


class Busy(ValueError):
    """Another process is at work in a run's folder."""


@contextmanager
def taken(out: Path, config: Config, resume: bool) -> Iterator[RunResult | None]:
    """The folder, for this run and for nobody else; the result, if the run is finished already: that needs no lock.

    Nothing in it is written or deleted by a run that is refused.
    """
    finished = looked_into(out, config, resume)
    if finished is not None:
        yield finished
        return
    with alone(out):
        finished = looked_into(out, config, resume)  # somebody may have been here meanwhile
        if finished is None:
            left = set() if _begun(out) else _before_the_first_step(out)
            for name in (*left, REPLAY):  # the last of an earlier attempt, which says that it failed
                (out / name).unlink(missing_ok=True)
        yield finished


def looked_into(out: Path, config: Config, resume: bool) -> RunResult | None:
    """Refuse a folder that is not for this run; the result, if the run is finished already. Nothing is changed."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out names a folder.")
    if not _begun(out):
        if out.exists() and _of_others(out):
            raise ValueError(f"{out} is not empty and holds no run; choose another folder.")
        return None
    changed = differences(without_later(read_config(out)), without_later(config.as_dict()))
    if changed:
        several = "; ".join(changed[:6]) + (f"; and {len(changed) - 6} more" if len(changed) > 6 else "")
        raise ValueError(f"{out} holds a run with other settings ({several}). Choose another folder.")
    if not resume:
        raise ValueError(f"{out} holds this run already; --resume continues it, or choose another --out.")
    return read_result(out) if (out / RESULT).exists() else None


def _begun(out: Path) -> bool:
    """Whether a run has left more than what it writes before its first step."""
    left = any((out / name).exists() for name in (CHECKPOINT, RESULT, REPLAY))
    return (out / CONFIG).exists() and (left or _size(out / METRICS) > 0)


def _before_the_first_step(out: Path) -> set[str]:
    """The files of a run that was killed before it came to anything: it may start anew.

    Its metrics, empty, come first of all (`record`): without them the others are not a run's but somebody's.
    """
    own = {name for modality in MODALITIES for name in modality.own_files}
    return {METRICS, CONFIG, *own} if _size(out / METRICS) == 0 and _is_ours(out / CONFIG) else set()


def _of_others(out: Path) -> set[str]:
    """What lies in a folder and is not of a run that was killed before it came to anything."""
    there = {p.name for p in out.iterdir() if p.name[0] != "."}
    if ours := _before_the_first_step(out):
        there = {name for name in there - ours if name != "wandb" and not name.startswith("events.out.tfevents.")}
    return there


def _is_ours(path: Path) -> bool:
    """Whether these are the settings of a run, or are not there; somebody's own file is neither."""
    try:
        return not path.exists() or {"data", "method", "loss", "seed"} <= read_yaml(path).keys()
    except ValueError:
        return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def record(out: Path, config: Config) -> None:
    """Say which run this folder is, once the run is built; its (empty) metrics are there already."""
    if not (out / CONFIG).exists():
        files.write_text(out / CONFIG, as_yaml(config))


def read_result(out: Path) -> RunResult:
    try:
        return RunResult.from_dict(json.loads(files.text_of(out / RESULT)))
    except (ValueError, TypeError, AttributeError, RecursionError, OSError):
        raise ValueError(f"{out / RESULT} is damaged; delete it, and --resume writes it again.") from None


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Nobody else in this folder, which is made if it is not there; whoever dies lets go of it.

    The lock's file stays: were it removed, one process could lock the file that another has just unlinked.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("a")
    except OSError as error:
        raise ValueError(f"cannot write into {out}: {files.reason(error)}.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(f"another process is at work in {out}; wait for it, or choose another --out.") from error
        except OSError as error:
            raise ValueError(f"cannot lock {out}: {files.reason(error)}.") from error
        files.sweep(out)
        yield


def as_yaml(config: Config) -> str:
    text: str = yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)
    return text


def read_config(out: Path) -> Settings:
    return read_yaml(out / CONFIG)


def last_checkpoint(out: Path) -> Saved | None:
    path = out / CHECKPOINT
    return load_checkpoint(path) if path.exists() else None


def load_encoder(path: Path | str) -> Encoder | TextEncoder:
    """The encoder of a run's folder, of an encoder.safetensors with its card, or of a folder that was pushed or pulled.

    Of image–text pairs the image tower.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"no file or folder {path}: a run's folder, or its {ENCODER}, is wanted.")
    shared = shared_card(path) if path.is_dir() and not (path / ENCODER).exists() else None
    if shared is not None and not (path / WEIGHTS).exists() and (path / IMAGE).is_dir():
        return load_encoder(path / IMAGE)
    path = path / (ENCODER if shared is None else WEIGHTS) if path.is_dir() else path
    card_path = path.with_suffix(".json") if shared is None else path.with_name(SHARED_CONFIG)
    if not path.exists() or not card_path.exists():
        raise ValueError(f"no encoder in {path.parent}: {path.name} and {card_path.name} belong together.")
    card = _card(card_path) if shared is None else shared
    if DIGEST in card and card[DIGEST] != digest(path):
        raise ValueError(f"{path} is not the file that {card_path.name} was written for: it is damaged or another's.")
    with refusing(f"{card_path} does not describe the encoder in {path.name}"):
        if "model" in card:
            return pretrained(f"{HUB}{path.parent / card['model']}", card["pooling"]).eval()
        choice = Choice.of(card["encoder"])
        doors.refuse_strangers(choice.name, card_path)
        if choice.code and choice.stamped().code not in ("", choice.code):
            raise ValueError(f"{card_path}: {choice.name} has changed since this run. Bring the old file back.")
        return fitted(lambda: encoder_of(choice, card["channels"], card["size"]), load_file(path)).eval()


def card_of(folder: Path) -> Settings | None:
    """What a folder says of the encoder in it, shared or a run's; None where there is none."""
    path = (folder / ENCODER).with_suffix(".json")
    return _card(path) if path.is_file() else shared_card(folder)


def _card(path: Path) -> Settings:
    try:
        card = json.loads(files.text_of(path))
    except (ValueError, RecursionError):
        card = None
    if not isinstance(card, dict) or not ("model" in card or "encoder" in card):
        raise ValueError(f"{path} is damaged: it does not say how to build the encoder.")
    return card


def unfinished(out: Path) -> str:
    """What whoever looks at a run that has not ended must know; empty of one that has, or of what is no run."""
    if (out / RESULT).exists() or not (out / CHECKPOINT).exists():
        return ""
    step, steps = how_far(out / CHECKPOINT)
    of = "" if steps is None else f" of {steps:,}"
    return f"step {step:,}{of}: unfinished. `isotherm train` with the run's settings and --resume goes on."


def reopen(out: Path) -> Opened:
    """A run as it stands in its folder, with its last weights (or their average if the run kept one)."""
    with _together(out):
        config, weights = _opened(out)
        return modality_of(config).reopen(out, config, weights)


def open_run(out: Path) -> OpenedImages:
    """A run on images: its network and its data."""
    with _together(out):
        config, weights = _opened(out)
        modality = modality_of(config)
        if modality is not ImageModality:
            raise ValueError(f"{out} learnt from {modality.noun}, and this is about images.")
        return ImageModality.reopen(out, config, weights)


def open_pairs(out: Path) -> OpenedPairs:
    """A run on image–text pairs: its towers and its data."""
    config, weights = _opened(out)
    modality = modality_of(config)
    if modality is not ImageTextModality:
        raise ValueError(f"{out} learnt from {modality.noun}, and this is about image–text pairs.")
    return ImageTextModality.reopen(out, config, weights)


def open_towers(out: Path) -> OpenedTowers:
    """What a run made of image–text pairs: its towers; no data is read."""
    config, weights = _opened(out)
    modality = modality_of(config)
    if modality is not ImageTextModality:
        raise ValueError(f"{out} learnt from {modality.noun}, and this is about image–text pairs.")
    return reopen_towers(out, config, weights)


def open_text_encoder(out: Path) -> tuple[Config, TextEncoder]:
    """What a run made of sentences: its settings, and its encoder; no data is read."""
    with _together(out):
        config, weights = _opened(out)
        modality = modality_of(config)
        if modality is not SentenceModality:
            raise ValueError(f"{out} learnt from {modality.noun} ({config.data}), and this is about sentences.")
        return config, SentenceModality.reopen(out, config, weights).encoder


def open_method(out: Path) -> Method:
    """A run's method as it stands in its folder, with all it remembers: iSogCLR's temperatures, TaU's uncertainty."""
    with _together(out):
        config, saved = _recorded(out)
        method = build(config, out).method
        if config.precision == "64-true":
            method.double()
        method.load_state_dict(saved["method"])
        return method.eval()


def _together(out: Path) -> AbstractContextManager[None]:
    """What comes of settings and weights that are not of one run, in a sentence."""
    return refusing(f"{out}: its {CONFIG} and {CHECKPOINT} do not belong together, or one is damaged")


def _opened(out: Path) -> tuple[Config, Weights]:
    config, saved = _recorded(out)
    state = saved["method"] if saved["average"] is None else saved["average"]
    prefix = "network."
    return config, {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def _recorded(out: Path) -> tuple[Config, Saved]:
    """A run's settings, and its last checkpoint."""
    if not (out / CONFIG).exists():
        raise ValueError(f"{out} is no run: it has no {CONFIG}. `isotherm train --out {out}` makes one.")
    saved = last_checkpoint(out)
    if saved is None:
        lost = (out / RESULT).exists()
        again = f"delete {RESULT}, and `isotherm train` with the run's settings and --resume begins again"
        raise ValueError(f"{out} has lost its {CHECKPOINT}; {again}." if lost else f"{out} has no {CHECKPOINT} yet.")
    return recorded(read_config(out), out / CONFIG), saved
