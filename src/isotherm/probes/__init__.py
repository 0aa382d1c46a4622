"""Probes: what the features of a frozen encoder know about the classes. None can send a gradient into it."""

from isotherm.probes.extract import features_of
from isotherm.probes.fewshot import few_shot, few_shot_finetune
from isotherm.probes.finetune import finetune
from isotherm.probes.knn import knn
from isotherm.probes.linear import fit, linear
from isotherm.probes.protocols import PROTOCOLS, Protocol, follow, follow_augmented, protocol
from isotherm.probes.scores import Score, Spread

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
