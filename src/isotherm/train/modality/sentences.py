"""A run's sentences: what it learns from, their views, and STS-B to be judged on."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

import isotherm
from isotherm import files, measures, world
from isotherm.checks import did_you_mean
from isotherm.data import senteval
from isotherm.data.loaders.sentences import TextLoader
from isotherm.data.sentences import Sentences, load_sentences
from isotherm.encoders import text
from isotherm.measures.subject import healthy
from isotherm.methods import Network
from isotherm.methods.build import named
from isotherm.probes.sts import dev_score, stsb_geometry
from isotherm.streams import uniforms
from isotherm.train.config import Config, settings_of
from isotherm.train.modality.images import ENCODER
from isotherm.views.sentences import RECIPES, TextRecipe

MODEL = "model"
"""The folder in a run's that `transformers` and `sentence-transformers` load."""
TOKENIZER = "tokenizer.json"
"""The tokenizer that a run made for itself."""
TAUGHT = 200_000
"""Rows of which a tokenizer is made, at most."""
SHOWN = 2000
"""Sentences whose embedding is looked at."""
OPTIONS = ("columns", "duplicates", "longest", "bucket")
"""What `data_options` may hold."""
FOR_IMAGES = ("split", "test", "imbalance", "ratio", "randbit", "digits", "size", "normalize")


@dataclass(frozen=True, eq=False)
class SentenceModality:
    """What a run learns from, and how it is shown."""

    config: Config
    sentences: Sentences
    recipe: TextRecipe
    tokenizer: Any = None
    """The run's own, if its encoder has none."""
    stsb: tuple[Path | None, str] = (None, "")
    """Where SentEval's data is, if STS-B's dev part is there; why not, if the folder is."""

    criterion: ClassVar[str] = "stsb_dev"
    """The measure of `look` that says which weights are best: SimCSE's criterion."""
    classes: ClassVar[int] = 0

    @classmethod
    def of(cls, config: Config, folder: Path | None = None) -> SentenceModality:
        """The sentences of a configuration; a tokenizer made of them is kept in `folder`, and found there again."""
        defaults = Config()
        for name in FOR_IMAGES:
            if getattr(config, name) != getattr(defaults, name):
                raise ValueError(f"{name} is for images; {config.data} holds sentences.")
        if config.recipe is not None and config.recipe not in RECIPES:
            raise ValueError(f"no recipe '{config.recipe}' for sentences{did_you_mean(config.recipe, RECIPES)}")
        sentences = read(config)
        scratch = config.encoder["name"] == text.SMALL
        # pairs are views already; an encoder that knows no words learns nothing good from dropout alone
        fitting = "crop" if scratch and len(sentences.columns) == 1 else "dropout"
        made = cls(config, sentences, RECIPES[config.recipe or fitting], stsb=_stsb())
        return replace(made, tokenizer=_tokenizer(made, folder)) if scratch else made

    @property
    def ids(self) -> torch.Tensor:
        return self.sentences.ids

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know of the data."""
        return self.sentences.notes + tuple(why for why in self.stsb[1:] if why)

    @property
    def hard_negatives(self) -> bool:
        return len(self.sentences.columns) == 3

    @property
    def views(self) -> int:
        """How many tensors of tokens a batch has, hard negatives among them."""
        columns = len(self.sentences.columns)
        return columns if columns > 1 else self.config.views or named(self.config.method["name"]).views

    def encoder(self) -> text.TextEncoder:
        """The network; new weights or the pretrained ones."""
        return encoder_of(self.config, self.tokenizer)

    def loader(self, network: Network, device: torch.device, prefetch: int) -> TextLoader:
        encoder: Any = network.encoder
        seed = self.config.seed

        def vary(tokens: torch.Tensor, ids: torch.Tensor, epoch: int, view: int) -> torch.Tensor:
            rows = [[t for t in row if t != text.PADDING] for row in tokens.tolist()]
            return encoder.padded(self.recipe.view(rows, ids, seed=seed, epoch=epoch, view=view))  # type: ignore[no-any-return]

        return TextLoader(
            self.sentences,
            lambda sentences: encoder.padded(encoder.tokens(sentences)),
            self.config.views or self.views,
            self.config.batch,
            seed,
            device=device,
            prefetch=prefetch,
            rank=world.rank(),
            world=world.size(),
            bucket=self.config.data_options.get("bucket", 1),
            vary=None if self.recipe.draw is None else vary,
        )

    def monitor(self, network: Network, at_most: int | None = None) -> dict[str, float]:
        """Measures of the encoder's features, without the head: how they lie, and what STS-B's dev part says of them.

        `stsb_dev` is Spearman's correlation; without STS-B's dev part there is none.
        """
        encoder: Any = network.encoder
        encode = text.remembering(encoder)
        rows = self.sentences.texts(drawn(self.sentences, at_most or SHOWN, self.config.seed))
        z = encode([row[0] for row in rows])
        if len(z) < 2 or not healthy(z):
            return {}
        found = {"uniformity": measures.uniformity(z), "effective_rank": measures.effective_rank(z)}
        place, _ = self.stsb
        if place is None:
            return found
        score = dev_score(encode, place)
        if math.isfinite(score):  # a collapsed embedding orders nothing
            found["stsb_dev"] = score
        try:
            there = stsb_geometry(encode, place, "dev")
        except ValueError:  # a sentence without a direction, after a divergence
            return found
        return found | {"stsb_alignment": there.alignment, "stsb_uniformity": there.uniformity}

    def fingerprint(self) -> str:
        return self.sentences.fingerprint()

    def export(self, out: Path, trained: nn.Module) -> None:
        """A folder that other libraries load; encoder.safetensors is its weights by another name, with a card."""
        assert isinstance(trained, text.TextEncoder)
        beside = out / f".{MODEL}"
        shutil.rmtree(beside, ignore_errors=True)
        trained.save(beside)
        shutil.rmtree(out / MODEL, ignore_errors=True)
        beside.rename(out / MODEL)
        weights = out / ENCODER
        weights.unlink(missing_ok=True)
        weights.symlink_to(Path(MODEL) / "model.safetensors")
        card = {
            "encoder": self.config.encoder,
            "width": trained.width,
            "pooling": trained.pooling,
            "model": MODEL,
            "data": self.config.data,
            "method": self.config.method,
            "loss": self.config.loss,
            "key": self.config.key,
            "isotherm": isotherm.__version__,
        }
        files.write_json(weights.with_suffix(".json"), card)


def _stsb() -> tuple[Path | None, str]:
    try:
        place = senteval.folder()
    except ValueError:
        return None, ""
    try:
        there, missing = senteval.rated(place, "STS-B", "dev")
    except ValueError as error:
        return None, f"STS-B is not monitored: {error}"
    return (place, "") if there else (None, f"STS-B is not monitored: no {', '.join(missing)} in {place}.")


def _tokenizer(made: SentenceModality, folder: Path | None) -> Any:
    """The one that is kept in the run's folder, or one that is made of the sentences and kept there."""
    kept = None if folder is None else folder / TOKENIZER
    if kept is not None and kept.exists():
        return text.read_tokenizer(kept)
    found = text.train_tokenizer(some_of(made.sentences), made.config.encoder["vocabulary"])
    if kept is not None and world.rank() == 0:
        files.write_text(kept, found.backend_tokenizer.to_str())
    return found


