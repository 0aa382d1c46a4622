"""What a run keeps on disk between two steps: checkpoints, metrics, the exported encoder.

Checkpoints hold tensors and plain values only and load with ``weights_only=True``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as as_bytes

from isotherm.files import DiskFull, write_json, write_whole

FORMAT = 1


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    write_whole(path, lambda file: torch.save({"format": FORMAT, **state}, file))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint, on the CPU."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(f"{path} is no checkpoint that loads ({str(error).splitlines()[0]}).") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT or "fingerprint" not in state:
        raise ValueError(f"{path} is no checkpoint of this version of isotherm.")
    return state


class Metrics:
    """metrics.jsonl: a line for each thing measured, none lost and none twice.

    A checkpoint remembers how long the file was; a resumed run cuts off what came after and writes it again.
    """

    def __init__(self, path: Path, length: int = 0) -> None:
        self.path = path
        if not path.exists():
            path.touch()
        if path.stat().st_size < length:
            raise ValueError(
                f"{path} is shorter than the checkpoint remembers ({path.stat().st_size} bytes of {length}): "
                "it was changed. Bring it back, or start a new run."
            )
        self.file = path.open("r+b")
        self.file.truncate(length)
        self.file.seek(length)

    def add(self, line: Mapping[str, Any]) -> None:
        try:
            self.file.write(json.dumps(line).encode() + b"\n")
            self.file.flush()
        except OSError as error:
            raise DiskFull(f"cannot write {self.path}: {error.strerror}.") from error

    def length(self) -> int:
        """How long it is, once it is on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def close(self) -> None:
        self.file.close()


def export_encoder(path: Path, encoder: torch.nn.Module, card: Mapping[str, Any]) -> None:
    """The encoder's weights as safetensors, and beside them a card that says how to build it."""
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in encoder.state_dict().items()}
    write_whole(path, lambda file: (file.write(as_bytes(tensors)), None)[1])
    write_json(path.with_suffix(".json"), card)
