"""What a run is between two steps, and what it keeps of it on disk: checkpoints, metrics, the exported encoder.

Checkpoints hold tensors and plain values only and load with ``weights_only=True``; a bit that has changed in one is
noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save as as_bytes

from isotherm.checks import refusing
from isotherm.data import fingerprints
from isotherm.files import DiskFull, Json, reason, write_json, write_whole
from isotherm.methods import Method, MomentumCopy
from isotherm.train.config import Config, without_later
from isotherm.train.layers import differences, nested

if TYPE_CHECKING:
    from isotherm.train.build import Built

FORMAT = 1
DIGEST = "sha256"
"""Where an encoder's card has the digest of its weights."""
WAYS = ("fused", "foreach", "capturable")
"""What an optimizer's groups say of how it computes, which belongs to the device and not to the run."""
Saved = dict[str, Any]
"""What a checkpoint holds: tensors and plain values by name."""
HOLDS: Mapping[str, Any] = {
    "config": dict,
    "step": int,
    "steps": int | None,
    "method": dict,
    "optimizer": dict,
    "average": dict | None,
    "precision": dict,
    "metrics": int,
    "seconds": float,
    "skipped": int,
    "loss": list,
    "best": float,
    "fingerprint": str,
    "warned": bool,
}
NEEDED = ("config", "step", "method", "average", "precision", "metrics")
"""What is read of it before anything is compared."""


@dataclass
class State:
    """What a run is made of between two steps."""

    config: Config
    built: Built
    optimizer: torch.optim.Optimizer
    average: MomentumCopy | None
    steps: int
    """Of the whole run."""
    step: int = 0
    seconds: float = 0.0
    skipped: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    """Over the epoch so far."""
    late_sum: float = 0.0
    late_count: int = 0
    """Over the last tenth of the steps so far."""
    best: float = -1.0
    fingerprint: str = ""
    warned: bool = False
    last_save: float = field(default_factory=time.monotonic)
    save_seconds: float = 0.0

    @property
    def method(self) -> Method:
        return self.built.method

    def saved(self, precision: Saved, metrics: int) -> Saved:
        return {
            "config": self.config.as_dict(),
            "step": self.step,
            "steps": self.steps,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "precision": precision,
            "metrics": metrics,
            "seconds": self.seconds,
            "skipped": self.skipped,
            "loss": [self.loss_sum, float(self.loss_count), self.late_sum, float(self.late_count)],
            "best": self.best,
            "fingerprint": self.fingerprint,
            "warned": self.warned,
            "rng": torch.get_rng_state(),
        }

    def restore(self, saved: Saved) -> None:
        with refusing("the checkpoint does not fit this run; it is damaged, or another version's"):
            changed = differences(without_later(nested(saved["config"])), without_later(self.config.as_dict()))
            if changed:
                raise ValueError(f"the checkpoint belongs to a run with other settings ({'; '.join(changed[:6])}).")
            refuse_other_items(self.config, saved, self.fingerprint)
            self._take(saved)

    def _take(self, saved: Saved) -> None:
        self.method.load_state_dict(saved["method"])
        ways = [{name: group.get(name) for name in WAYS} for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(saved["optimizer"] if "optimizer" in saved else saved["optimiser"])
        for group, way in zip(self.optimizer.param_groups, ways, strict=True):
            group.update({name: value for name, value in way.items() if name in group})
        if self.average is not None:
            self.average.load_state_dict(saved["average"])
        self.step, self.seconds, self.skipped = saved["step"], saved["seconds"], saved["skipped"]
        self.loss_sum, count, self.late_sum, late = (*saved["loss"], 0.0, 0.0)[:4]  # before 2026-11-19 they were two
        self.loss_count, self.late_count = int(count), int(late)
        self.best, self.warned = saved["best"], saved["warned"]


def refuse_other_items(config: Config, saved: Saved, fingerprint: str) -> None:
    """Refuse to go on from, or to take the result of, a run on other data than is there now."""
    if not fingerprints.same(saved["fingerprint"], fingerprint):
        raise ValueError(
            f"the items of {config.data} are not those this run was started with (fingerprint "
            f"{fingerprint} instead of {saved['fingerprint']}). Bring the old data back, or start a new run."
        )


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    write_whole(path, lambda file: torch.save({"format": FORMAT, **state}, file))


def load_checkpoint(path: Path) -> Saved:
    """A checkpoint, on the CPU; one that is not what was written is refused."""
    try:
        check_intact(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {reason(error)}.") from error
    except Exception as error:  # whatever a reader says of bytes that make no sense; torch's advice is not for us
        raise ValueError(
            f"{path} is no checkpoint that loads: it is damaged. Bring a copy of it back, or delete it (and the "
            "result.json of a run that had ended), and --resume begins again."
        ) from error
    if not isinstance(state, dict) or state.get("format") != FORMAT or "fingerprint" not in state:
        raise ValueError(f"{path} is no checkpoint of this version of isotherm.")
    for name, kind in HOLDS.items():
        if name in state and not isinstance(state[name], kind):
            raise ValueError(f"{path} is damaged: its {name} is {state[name]!r:.60}.")
    missing = [name for name in NEEDED if name not in state]
    if missing or not all(isinstance(name, str) for name in (*state["config"], *state["method"])):
        raise ValueError(f"{path} is damaged: {f'it has no {missing[0]}' if missing else 'its names are none'}.")
    return state


def how_far(path: Path) -> tuple[int, int | None]:
    """At which step a checkpoint that loads was written, and of how many: earlier versions did not say. It is not read
    whole."""
    with refusing(f"{path} is no checkpoint that loads"):
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return state["step"], state.get("steps")


def check_intact(path: Path) -> None:
    """Refuse a file of torch's in which a bit has changed.

    It is a zip archive with a checksum of every tensor in it, which torch writes and does not look at.
    """
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"{damaged} in {path} is not what was written.")


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
            raise DiskFull(f"cannot write {self.path}: {reason(error)}.") from error

    def length(self) -> int:
        """How long it is, once it is on the disk; refused if it was deleted under the run: lines would be lost."""
        self.file.flush()
        if os.fstat(self.file.fileno()).st_nlink == 0:
            raise ValueError(f"{self.path} was deleted under the run, and its lines with it. Start the run anew.")
        os.fsync(self.file.fileno())
        return self.file.tell()

    def close(self) -> None:
        self.file.close()


def export_encoder(path: Path, encoder: torch.nn.Module, card: Json) -> None:
    """The encoder's weights as safetensors, and beside them a card that says how to build it."""
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in encoder.state_dict().items()}
    write_whole(path, lambda file: (file.write(as_bytes(tensors)), None)[1])
    write_card(path, card)


def write_card(weights: Path, card: Json) -> None:
    """The card of an encoder, which knows its weights by their digest."""
    write_json(weights.with_suffix(".json"), {**card, DIGEST: digest(weights)})


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
