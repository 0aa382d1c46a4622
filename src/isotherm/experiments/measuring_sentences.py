"""What is measured of a run that learnt from sentences: STS, the transfer tasks, and what it was before."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotherm.data import senteval
from isotherm.encoders.text import SMALL, TextEncoder, read_tokenizer, remembering
from isotherm.probes.sts import Encode, dev_score, sts
from isotherm.probes.transfer import transfer
from isotherm.train import runs
from isotherm.train.modality import sentences as corpus

NAMES = {"STS-B": "stsb", "SICK-R": "sickr"}
"""What a task is called among the measures; the others: as it is, in small letters."""


class TrainedText:
    """A finished run, and what several measures need of it, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config, self.encoder = runs.open_text_encoder(folder)
        self.place = senteval.folder()
        self.seen = runs.read_result(folder).measures
        """What the run itself measured when it ended (`Corpus.look`)."""

    @cached_property
    def encode(self) -> Encode:
        return remembering(self.encoder)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Different ones of STS-B's dev part."""
        (pairs,), _ = senteval.rated(self.place, "STS-B", "dev")
        return tuple(dict.fromkeys([*pairs.first, *pairs.second]))

    @cached_property
    def untrained(self) -> TextEncoder:
        """The encoder as it was before the first step."""
        torch.manual_seed(self.config.seed)
        own = self.folder / corpus.TOKENIZER
        return corpus.encoder_of(self.config, read_tokenizer(own) if own.exists() else None).eval()


def similarity(t: TrainedText) -> dict[str, Any]:
    found = sts(t.encode, t.place)
    each = {NAMES.get(name, name.lower()): task.spearman for name, task in found.tasks.items()}
    if found.complete:
        each["sts"] = found.average
    return {name: value for name, value in each.items() if value is not None}


def sphere(t: TrainedText) -> dict[str, Any]:
    return {name: t.seen[name] for name in ("stsb_alignment", "stsb_uniformity", "effective_rank") if name in t.seen}


def before(t: TrainedText) -> dict[str, Any]:
    found = {"stsb_dev": t.seen["stsb_dev"]} if "stsb_dev" in t.seen else {}
    if t.config.encoder["name"] != SMALL:  # where a pretrained one starts is no question of the run
        return found
    return found | {
        "stsb_untrained": dev_score(t.untrained.encode, t.place),
        "stsb_words": dev_score(words(t.encoder), t.place),
        "stsb_words_untrained": dev_score(words(t.untrained), t.place),
    }


def classified(t: TrainedText) -> dict[str, Any]:
    found = transfer(t.encode, t.place)
    each = {name.lower().replace("-", ""): task.accuracy for name, task in found.tasks.items()}
    return each | ({"transfer": found.average} if found.complete else {})


def words(encoder: TextEncoder) -> Encode:
    """The mean of a sentence's word embeddings: what the network adds is more than this."""
    model: Any = encoder.model
    table: Tensor = model.get_input_embeddings().weight.detach()

    def encode(sentences: Any) -> Tensor:
        tokens = encoder.tokens(sentences, encoder.longest)
        return torch.stack([table[t[1:-1] or t].mean(0) for t in tokens]).float()

    return encode
