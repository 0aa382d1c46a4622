"""Sentences without pairs: some words are hidden, and the network guesses them from the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isotherm import world
from isotherm.encoders.text import PADDING, TextEncoder
from isotherm.methods.method import Method, Network
from isotherm.streams import uniforms
from isotherm.types import Batch

HIDDEN, REPLACED = 0.8, 0.1
"""Of the tokens to be guessed so many are hidden behind a mask, and so many replaced by another; the rest stay."""


class MaskedWords(Method):
    """Guess a `share` of each sentence's tokens from the others (masked language modelling).

    Devlin et al. 2018 (BERT, arXiv:1810.04805), §3.1: of 15 % of the tokens 80 % become the mask, 10 % another token,
    10 % stay; cross-entropy over the vocabulary, whose output weights are the input embeddings. It makes what SimCSE
    and its kin start from. Which tokens follows from the sentence, the seed and the step, so that any number of
    processes hides the same.
    """

    fewest_views = 1
    gives_embeddings = False

    def __init__(self, network: Network, share: float = 0.15) -> None:
        encoder = network.encoder
        if not isinstance(encoder, TextEncoder):
            raise ValueError("--method mlm reads sentences: say --data text:FILE and --encoder text_small, or hf:NAME.")
        if encoder.tokenizer.mask_token_id is None:
            raise ValueError("the tokenizer has no mask token; --method mlm hides words behind it.")
        if not 0 < share < 1:
            raise ValueError(f"share lies between 0 and 1, got {share}.")
        super().__init__(network)
        self.share = share
        width = encoder.width
        self.guess = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(len(encoder.tokenizer)))
        marks = torch.tensor([*encoder.tokenizer.all_special_ids, PADDING])
        words = torch.arange(len(encoder.tokenizer))
        self.register_buffer("marks", marks, persistent=False)
        self.register_buffer("words", words[~torch.isin(words, marks)], persistent=False)

    marks: Tensor
    words: Tensor

    def embed(self, batch: Batch) -> list[Tensor]:
        """For each view what a sentence's guesses cost together, and how many there were: (N, 2)."""
        return [self._cost(view, batch.indices, number) for number, view in enumerate(batch.views)]

    def objective(self, embedded: Sequence[Tensor], targets: Sequence[Tensor], batch: Batch) -> Tensor:
        cost, guesses = (world.mean(torch.cat([each[:, i] for each in embedded])) for i in (0, 1))
        return cost / guesses.detach().clamp_min(torch.finfo(guesses.dtype).tiny)  # a batch of no words costs nothing

    def _cost(self, tokens: Tensor, ids: Tensor, view: int) -> Tensor:
        encoder = self.network.encoder
        assert isinstance(encoder, TextEncoder)
        shown, chosen = self.hidden(tokens, ids, view)
        real = tokens != PADDING
        out = encoder.model(input_ids=shown.masked_fill(~real, encoder.filler), attention_mask=real.long())
        table: Tensor = encoder.model.get_input_embeddings().weight[: len(self.bias)]  # type: ignore[operator]
        rows, _ = chosen.nonzero(as_tuple=True)
        logits = self.guess(out.last_hidden_state[chosen]) @ table.T + self.bias
        precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
        each = cross_entropy(precise, tokens[chosen], reduction="none")
        cost = each.new_zeros(len(tokens)).index_add(0, rows, each)
        return torch.stack([cost, chosen.sum(1).to(cost.dtype)], dim=1)

    def hidden(self, tokens: Tensor, ids: Tensor, view: int = 0) -> tuple[Tensor, Tensor]:
        """The tokens as they are shown, and which of them are to be guessed."""
        u, way, other = (
            uniforms(ids, tokens.shape[1], seed=self.seed, epoch=self.step, view=3 * view + k) for k in range(3)
        )
        chosen = (u < self.share) & ~torch.isin(tokens, self.marks)
        mask: int = self.network.encoder.tokenizer.mask_token_id  # type: ignore[union-attr, assignment]
        shown = torch.where(chosen & (way < HIDDEN), mask, tokens)
        drawn = self.words[(other.double() * len(self.words)).long()]
        return torch.where(chosen & (way >= 1 - REPLACED), drawn, shown), chosen
