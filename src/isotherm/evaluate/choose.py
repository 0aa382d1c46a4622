"""Which evaluator suits what is to be evaluated: that of its modality."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from isotherm.encoders import text
from isotherm.evaluate import image_text, images, sentences
from isotherm.evaluate.assessment import Evaluator
from isotherm.train import names, runs
from isotherm.train.choice import Choice
from isotherm.train.modality import ImageModality, ImageTextModality, SentenceModality, modality_for

EVALUATORS: Mapping[str, Evaluator] = {
    ImageModality.noun: images,
    SentenceModality.noun: sentences,
    ImageTextModality.noun: image_text,
}
"""By what the items of a modality are called."""


def evaluator_of(source: str) -> Evaluator:
    return EVALUATORS[noun_of(source)]


def noun_of(source: str) -> str:
    """What an encoder was trained on: a run's folder says so; minilm, hf:NAME and a model's folder read sentences."""
    folder = Path(source)
    if text.is_text_encoder(source):
        return SentenceModality.noun
    if folder.is_file():
        raise ValueError(f"{source} is a file, a run's folder is wanted. Embeddings: isotherm inspect {source}")
    if (folder / names.CONFIG).exists():
        settings = runs.read_config(folder)
        parts = (Choice.of(settings.get(part) or {}).name or None for part in ("encoder", "method"))
        return modality_for(str(settings.get("data")), *parts).noun
    if (folder / "config.json").exists():
        return SentenceModality.noun
    if not folder.exists():
        raise ValueError(f"no folder {source}: a run's is wanted, of sentences also minilm or hf:NAME.")
    return ImageModality.noun
