"""A transformer, its tokenizer and its pooling as one module: tokens (N, T) in, features (N, width) out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from isotherm.checks import at_least, deep, did_you_mean
from isotherm.encoders.features import evaluating
from isotherm.encoders.text.huggingface import library, quietly

Pooling = Literal["cls", "mean", "first-last-avg"]
"""One vector of many: the first token's, their mean, or the mean of the first and the last layer's means."""
SMALL, INSTALLED, HUB = "text_small", "minilm", "hf:"
"""Names of encoders: ours, the installed one, and what stands before a folder or a name on the hub."""
TOGETHER = 32
"""Sentences that go through the network together, at least: fewer, and the overhead of a pass outweighs its padding."""
PADDING = -1
WORTH = 0.9
"""Groups of similar length are made where they leave no more than this share of the tokens."""
UNSAID = 512
"""Tokens of a sentence, at most, where the model sets no limit."""
CHARACTERS = 64
"""No more than so many for each token that is kept are shown to a tokenizer: the rest of a huge line is cut off."""
LAYERS = "1_Layers"
"""The part of a saved folder that averages the first and the last layer."""


class TextEncoder(nn.Module):
    """A transformer, its tokenizer, and how its tokens' vectors become one.

    `length` is how many tokens a sentence has in training, `longest` everywhere else. In `forward` the sentences are
    sorted by length and go through the network in groups of similar length, each padded to its own longest: the
    features are those of the whole batch, at a part of its cost.
    """

    def __init__(self, model: nn.Module, tokenizer: Any, pooling: Pooling = "mean", length: int = 64) -> None:
        super().__init__()
        if pooling not in get_args(Pooling):
            raise ValueError(f"no pooling '{pooling}'{did_you_mean(str(pooling), get_args(Pooling))}")
        at_least(3, length=length)
        config: Any = model.config
        if getattr(config, "is_encoder_decoder", False):
            raise ValueError(f"{type(model).__name__} has a decoder, too; an encoder alone is wanted.")
        words: Any = model.get_input_embeddings()  # type: ignore[operator]
        if len(tokenizer) > len(words.weight):
            raise ValueError(
                f"the tokenizer has {len(tokenizer)} tokens, the model {len(words.weight)}; they do not fit together."
            )
        largest = max(tokenizer.get_vocab().values(), default=0)
        if largest >= len(words.weight):
            raise ValueError(f"the tokenizer has a token {largest}, the model {len(words.weight)} tokens in all.")
        if tokenizer.pad_token is None:
            if tokenizer.eos_token is None:
                raise ValueError("the tokenizer has neither a padding nor an end token; set tokenizer.pad_token.")
            tokenizer.pad_token = tokenizer.eos_token
        tokenizer.padding_side = "right"  # as `padded` does, for those who load what is saved
        self.model, self.tokenizer, self.pooling = model, tokenizer, pooling
        self.filler = int(tokenizer.pad_token_id)
        """What the model sees where there is nothing; it is masked."""
        self.width = int(config.hidden_size)
        positions = getattr(config, "max_position_embeddings", None) or UNSAID
        # RoBERTa and its kin count positions from behind the padding token
        before = getattr(getattr(model, "embeddings", None), "padding_idx", None)
        positions -= 0 if before is None else before + 1
        self.longest = int(min(positions, tokenizer.model_max_length))
        self.length = min(length, self.longest)
        if getattr(model, "pooler", None) is not None:  # kept for those who load the model; no feature of ours
            model.pooler.requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or tokens.is_floating_point():
            raise ValueError(f"a text encoder takes token numbers (N, T), got {tokens.dtype} {tuple(tokens.shape)}.")
        if not len(tokens):
            return next(self.model.parameters()).new_zeros(0, self.width)
        real = tokens != PADDING
        lengths = real.sum(1)
        order = lengths.argsort(stable=True)
        groups = [(g, int(lengths[g[-1]])) for g in order.tensor_split(max(1, len(order) // TOGETHER))]
        if sum(len(g) * most for g, most in groups) > WORTH * tokens.numel():
            return self.pooled(tokens, real)
        parts = [self.pooled(tokens[g, :most], real[g, :most]) for g, most in groups]
        return torch.cat(parts)[order.argsort()]

    def pooled(self, tokens: Tensor, real: Tensor) -> Tensor:
        """One vector per row, in one pass through the network; `real` is where there are tokens."""
        every = self.pooling == "first-last-avg"
        ids = tokens.masked_fill(~real, self.filler)
        out = self.model(input_ids=ids, attention_mask=real.long(), output_hidden_states=every)
        last: Tensor = out.last_hidden_state
        if self.pooling == "cls":
            return last[:, 0]
        hidden = (out.hidden_states[1] + last) / 2 if every else last
        weights = real.to(hidden.dtype)[:, :, None]
        return (hidden * weights).sum(1) / weights.sum(1)

    def tokens(self, sentences: Sequence[str], length: int | None = None) -> list[list[int]]:
        """Each sentence as token numbers, cut to `length` (by default that of training)."""
        length = length or self.length
        cut = [s[: CHARACTERS * length] for s in sentences]
        numbers: list[list[int]] = self.tokenizer(cut, truncation=True, max_length=length)["input_ids"]
        return [row or [self.filler] for row in numbers]  # a tokenizer without marks at the ends makes nothing of ""

    def padded(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Token numbers as one tensor (N, T), padded to the longest."""
        lengths = np.array([len(row) for row in tokens], dtype=np.int64)
        rows = np.full((len(tokens), int(lengths.max(initial=0))), PADDING)
        real = np.arange(rows.shape[1]) < lengths[:, None]
        rows[real] = np.fromiter(itertools.chain.from_iterable(tokens), np.int64, int(lengths.sum()))
        return torch.from_numpy(rows)

    def encode(
        self, sentences: Sequence[str], batch: int = 64, note: Callable[[int, int], None] = lambda done, total: None
    ) -> Tensor:
        """The features of every sentence, float32 (N, width) on the CPU; no dropout, and the encoder left as it was."""
        at_least(1, batch=batch)
        device = next(self.model.parameters()).device
        features = torch.empty(len(sentences), self.width)
        by_length = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
        with evaluating(self):
            for start in range(0, len(sentences), batch):
                indices = by_length[start : start + batch]
                tokens = self.tokens([sentences[i] for i in indices], self.longest)
                features[indices] = self(self.padded(tokens).to(device)).float().cpu()
                note(min(start + batch, len(sentences)), len(sentences))
        return features

    def save(self, folder: Path) -> None:
        """A folder that `transformers.AutoModel` and `sentence_transformers.SentenceTransformer` load."""
        with quietly():
            self.model.config.output_hidden_states = self.pooling == "first-last-avg"  # type: ignore[union-attr]
            self.model.save_pretrained(folder)  # type: ignore[operator]
            self.tokenizer.save_pretrained(folder)
        about: dict[str, Any] = {"word_embedding_dimension": self.width}
        modules: list[tuple[str, str, dict[str, Any]]] = [
            ("", "Transformer", {"max_seq_length": self.longest, "do_lower_case": False})
        ]
        if self.pooling == "first-last-avg":
            layers: int = self.model.config.num_hidden_layers  # type: ignore[union-attr, assignment]
            modules.append((LAYERS, "WeightedLayerPooling", {**about, "num_hidden_layers": layers, "layer_start": 1}))
        mode = "cls" if self.pooling == "cls" else "mean"
        modules.append((f"{len(modules)}_Pooling", "Pooling", {**about, "pooling_mode": mode}))
        entries = []
        for number, (path, kind, settings) in enumerate(modules):
            entries.append(
                {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            )
            file = folder / (f"{path}/config.json" if path else "sentence_bert_config.json")
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(settings, indent=1) + "\n")
        (folder / "modules.json").write_text(json.dumps(entries, indent=1) + "\n")
        if self.pooling == "first-last-avg":
            ends = torch.zeros(layers)
            ends[[0, -1]] = 1.0
            save_file({"layer_weights": ends}, folder / LAYERS / "model.safetensors")


