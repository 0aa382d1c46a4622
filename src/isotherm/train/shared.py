"""A shared model's folder, in the hub's layout: README.md (the card), config.json, model.safetensors.

config.json is that of the library which loads the model, and has under "isotherm" what encoder.json of a run has.
"""

from __future__ import annotations

import json
from pathlib import Path

from isotherm.train.layers import Settings

CARD, CONFIG, WEIGHTS = "README.md", "config.json", "model.safetensors"
ENTRY = "isotherm"
IMAGE, TEXT = "image", "text"
"""The parts of a shared run on pairs, each a folder of its own."""


def shared_card(folder: Path) -> Settings | None:
    """What a shared folder says of its encoder; None where it is no such folder."""
    path = folder / CONFIG
    if not path.is_file():
        return None
    try:
        card = json.loads(path.read_text(encoding="utf-8")).get(ENTRY)
    except (ValueError, AttributeError, RecursionError):
        return None
    return card if isinstance(card, dict) and ("model" in card or "encoder" in card) else None
