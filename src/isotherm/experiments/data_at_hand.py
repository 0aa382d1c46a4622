"""Which data is behind a name today: a run that learnt from other data is not the run that a study asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from isotherm.train.config import Config
from isotherm.train.modality import ImageModality, ImageTextModality, modality_of, sentences
from isotherm.train.modality.image_text import pairs_of, view_of


def fingerprint(config: Config) -> str:
    """What tells the data behind a configuration from other data: of the part learnt from and the part judged on.

    Whole, before anything is drawn from it or put on it: what is done to it follows from the settings.
    """
    whole = replace(config, images=None, imbalance="none", randbit=0, digits=0)
    modality = modality_of(whole)
    if modality is ImageTextModality:
        size = view_of(whole).views[0].size
        return "-".join(
            pairs_of(whole, split, size).fingerprint() for split in dict.fromkeys((whole.split, whole.test))
        )
    if modality is not ImageModality:
        return sentences.read(whole).fingerprint()
    return ImageModality.of(whole).data()


def fingerprints(configs: Iterable[Config]) -> dict[str, str]:
    """By the keys of runs, each set read once; empty where the data is not at hand."""
    by_data: dict[str, str] = {}
    by_key = {}
    for config in configs:
        data = repr((modality_of(config), config.data, config.data_options, config.split, config.test))
        if data not in by_data:
            try:
                by_data[data] = fingerprint(config)
            except (ValueError, OSError):
                by_data[data] = ""
        by_key[config.key] = by_data[data]
    return by_key
