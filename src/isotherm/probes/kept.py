"""What a fine-tuning that was interrupted goes on from: a file of its own, written whole after an epoch."""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from isotherm.files import write_whole

PAUSE = 5.0
"""Seconds between two writings, at least: an epoch of a few images takes less than its file."""
KEY = "{key}"


class Kept:
    """The state of one fine-tuning, in a file; without a file nothing is kept.

    `settings` tell one fine-tuning from another: a file of another is refused, never mixed in. `{key}` in the file's
    name stands for what tells them apart, so that each has one of its own.
    """

    def __init__(self, path: Path | None, settings: Any) -> None:
        self.key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        self.path = path = None if path is None else path.with_name(path.name.replace(KEY, self.key))
        self.state: dict[str, Any] = {"key": self.key, "worths": {}, "training": None}
        self._written = time.monotonic()
        if path is None or not path.exists():
            return
        try:
            self.state = torch.load(path, weights_only=True)
            key = self.state["key"]
        except (OSError, RuntimeError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{path} is damaged; delete it, and the fine-tuning starts anew.") from error
        if key != self.key:
            raise ValueError(f"{path} is of a fine-tuning with other settings or data; delete it or name another.")

    def worth(self, name: str) -> float | None:
        """What a search says about one of its ways, if it has tried it."""
        worth: float | None = self.state["worths"].get(name)
        return worth

    def put_worth(self, name: str, worth: float) -> None:
        self.state["worths"][name] = worth
        self._write()

    def load(self, name: str, parts: Mapping[str, Any]) -> int:
        """Bring the parts to where this training stood; how many epochs it had."""
        training = self.state["training"]
        if training is None or training["name"] != name:
            return 0
        for part, thing in parts.items():
            thing.load_state_dict(training[part])
        torch.set_rng_state(training["random"])
        return int(training["epochs"])

    def save(self, name: str, parts: Mapping[str, Any], epochs: int) -> None:
        """Keep the parts as they are after so many epochs, unless that was done a moment ago."""
        if self.path is None or time.monotonic() - self._written < PAUSE:
            return
        states = {part: thing.state_dict() for part, thing in parts.items()}
        self.state["training"] = {"name": name, "epochs": epochs, "random": torch.get_rng_state(), **states}
        self._write()

    def done(self) -> None:
        """The fine-tuning has come to its end: nothing is to be kept of it."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, lambda file: torch.save(self.state, file))
            self._written = time.monotonic()
