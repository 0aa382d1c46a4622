"""Batches of views of images: the same images and the same views in every run with the same seed (`dealing`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isotherm.data.images import Images
from isotherm.data.loaders.dealing import Dealing, ahead, batches_of, check, dealt, shuffled
from isotherm.data.loaders.whole import WholeImages
from isotherm.data.probing import append_bits
from isotherm.types import Batch
from isotherm.views.recipes import Recipe
from isotherm.views.threads import one_core_threads
from isotherm.waiting import brought


@dataclass(frozen=True, eq=False)
class Loader(Dealing):
    """Batches of views of a set of images.

    `batch` counts images over all processes; this process, `rank` of `world`, gets its share of each batch, and the
    shares of all of them together are the batch of one process, in order.
    """

    images: Images
    recipe: Recipe
    batch: int
    seed: int = 0

    def __post_init__(self) -> None:
        advice = "use a smaller batch (--batch, or drop_last=False in Python to keep the last, incomplete one)."
        check(self, len(self.images), self.images.name, "image", advice)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return batches_of(len(self.images), self.batch, self.drop_last)

    def order(self, epoch: int) -> Tensor:
        """The indices of the images in this epoch's order."""
        return shuffled(self.images.ids, self.seed, epoch) if self.shuffle else torch.arange(len(self.images))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on."""
        if WholeImages.suit(self.images, self.recipe):
            return self._from_whole_images(epoch, start)
        return dealt(self, self._batch, epoch, start)

    def _from_whole_images(self, epoch: int, start: int) -> Iterator[Batch]:
        """The same, cropped from images that are still in their files, by processes that decode."""
        most = -(-self.batch // self.world)
        depth = max(1, self.prefetch)
        with ExitStack() as held:
            source = held.enter_context(WholeImages(self.images, self.recipe, self.seed, epoch, most, depth))
            on_processor = torch.device(self.device).type == "cpu"
            threads = held.enter_context(one_core_threads(torch.get_num_threads())) if on_processor else None
            shares = dealt(replace(self, prefetch=0), lambda indices, _: indices, epoch, start)
            crops = source.batches(shares)

            def next_batch(number: int) -> Batch:
                indices, cropped = next(crops)
                ids = brought(self.images.ids[indices], self.device)
                cropped = [brought(crop, self.device) for crop in cropped]
                views = self.recipe.from_crops(cropped, ids, seed=self.seed, epoch=epoch, threads=threads)
                return self._labelled(views, indices)

            numbers = range(start, len(self))
            yield from ahead(next_batch, numbers, 1) if self.prefetch else map(next_batch, numbers)

    def _batch(self, indices: Tensor, epoch: int) -> Batch:
        pixels = brought(self.images.at(indices), self.device)
        ids = brought(self.images.ids[indices], self.device)
        return self._labelled(self.recipe(pixels, ids, seed=self.seed, epoch=epoch), indices)

    def _labelled(self, views: list[Tensor], indices: Tensor) -> Batch:
        views = [append_bits(view, self.images, indices) for view in views]
        return Batch(views, brought(self.images.labels[indices], self.device), brought(indices, self.device))
