"""What a modality is: everything that training must know of images, or of sentences, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

import isotherm
from isotherm.encoders import Encoder
from isotherm.encoders.text import TextEncoder
from isotherm.encoders.towers import Towers
from isotherm.methods import Network
from isotherm.train.config import Config
from isotherm.train.layers import Settings
from isotherm.train.outcome import Learnt
from isotherm.types import Batch

Weights = Mapping[str, Tensor]
"""The state of a run's network: names begin with ``encoder.`` or ``head.``."""


class Batches(Protocol):
    """What deals out a run's batches."""

    def __len__(self) -> int:
        """Batches in an epoch."""
        ...

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from number `start` on."""
        ...

    def order(self, epoch: int) -> Tensor:
        """The indices of an epoch's items, in order."""
        ...


class Opened(Protocol):
    """A trained run, ready to be probed."""

    @property
    def out(self) -> Path: ...
    @property
    def config(self) -> Config: ...


class Modality(Protocol):
    """What a run learns from, is judged on and leaves behind."""

    noun: ClassVar[str]
    """What the items are called."""
    method: ClassVar[str]
    """The method a run has unless told otherwise."""
    criterion: ClassVar[str]
    """The measure of `monitor` that says which weights are best."""
    own_files: ClassVar[tuple[str, ...]]
    """Files that `keep` may write."""

    @classmethod
    def reads(cls, data: str, encoder: str | None, method: str | None = None) -> bool:
        """Whether this data, for this encoder and method where they are named, is of this modality."""
        ...

    @classmethod
    def of(cls, config: Config, folder: Path | None = None) -> Self:
        """What a configuration learns from; in `folder`, the run's, is what `keep` has written there."""
        ...

    @classmethod
    def reopen(cls, out: Path, config: Config, weights: Weights) -> Opened:
        """The run in a folder, with the weights of its checkpoint."""
        ...

    @property
    def ids(self) -> Tensor: ...
    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know of the data."""
        ...

    @property
    def classes(self) -> int:
        """How many labels there are; 0: none."""
        ...

    @property
    def views(self) -> int:
        """How many tensors a batch has, hard negatives among them, without small crops."""
        ...

    @property
    def small_crops(self) -> int:
        """How many small crops of each item come after them."""
        ...

    @property
    def hard_negatives(self) -> bool:
        """Whether the last of them holds no positives."""
        ...

    def encoder(self) -> Encoder | TextEncoder | Towers:
        """The network, with new weights or pretrained ones."""
        ...

    def loader(self, network: Network, device: torch.device, prefetch: int) -> Batches: ...

    def monitor(self, network: Network, at_most: int | None = None) -> dict[str, float]:
        """Measures of a network in the middle or at the end of training."""
        ...

    def learnt(self, network: Network) -> Learnt | None:
        """What a trained network knows, and what it knew before; None where that is not measured."""
        ...

    def check(self) -> None:
        """Refuse what will only be needed at the end of a run."""
        ...

    def keep(self, folder: Path) -> None:
        """Write what is made of the data and must stay, for a run that begins in this folder."""
        ...

    def fingerprint(self) -> str:
        """What tells these items from others."""
        ...

    def data(self) -> str:
        """What tells the items learnt from and those judged on from others."""
        ...

    def export(self, out: Path, trained: nn.Module) -> None:
        """Write the encoder where others find it."""
        ...

    def opened(self, out: Path, network: Network) -> Opened:
        """What `reopen` gives, of a run that has just ended: nothing is read again."""
        ...


def provenance(config: Config) -> Settings:
    """What the card of every exported encoder says of the run it comes from."""
    return {
        "data": config.data,
        "method": config.method.as_dict(),
        "loss": config.loss.as_dict(),
        "key": config.key,
        "isotherm": isotherm.__version__,
    }
