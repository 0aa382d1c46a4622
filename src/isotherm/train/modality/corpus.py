"""The sentences that a configuration names: read, or a seeded part of them."""

from __future__ import annotations

import torch

from isotherm.checks import did_you_mean
from isotherm.data.sentences import Sentences, load_sentences
from isotherm.streams import uniforms
from isotherm.train import outside_data
from isotherm.train.config import Config

OPTIONS = ("columns", "duplicates", "longest", "bucket")
"""What `data_options` may hold."""


def read(config: Config) -> Sentences:
    """The sentences of a configuration."""
    outside = outside_data.data_address(config.data) is not None
    read_elsewhere = ("bucket", "code") if outside else ("bucket",)
    options = {k: v for k, v in config.data_options.items() if k not in read_elsewhere}
    known = (*OPTIONS, *(outside_data.function_options(config.data) if outside else ()))
    for name in options:
        if name not in known:
            raise TypeError(f"{config.data} has no option '{name}'{did_you_mean(name, known)}")
    bucket = config.data_options.get("bucket", 1)
    if isinstance(bucket, bool) or not isinstance(bucket, int) or bucket < 1:
        raise ValueError(f"bucket must be a whole number of batches, 1 or more; got {bucket!r}.")
    sentences = outside_data.sentences(config.data, options) if outside else load_sentences(config.data, **options)
    if config.images is not None and config.images > len(sentences):
        raise ValueError(f"{sentences.name} has {len(sentences)} sentences; {config.images} are asked for.")
    if config.images is not None and config.images < len(sentences):
        indices = sample(sentences, config.images, config.seed)
        sentences = sentences.subset(indices, f"{config.images} of {len(sentences)} sentences, drawn")
    return sentences


def sample(sentences: Sentences, count: int, seed: int) -> torch.Tensor:
    """The indices of so many sentences, a seeded choice, in order."""
    if count >= len(sentences):
        return torch.arange(len(sentences))
    keys = uniforms(sentences.ids, 1, seed=seed, epoch=0, view=-2)[:, 0]
    return keys.argsort(stable=True)[:count].sort().values
