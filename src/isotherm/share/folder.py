"""A run written as a model: README.md, config.json, model.safetensors, and what the library that loads it needs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from isotherm import files
from isotherm.encoders import ResNet
from isotherm.evaluate import export
from isotherm.evaluate.encode import modality_at
from isotherm.share.card import PICTURE, Told, card
from isotherm.share.facts import Facts, facts_of, public, public_card
from isotherm.share.picture import draw_map
from isotherm.train import runs
from isotherm.train.layers import Settings
from isotherm.train.modality import ImageTextModality, SentenceModality
from isotherm.train.modality.images import ENCODER
from isotherm.train.shared import CARD, CONFIG, ENTRY, WEIGHTS, shared_card
from isotherm.train.state import DIGEST, digest

TIMM = "timm"


def write_model(run: Path, folder: Path, name: str, license: str | None, layout: str) -> list[str]:
    """The model of a run in a folder, whole or not at all, in place of one that was there; what is to be said of it."""
    facts = facts_of(run)
    part = files.beside(folder)
    try:
        part.mkdir()
    except OSError as error:
        raise ValueError(f"cannot write {folder}: {files.reason(error)}.") from error
    try:
        told = replace(_write_weights(run, facts, part), name=name, license=license)
        notes = [f"{run}: {facts.unfinished}"] if facts.unfinished else []
        if layout != "none":
            try:
                told = replace(told, picture=draw_map(run, facts.config, part / PICTURE, layout))
            except (ValueError, FileNotFoundError) as error:
                notes.append(f"the card has no picture: {error}")
        files.write_text(part / CARD, card(facts, told))
        _list_files(part)
        _keep_others(folder, part)
        former = files.beside(folder.with_name(f"{folder.name}.former"))
        if folder.exists():
            folder.rename(former)
        part.rename(folder)
        shutil.rmtree(former, ignore_errors=True)
    except OSError as error:
        raise files.DiskFull(f"cannot write {folder}: {files.reason(error)}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return notes


def _list_files(part: Path) -> None:
    """What belongs to the model, in our entry of its config.json: whoever replaces it deletes that and no more."""
    config = json.loads((part / CONFIG).read_text())
    config[ENTRY]["files"] = sorted(path.name for path in part.iterdir())
    files.write_json(part / CONFIG, config)


def _keep_others(folder: Path, part: Path) -> None:
    """Refuse to replace a folder with files in it that no model brought: notes, a repository, somebody's results."""
    known = {path.name for path in part.iterdir()} | set((shared_card(folder) or {}).get("files", ()))
    others = sorted(path.name for path in folder.iterdir() if path.name not in known) if folder.exists() else []
    if others:
        raise ValueError(f"{folder} holds {others[0]}, which is not of a model; move it, or name another folder.")


def _write_weights(run: Path, facts: Facts, folder: Path) -> Told:
    modality = modality_at(run)
    assert modality is not None  # `facts_of` has looked
    if modality is ImageTextModality:
        return _write_towers(run, folder)
    if not (run / ENCODER).exists():
        raise ValueError(f"{run} has no {ENCODER} yet: only a run that has ended can be shared.")
    runs.load_encoder(run)  # refuses what is damaged
    entry = runs.card_of(run) or {}
    if modality is SentenceModality:
        shutil.copytree(run / entry["model"], folder, dirs_exist_ok=True)
        _write_config(folder, json.loads((folder / CONFIG).read_text()), {**entry, "model": "."})
        return Told("", modality.noun, "sentence-transformers", entry["width"])
    shutil.copyfile(run / ENCODER, folder / WEIGHTS)
    timm = timm_config(run, entry)
    _write_config(folder, timm, entry)
    return Told("", modality.noun, TIMM if timm else "isotherm", entry["width"])


def _write_towers(run: Path, folder: Path) -> Told:
    folder.rmdir()
    export.export(run, folder)
    own = json.loads((folder / CONFIG).read_text())
    card_path = (folder / export.IMAGE / ENCODER).with_suffix(".json")
    image = public_card(json.loads(card_path.read_text()))
    files.write_json(card_path, image)
    files.write_json(folder / CONFIG, {**public(own), ENTRY: image})
    (folder / CARD).rename(folder / "USE.md")
    return Told("", ImageTextModality.noun, "isotherm", image["width"])


def _write_config(folder: Path, config: Settings, entry: Settings) -> None:
    """config.json of the library that loads the model, and in it our own entry, which knows the weights by digest."""
    entry = {**public_card(entry), DIGEST: digest(folder / WEIGHTS)}
    files.write_json(folder / CONFIG, {**config, ENTRY: entry})


def timm_config(run: Path, entry: Settings) -> Settings:
    """What timm reads, where the network is one of its own: ``timm:NAME``, or a ResNet with the usual stem."""
    name = str(entry["encoder"]["name"])
    if name.startswith("timm:"):
        architecture = name.removeprefix("timm:").partition(".")[0]
    else:
        encoder = runs.load_encoder(run)
        if not isinstance(encoder, ResNet) or encoder.conv1.kernel_size != (7, 7):
            return {}
        architecture = name
    channels, size, normalize = entry["channels"], entry["size"], entry["normalize"]
    return {
        "architecture": architecture,
        "num_classes": 0,
        "num_features": entry["width"],
        "model_args": {"in_chans": channels},
        "pretrained_cfg": {
            "input_size": [channels, size, size],
            "fixed_input_size": False,
            "mean": normalize["mean"] or [0.0] * channels,
            "std": normalize["std"] or [1.0] * channels,
            "interpolation": "bilinear",
            "crop_pct": 1.0,
            "num_classes": 0,  # no first_conv: timm would adapt its weights to other channels, which they have already
        },
    }


def check_model(folder: Path, where: str) -> None:
    """Refuse a folder that is no shared model of ours, and say what it lacks."""
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{where} is no model: it has no {CONFIG}.")
    if shared_card(folder) is None:
        raise ValueError(
            f"{where} was not pushed by Isotherm: its {CONFIG} has no entry '{ENTRY}'. Others' models are taken by "
            "evaluate --on and embed as hf:NAME."
        )
    if not (folder / CARD).is_file():
        raise ValueError(f"{where} has no card ({CARD}), which says what it is and on which terms; ask its maker.")
    runs.load_encoder(folder)  # refuses what is damaged or another's
