"""`isotherm bench sentences`: encoding and training with MiniLM, ours against sentence-transformers.

The same sentences, batch and length, in one process, interleaved, the best of several rounds. Training is SimCSE as
either library does it: a batch, two passes with dropout, InfoNCE at 0.05, AdamW. The rival's loop is the plainest one
there is, without its trainer: tokenize, two forward passes, MultipleNegativesRankingLoss, backward, step.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from isotherm.bench.measure import Target, best_times
from isotherm.data.sentences import load_sentences
from isotherm.encoders import text
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.devices import fabric_for, keep_freed_memory
from isotherm.train.loop import Run

ENCODED = 1024
STEPS = 6
BATCH = 64
LENGTH = 32
OURS, THEIRS = "isotherm", "sentence-transformers"


def run(rounds: int, data: str, note: Callable[[str, str], None]) -> dict[str, dict[str, float]]:
    """Sentences a second, of encoding and of training."""
    try:
        library = importlib.import_module("sentence_transformers")
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the rival needs {error.name}: pip install -c constraints.txt sentence-transformers."
        ) from error
    keep_freed_memory()
    encoder = text.pretrained(text.INSTALLED)
    with tempfile.TemporaryDirectory() as folder, text.quietly():
        out = Path(folder)
        encoder.save(out / "model")
        corpus = load_sentences(data)
        rival = library.SentenceTransformer(str(out / "model"), device="cpu")
        texts = [row[0] for row in corpus.texts(range(ENCODED))]
        rates: dict[str, dict[str, float]] = {"encoding": {}, "training": {}}
        encoding = {
            OURS: lambda: encoder.encode(texts, BATCH),
            THEIRS: lambda: rival.encode(texts, batch_size=BATCH, show_progress_bar=False),
        }
        for name, seconds in best_times(encoding, rounds):
            rates["encoding"][name] = max(rates["encoding"].get(name, 0.0), ENCODED / seconds)
            note("encoding", f"{name} {rates['encoding'][name]:,.0f} sentences/s")
        trainer = _trainer(data, out)
        training = {OURS: _ours(trainer), THEIRS: _theirs(trainer, rival)}
        for name, seconds in best_times(training, rounds):
            rates["training"][name] = max(rates["training"].get(name, 0.0), STEPS * BATCH / seconds)
            note("training", f"{name} {rates['training'][name]:,.1f} sentences/s")
    return rates


def targets(rates: dict[str, dict[str, float]]) -> list[Target]:
    judged = []
    for what, least in (("encoding", 0.9), ("training", 1.0)):
        ratio = rates[what][OURS] / rates[what][THEIRS]
        judged.append(Target(f"{what}, against {THEIRS}", f"≥ {least:g}×", f"{ratio:.2f}×", ratio >= least))
    return judged


def _trainer(data: str, out: Path) -> Run:
    """A run that is ready for its first step."""
    settings = {"data": data, "images": STEPS * BATCH, "encoder": text.INSTALLED, "encoder.length": LENGTH}
    config = configure({**settings, "batch": BATCH, "head": "none", "monitor": 0})
    place = Runtime(out=out / "run", quiet=True)
    (out / "run").mkdir()
    training = Run(fabric_for(config, place), config, place)
    training.state.method.train()
    with training.closing():
        return training


def _ours(training: Run) -> Callable[[], None]:
    epochs = itertools.count()

    def steps() -> None:
        for batch in training.loader.epoch(next(epochs)):
            training.advance(batch)

    return steps


def _theirs(training: Run, model: Any) -> Callable[[], None]:
    """The same sentences in the same batches."""
    corpus: Any = training.state.built.material
    model = copy.deepcopy(model)
    model.max_seq_length = LENGTH
    losses = importlib.import_module("sentence_transformers.losses")
    loss = losses.MultipleNegativesRankingLoss(model, scale=20.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, weight_decay=0.0)
    model.train()
    epochs = itertools.count()

    def steps() -> None:
        for indices in training.loader.order(next(epochs)).split(BATCH):
            sentences = [row[0] for row in corpus.sentences.texts(indices)]
            optimizer.zero_grad()
            features = [model.preprocess(sentences) for _ in range(2)]
            loss(features, None).backward()
            optimizer.step()

    return steps
