"""What a run learns from, one file per modality. A new one is a file here and a place in `MODALITIES`."""

from __future__ import annotations

from isotherm.train.config import Config
from isotherm.train.modality.image_text import ImageTextModality
from isotherm.train.modality.images import ImageModality
from isotherm.train.modality.modality import Modality
from isotherm.train.modality.sentences import SentenceModality

__all__ = [
    "MODALITIES",
    "ImageModality",
    "ImageTextModality",
    "Modality",
    "SentenceModality",
    "modality_for",
    "modality_of",
]

MODALITIES: tuple[type[Modality], ...] = (ImageTextModality, SentenceModality, ImageModality)
"""The first that reads a run's data is the run's; images read whatever nobody else does."""


def modality_for(data: str, encoder: str | None = None, method: str | None = None) -> type[Modality]:
    """The modality of data by its name, and of the encoder and the method where they are named."""
    return next(modality for modality in MODALITIES if modality.reads(data, encoder, method))


def modality_of(config: Config) -> type[Modality]:
    return modality_for(config.data, config.encoder.name, config.method.name)
