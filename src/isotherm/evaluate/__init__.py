"""Probes: what the features of a frozen encoder know about the classes. None can send a gradient into it."""

from isotherm.evaluate.extract import features_of
from isotherm.evaluate.fewshot import few_shot, few_shot_finetune
from isotherm.evaluate.finetune import finetune
from isotherm.evaluate.knn import knn
from isotherm.evaluate.linear import fit, linear
from isotherm.evaluate.protocols import PROTOCOLS, Protocol, follow, follow_augmented, protocol
from isotherm.evaluate.scores import Score, Spread

__all__ = [
    "PROTOCOLS",
    "Protocol",
    "Score",
    "Spread",
    "features_of",
    "few_shot",
    "few_shot_finetune",
    "finetune",
    "fit",
    "follow",
    "follow_augmented",
    "knn",
    "linear",
    "protocol",
]
