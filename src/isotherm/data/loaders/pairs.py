"""Batches of image–text pairs: an image and some of its captions, the same in every run with the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.data.captioned import Captioned
from isotherm.data.loaders.dealing import Dealing, batches_of, check, dealt, shuffled
from isotherm.types import Batch


@dataclass(frozen=True, eq=False)
class PairLoader(Dealing):
    """Batches of pairs: view 0 is what the image tower takes, each further view what the text tower takes.

    `captions` of each image are drawn every epoch, all different where it has as many. `batch` counts images over all
    processes; this process, `rank` of `world`, gets its share of each batch, and the shares of all of them together are
    the batch of one process, in order.
    """

    pairs: Captioned
    image: Callable[[Tensor, int], tuple[Tensor, Tensor]]
    """Indices and the epoch to images, or their features, and the indices of those that these are."""
    text: Callable[[Tensor], list[Tensor]]
    """Numbers of captions (n, K) to K views: tokens, or features."""
    batch: int
    captions: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        advice = "contrastive learning needs others to compare with. Use a smaller batch or more pairs."
        check(self, len(self.pairs), self.pairs.name, "image", advice)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return batches_of(len(self.pairs), self.batch, self.drop_last)

    def order(self, epoch: int) -> Tensor:
        """The indices of the images in this epoch's order."""
        return shuffled(self.pairs.ids, self.seed, epoch) if self.shuffle else torch.arange(len(self.pairs))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on."""
        return dealt(self, self._batch, epoch, start)

    def _batch(self, indices: Tensor, epoch: int) -> Batch:
        image, indices = self.image(indices, epoch)
        numbers = self.pairs.drawn(indices, self.captions, seed=self.seed, epoch=epoch)
        views = [image, *self.text(numbers)]
        labels = torch.full((len(indices),), -1, device=self.device)
        return Batch([view.to(self.device) for view in views], labels, indices.to(self.device))