def remembering(
    encoder: TextEncoder, note: Callable[[int, int], None] = lambda done, total: None
) -> Callable[[Sequence[str]], Tensor]:
    """`encoder.encode`, which encodes no sentence twice."""
    known: dict[str, int] = {}
    rows = torch.empty(0, encoder.width)

    def encode(sentences: Sequence[str]) -> Tensor:
        nonlocal rows
        new = [s for s in dict.fromkeys(sentences) if s not in known]
        if new:
            known.update(zip(new, range(len(rows), len(rows) + len(new)), strict=True))
            rows = torch.cat([rows, encoder.encode(new, note=note)])
        return rows[[known[s] for s in sentences]]

    return encode


def is_text_encoder(name: str) -> bool:
    """Whether a name of an encoder stands for one of sentences."""
    return name in (SMALL, INSTALLED) or name.startswith(HUB)


def small(
    tokenizer: Any,
    width: int = 128,
    layers: int = 1,
    heads: int = 4,
    dropout: float = 0.1,
    pooling: Pooling = "mean",
    length: int = 64,
) -> TextEncoder:
    """A small BERT with random weights for this tokenizer (`tokenizer.train_tokenizer`)."""
    at_least(1, width=width, heads=heads)
    deep(1, layers=layers)
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, got {width} and {heads}.")
    transformers = library()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=share("dropout", dropout),
        attention_probs_dropout_prob=dropout,
        max_position_embeddings=512,
        pad_token_id=tokenizer.pad_token_id,
    )
    return TextEncoder(transformers.BertModel(config), tokenizer, pooling, length)


def share(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"{name} lies in [0, 1), got {value}.")
    return value
