"""Finished runs as subjects of measures, one file per modality: what several measures need of a run, made once."""

from __future__ import annotations

from isotherm.experiments.trained.image_text import TrainedPairs
from isotherm.experiments.trained.images import TrainedImages
from isotherm.experiments.trained.sentences import TrainedSentences
from isotherm.train.modality.image_text import OpenedPairs
from isotherm.train.modality.images import OpenedImages
from isotherm.train.modality.modality import Opened
from isotherm.train.modality.sentences import OpenedSentences


def trained(run: Opened) -> TrainedImages | TrainedPairs | TrainedSentences:
    """An opened run as its modality measures it."""
    if isinstance(run, OpenedImages):
        return TrainedImages(run)
    if isinstance(run, OpenedPairs):
        return TrainedPairs(run)
    assert isinstance(run, OpenedSentences)
    return TrainedSentences(run)
