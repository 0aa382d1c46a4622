"""The measures of two modalities in one space: does an image find its caption, and how do the two clouds lie?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from isotherm.measures import geometry
from isotherm.measures.measure import Measure, Need, as_measure
from isotherm.measures.retrieval import CUTS, Retrieval, retrieval
from isotherm.measures.subject import Subject, healthy


class PairSubject(Subject):
    """Embeddings of images (N, D), of their captions (C, D), and the index of each caption's image.

    As one embedding, for the measures of one, it is that of the images.
    """

    def __init__(self, images: Tensor, texts: Tensor, owner: Tensor, seed: int = 0) -> None:
        super().__init__(images, seed=seed)
        self.texts, self.owner = texts, owner

    @property
    def images(self) -> Tensor:
        return self.embeddings

    @property
    def has(self) -> frozenset[Need]:
        whole = self.healthy and len(self.texts) > 1 and healthy(self.texts)
        return super().has | {"pairs"} if whole else frozenset()

    @cached_property
    def retrieval(self) -> Retrieval:
        return retrieval(self.images, self.texts, self.owner)

    @cached_property
    def text_uniformity(self) -> float:
        return geometry.uniformity(self.texts)

    @cached_property
    def joint_uniformity(self) -> float:
        return geometry.uniformity(torch.cat([self.images, self.texts.to(self.images)]))

    @cached_property
    def alignment(self) -> float:
        return geometry.alignment(self.images[self.owner], self.texts)

    @cached_property
    def gap(self) -> float:
        return geometry.modality_gap(self.images, self.texts)


def _recall(name: str, way: str, k: int, of: Callable[[Any], float]) -> Measure:
    what = f"{way}, R@{k}"
    meaning = f"Share of queries with a right answer among the first {k}, {way}."
    return Measure(name, what, meaning, of, ("retrieval",), ("pairs",), unit="%", better="higher")


def _to_text(k: int) -> Measure:
    return _recall(f"image_to_text_r{k}", "image to text", k, lambda s: s.retrieval.image_to_text.recalls[k])


def _to_image(k: int) -> Measure:
    return _recall(f"text_to_image_r{k}", "text to image", k, lambda s: s.retrieval.text_to_image.recalls[k])


TO_TEXT_1, TO_TEXT_5, TO_TEXT_10 = map(_to_text, CUTS)
TO_IMAGE_1, TO_IMAGE_5, TO_IMAGE_10 = map(_to_image, CUTS)


@as_measure("image to text, median rank", ("retrieval",), needs=("pairs",), better="lower")
def image_to_text_median(subject: Any) -> Any:
    """Median rank of the best of an image's captions among all captions, the first being 1."""
    return subject.retrieval.image_to_text.median


@as_measure("text to image, median rank", ("retrieval",), needs=("pairs",), better="lower")
def text_to_image_median(subject: Any) -> Any:
    """Median rank of a caption's image among all images, the first being 1."""
    return subject.retrieval.text_to_image.median


@as_measure("mean recall", ("retrieval",), needs=("pairs",), unit="%", better="higher", monitor=True)
def mean_recall(subject: Any) -> Any:
    """Mean of R@1, R@5 and R@10 of both directions."""
    return subject.retrieval.mean_recall


@as_measure("modality gap", ("two modalities",), needs=("pairs",), monitor=True)
def modality_gap(subject: Any) -> Any:
    """Distance of the centres of the unit embeddings of images and of texts; 0 when they share one, 2 at most."""
    return subject.gap


@as_measure("alignment of pairs", ("two modalities",), needs=("pairs",), better="lower", monitor=True)
def pair_alignment(subject: Any) -> Any:
    """Mean squared distance of an image and its caption."""
    return subject.alignment


@as_measure("uniformity of texts", ("two modalities",), needs=("pairs",), sign=-1, better="lower")
def text_uniformity(subject: Any) -> Any:
    """How evenly the texts are spread over the sphere."""
    return subject.text_uniformity


@as_measure("uniformity of both", ("two modalities",), needs=("pairs",), sign=-1, better="lower")
def joint_uniformity(subject: Any) -> Any:
    """How evenly images and texts together are spread over the sphere."""
    return subject.joint_uniformity


@as_measure("mean recall, validation", ("validation",), needs=("towers",), unit="%", better="higher")
def validation_recall(subject: Any) -> Any:
    """Mean recall on the validation part, on which settings are chosen: what the test part says stays unseen."""
    return subject.validation_recall


def _zero_shot(data: str, title: str, group: str) -> Measure:
    meaning = f"Share of {title}'s test images whose class is named by its words alone."
    name = f"{ZERO_SHOT}{data}"
    return Measure(
        name, f"zero-shot, {title}", meaning, lambda s: s.zero_shot(data), (group,), ("towers",), "%", better="higher"
    )


ZERO_SHOT = "zeroshot_"
"""Begins the names of these measures; the data's follows."""
ZERO_SHOT_IMAGENETTE = _zero_shot("imagenette", "Imagenette", "zero-shot")
ZERO_SHOT_IMAGENET = _zero_shot("imagenet", "ImageNet", "zero-shot ImageNet")


def zero_shot_sets(measures: Iterable[Measure]) -> list[str]:
    """The data whose classes these measures ask for."""
    return [m.name.removeprefix(ZERO_SHOT) for m in measures if m.name.startswith(ZERO_SHOT)]
