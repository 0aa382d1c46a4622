"""A finished run that learnt from sentences: STS, the transfer tasks, and what it was before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from isotherm.data import senteval
from isotherm.encoders.text import SMALL, TextEncoder, read_tokenizer, remembering
from isotherm.experiments.trained.run import TrainedRun
from isotherm.measures.measure import Need
from isotherm.probes.sts import Encode, dev_score, sts
from isotherm.probes.transfer import transfer
from isotherm.train.modality import first_run
from isotherm.train.modality import sentences as modality
from isotherm.train.modality.sentences import OpenedSentences

EMBEDDED = 2000
"""Sentences of which there are embeddings."""
NAMES = {"STS-B": "stsb", "SICK-R": "sickr"}
"""What a task is called among the measures; the others: as it is, in small letters."""


class TrainedSentences(TrainedRun):
    """A finished run, and what several measures need of it, made once."""

    noun = "sentences"

    def __init__(self, run: OpenedSentences) -> None:
        self.folder, self.config, self.encoder = run.out, run.config, run.encoder
        self.tasks = senteval.folder()
        self.seen = self.result.measures
        """What the run itself measured when it ended (`SentenceModality.monitor`)."""

    @property
    def could_have(self) -> frozenset[Need]:
        return self.has

    @property
    def has(self) -> frozenset[Need]:
        return frozenset(("sentences", "embeddings", "run"))

    @property
    def uniformity(self) -> float | None:
        return self.seen.get("uniformity")

    @property
    def effective_rank(self) -> float | None:
        return self.seen.get("effective_rank")

    @cached_property
    def encode(self) -> Encode:
        return remembering(self.encoder)

    @cached_property
    def similarity(self) -> dict[str, float | None]:
        """Spearman's correlation by task, and their mean where all are there."""
        result = sts(self.encode, self.tasks)
        each = {NAMES.get(name, name.lower()): task.spearman for name, task in result.tasks.items()}
        return each | ({"sts": result.average} if result.complete else {})

    @cached_property
    def transfer(self) -> dict[str, float]:
        """Accuracy by task, and their mean where all are there."""
        result = transfer(self.encode, self.tasks)
        each = {name.lower().replace("-", ""): task.accuracy for name, task in result.tasks.items()}
        return each | ({"transfer": result.average} if result.complete else {})

    @cached_property
    def before(self) -> tuple[float | None, float | None, float | None]:
        """STS-B's dev part by the untrained encoder, by the trained words, by the untrained words."""
        if self.config.encoder["name"] != SMALL:  # where a pretrained one starts is no question of the run
            return None, None, None
        encoders: Sequence[Encode] = (self.untrained.encode, words(self.encoder), words(self.untrained))
        untrained, trained_words, untrained_words = (dev_score(encode, self.tasks) for encode in encoders)
        return untrained, trained_words, untrained_words

    @cached_property
    def untrained(self) -> TextEncoder:
        """The encoder as it was before the first step."""
        torch.manual_seed(self.config.seed)
        first = first_run.folder(self.config)
        if first is not None:
            return first_run.begun_with(first, self.config).eval()
        own = self.folder / modality.TOKENIZER
        return modality.encoder_of(self.config, read_tokenizer(own) if own.exists() else None).eval()

    @property
    def seed(self) -> int:
        return self.config.seed

    @cached_property
    def embeddings(self) -> Tensor:
        """Of STS-B's dev part."""
        return self.kept(EMBEDDED)[0]

    def kept(self, most: int) -> tuple[Tensor, Tensor]:
        """Embeddings of some sentences of STS-B's dev part; they have no labels."""
        (pairs,), _ = senteval.rated(self.tasks, "STS-B", "dev")
        sentences = list(dict.fromkeys([*pairs.first, *pairs.second]))[:most]
        return self.encode(sentences), torch.full((len(sentences),), -1)


def words(encoder: TextEncoder) -> Encode:
    """The mean of a sentence's word embeddings: what the network adds is more than this."""
    model: Any = encoder.model
    table: Tensor = model.get_input_embeddings().weight.detach()

    def encode(sentences: Any) -> Tensor:
        tokens = encoder.tokens(sentences, encoder.longest)
        return torch.stack([table[t[1:-1] or t].mean(0) for t in tokens]).float()

    return encode
