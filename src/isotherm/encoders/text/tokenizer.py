"""A tokenizer of the corpus at hand, for an encoder that is trained from scratch."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isotherm.checks import at_least, refusing
from isotherm.encoders.text.huggingface import library, quietly

VOCABULARY = 8000
"""Words and parts of words that a tokenizer made here knows."""
PAD, UNKNOWN, FIRST, LAST, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"


def train_tokenizer(sentences: Iterable[str], vocabulary: int = VOCABULARY) -> Any:
    """A byte-pair tokenizer of these sentences in lower case, as a Hugging Face tokenizer; the same every time.

    It starts from the 256 bytes, so that nothing is unknown to it. (WordPiece's trainer breaks ties by chance.)
    """
    at_least(300, vocabulary=vocabulary)  # the bytes, and something to learn
    transformers = library()
    parts = importlib.import_module("tokenizers")
    tokenizer = parts.Tokenizer(parts.models.BPE())
    tokenizer.normalizer = parts.normalizers.Sequence([parts.normalizers.NFKC(), parts.normalizers.Lowercase()])
    tokenizer.pre_tokenizer = parts.pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = parts.decoders.ByteLevel()
    trainer = parts.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, UNKNOWN, FIRST, LAST, MASK],
        initial_alphabet=sorted(parts.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in (FIRST, LAST)]
    tokenizer.post_processor = parts.processors.TemplateProcessing(single=f"{FIRST} $A {LAST}", special_tokens=ends)
    return _wrapped(transformers, tokenizer_object=tokenizer)


def read_tokenizer(file: Path) -> Any:
    """One that `train_tokenizer` made, from its tokenizer.json."""
    with refusing(f"{file} is no tokenizer that loads"), quietly():
        return _wrapped(library(), tokenizer_file=str(file))


def _wrapped(transformers: Any, **source: Any) -> Any:
    roles = {"pad": PAD, "unk": UNKNOWN, "cls": FIRST, "sep": LAST, "mask": MASK}
    tokens = {f"{k}_token": v for k, v in roles.items()}
    return transformers.PreTrainedTokenizerFast(**source, model_max_length=512, **tokens)