def read(config: Config) -> Sentences:
    """The sentences of a configuration."""
    options = {k: v for k, v in config.data_options.items() if k != "bucket"}
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"{config.data} has no option '{name}'{did_you_mean(name, OPTIONS)}")
    bucket = config.data_options.get("bucket", 1)
    if isinstance(bucket, bool) or not isinstance(bucket, int) or bucket < 1:
        raise ValueError(f"bucket must be a whole number of batches, 1 or more; got {bucket!r}.")
    sentences = load_sentences(config.data, **options)
    if config.images is not None and config.images > len(sentences):
        raise ValueError(f"{sentences.name} has {len(sentences)} sentences; {config.images} are asked for.")
    if config.images is not None and config.images < len(sentences):
        chosen = drawn(sentences, config.images, config.seed)
        sentences = sentences.subset(chosen, f"{config.images} of {len(sentences)} sentences, drawn")
    return sentences


def drawn(sentences: Sentences, count: int, seed: int) -> torch.Tensor:
    """The indices of so many sentences, a seeded choice, in order."""
    if count >= len(sentences):
        return torch.arange(len(sentences))
    keys = uniforms(sentences.ids, 1, seed=seed, epoch=0, view=-2)[:, 0]
    return keys.argsort(stable=True)[:count].sort().values


def some_of(sentences: Sentences) -> Iterator[str]:
    """The words a tokenizer is made of."""
    for indices in drawn(sentences, TAUGHT, 0).split(1000):
        yield from itertools.chain.from_iterable(sentences.texts(indices))


def encoder_of(config: Config, tokenizer: Any = None) -> text.TextEncoder:
    """The text encoder that a configuration names."""
    name, settings = config.encoder["name"], settings_of(config.encoder)
    if not text.is_text_encoder(name):
        raise ValueError(
            f"{config.data} holds sentences, which encoder '{name}' does not read; "
            f"there is: {text.SMALL}, {text.INSTALLED}, {text.HUB}NAME, {text.HUB}PATH."
        )
    if name == text.SMALL:
        return text.small(tokenizer, **{k: v for k, v in settings.items() if k != "vocabulary"})
    return text.pretrained(name, **settings)
