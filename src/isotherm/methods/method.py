"""What a method is: how embeddings are made, who is compared, and what is remembered. No loop lives here.

A step is ``at(step, steps)``, ``compare(batch).backward()``, the optimizer's own step, ``after_step()``. `compare`
reads the method's state (a bank, a queue, a slow copy), `after_step` writes it. State lives in buffers and slow
copies, so that it is part of ``state_dict()``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from isotherm.losses.loss import Loss
from isotherm.momentum import MomentumCopy as MomentumCopy
from isotherm.momentum import push as push
from isotherm.types import Batch


class Network(nn.Module):
    """An encoder and the head whose embeddings a loss compares."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.head(self.encoder(x))
        return z


@dataclass(frozen=True, eq=False)
class Given:
    """What a run brings to its method besides the network and the loss."""

    width: int
    """How many numbers an embedding has."""
    items: int = 0
    """How many a bank must remember."""
    classes: int = 0
    """How many labels there are."""
    bits: int = 0
    """How many of the last channels are RandBit planes."""
    seed: int = 0
    hard_negatives: bool = False
    """Whether the last view holds those and no positives."""
    views: int = 2
    """How many views of each item there are, without small crops."""
    small_crops: int = 0
    """How many small crops of each item come after its views."""
    predictor: nn.Module | None = None

    def predictor_for(self, method: str) -> nn.Module:
        if self.predictor is None:
            raise ValueError(f"{method} needs a predictor; give it one, such as head('simclr', {self.width}).")
        return self.predictor


class Method(nn.Module):
    """The part every method has. `embed` and `targets` treat each item alone, `objective` compares them all.

    So a batch too large for memory is embedded in parts, judged whole, and embedded again for its gradient
    (`isotherm.train.step`).
    """

    fewest_views: ClassVar[int] = 2
    takes_hard_negatives: ClassVar[bool] = False
    gives_embeddings: ClassVar[bool] = True
    """Whether what `embed` gives are embeddings, whose similarity says whether they collapse."""
    name: str = ""
    """What a user calls it."""
    small_crops: int = 0
    """How many of a batch's views, the last ones, are small crops: they ask, and are no keys, targets or negatives."""
    seed: int = 0
    step: int = 0
    epochs: float = 0.0
    """How often the data were seen."""
    progress: float = 0.0
    """How much of the training is over, from 0 to 1."""

    def __init__(self, network: Network, loss: Loss | None = None) -> None:
        super().__init__()
        self.network = network
        self.loss = loss

    @property
    def compares(self) -> bool:
        """Whether it compares embeddings by their directions."""
        return self.loss is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know of how it was set for these data."""
        return ()

    @property
    def without_small_crops(self) -> str:
        """Why it can use no small crops; empty if it can."""
        return "has no use for views that are never looked for"

    def at(self, step: int, steps: int, each: int = 1) -> None:
        """Tell it, and its loss, where in the training it is, and how many steps a pass over the data has."""
        self.step, self.progress, self.epochs = step, step / max(1, steps), step / each
        if self.loss is not None:
            self.loss.at(self.seed, step)

    def large(self, views: Sequence[Tensor]) -> Sequence[Tensor]:
        """The views, or what was made of them, without the small crops."""
        return views[: len(views) - self.small_crops]

    def embed(self, batch: Batch) -> list[Tensor]:
        """What the trained network makes of each view; the gradient flows through it."""
        return through(self.network, batch.views)

    def targets(self, batch: Batch) -> list[Tensor]:
        """What a slow copy makes of each view but small crops, where there is one; no gradient."""
        return []

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        """The loss of the whole batch."""
        raise NotImplementedError

    def compare(self, batch: Batch) -> Tensor:
        return self.objective(self.embed(batch), self.targets(batch), batch)

    def after_step(self) -> None:
        """Write what is remembered."""

    def check_views(self, views: int) -> None:
        if views < self.fewest_views:
            raise ValueError(
                f"method '{self.name}' needs {self.fewest_views} or more views of each item"
                f"{' beside its small crops' if self.small_crops else ''}, got {views}: say --views "
                f"{self.fewest_views}."
            )


class PredictsSlowCopy(Method):
    """The part of methods that predict what a slow copy of the network makes of each view."""

    def __init__(
        self, network: Network, loss: Loss, predictor: nn.Module, momentum: float, momentum_end: float
    ) -> None:
        super().__init__(network, loss)
        self.predictor = predictor
        self.slow = MomentumCopy(network, momentum, momentum_end)

    without_small_crops = ""

    def embed(self, batch: Batch) -> list[Tensor]:
        return through(nn.Sequential(self.network, self.predictor), batch.views)

    def targets(self, batch: Batch) -> list[Tensor]:
        return through(self.slow, self.large(batch.views))

    def after_step(self) -> None:
        self.slow.follow(self.network, self.progress)


def through(network: Callable[[Tensor], Tensor], views: Sequence[Tensor]) -> list[Tensor]:
    """Each view through the network; views of one size go together."""
    embeddings: dict[int, Tensor] = {}
    for shape in dict.fromkeys(v.shape for v in views):
        numbers = [i for i, v in enumerate(views) if v.shape == shape]
        if len(numbers) * shape[0] == 1 and _normalizes_batches(network):
            raise ValueError("BN needs at least 2 items to normalize, got 1. Use a larger batch.")
        z = network(torch.cat([views[i] for i in numbers]) if len(numbers) > 1 else views[numbers[0]])
        embeddings |= dict(zip(numbers, z.chunk(len(numbers)), strict=True))
    return [embeddings[i] for i in range(len(views))]


def _normalizes_batches(network: Callable[[Tensor], Tensor]) -> bool:
    if not isinstance(network, nn.Module) or not network.training:
        return False
    return any(isinstance(module, nn.BatchNorm1d) for module in network.modules())


def takes(loss: Loss, method: str, instead: str) -> Loss:
    """The loss, if it can use the negatives of a method that pairs by itself."""
    if loss.without_negatives:
        raise ValueError(
            f"{method} compares with {instead}, but {type(loss).__name__} {loss.without_negatives}; use --method "
            f"{method_for(loss)} for that loss."
        )
    if loss.only_for_pairing:
        name = type(loss).__name__
        raise ValueError(
            f"{method} compares with {instead}, whatever {name}({loss.only_for_pairing}) says of the views of a batch: "
            f"leave that out, or use --method {'cacr' if name == 'CACRLoss' else method_for(loss)}."
        )
    return loss


def method_for(loss: Loss | type[Loss]) -> str:
    """The methods that take a loss, whatever it is."""
    if loss.needs_predictor:
        return "byol or simsiam"
    return "supcon" if loss.takes_labels else "simclr"
