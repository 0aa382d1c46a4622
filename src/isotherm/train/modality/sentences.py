"""A run's sentences: what it learns from, their views, and STS-B to be judged on."""

from __future__ import annotations

import functools
import itertools
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from torch import nn

from isotherm import files, measures, world
from isotherm.checks import did_you_mean
from isotherm.data import senteval
from isotherm.data.loaders.sentences import TextLoader
from isotherm.data.sentences import Sentences, is_text
from isotherm.encoders import text
from isotherm.encoders.fitting import fitted
from isotherm.measures.subject import healthy
from isotherm.methods import Network
from isotherm.methods.build import method_spec
from isotherm.probes.sts import dev_score, stsb_geometry
from isotherm.train import outside_data
from isotherm.train.choice import Choice
from isotherm.train.config import Config
from isotherm.train.modality import first_run
from isotherm.train.modality.corpus import read as read
from isotherm.train.modality.corpus import sample as sample
from isotherm.train.modality.first_run import MODEL as MODEL
from isotherm.train.modality.images import ENCODER
from isotherm.train.modality.modality import Weights, provenance
from isotherm.train.outcome import Learnt
from isotherm.train.state import write_card
from isotherm.views.sentences import RECIPES, TextRecipe

TOKENIZER = "tokenizer.json"
"""The tokenizer that a run made for itself."""
TAUGHT = 200_000
"""Rows of which a tokenizer is made, at most."""
MONITORED = 2000
"""Sentences whose embedding is looked at."""
FOR_IMAGES = (
    *("split", "test", "imbalance", "ratio", "randbit", "digits", "size", "normalize"),
    *("crop_scale", "small_crops", "small_size", "small_scale"),
)


@dataclass(frozen=True, eq=False)
class OpenedSentences:
    """A trained run on sentences: its encoder, as the last checkpoint has it."""

    out: Path
    config: Config
    encoder: text.TextEncoder


@dataclass(frozen=True, eq=False)
class SentenceModality:
    """What a run learns from, and how it is shown."""

    config: Config
    sentences: Sentences
    recipe: TextRecipe
    tokenizer: Any = None
    """The run's own, if its encoder has none."""
    first: Path | None = None
    """The folder of the run of masked words that it begins with, if it does."""
    stsb: tuple[Path | None, str] = (None, "")
    """Where SentEval's data is, if STS-B's dev part is there; why not, if the folder is."""

    noun: ClassVar[str] = "sentences"
    method: ClassVar[str] = "simcse"
    criterion: ClassVar[str] = "stsb_dev"
    """SimCSE's."""
    own_files: ClassVar[tuple[str, ...]] = (TOKENIZER,)

    @classmethod
    def reads(cls, data: str, encoder: str | None, method: str | None = None) -> bool:
        if outside_data.data_address(data) is None:
            return is_text(data)
        return outside_data.gives_sentences(data) if encoder is None else text.is_text_encoder(encoder)

    @classmethod
    def of(cls, config: Config, folder: Path | None = None) -> SentenceModality:
        """The sentences of a configuration; a tokenizer made of them is found in `folder` again."""
        defaults = Config()
        for name in FOR_IMAGES:
            if getattr(config, name) != getattr(defaults, name):
                raise ValueError(f"{name} is for images; {config.data} holds sentences.")
        if config.recipe is not None and config.recipe not in RECIPES:
            raise ValueError(f"no recipe '{config.recipe}' for sentences{did_you_mean(config.recipe, RECIPES)}")
        sentences = read(config)
        scratch = config.encoder.name == text.SMALL
        # pairs are views already; an encoder that knows no words learns nothing good from dropout alone
        compared = len(sentences.columns) == 1 and method_spec(config.method.name).views > 1
        fitting = "crop" if scratch and compared else "dropout"
        first = first_run.folder(config)
        given = cls(config, sentences, RECIPES[config.recipe or fitting], first=first, stsb=_stsb())
        return replace(given, tokenizer=_tokenizer(given, folder)) if scratch else given

    @classmethod
    def reopen(cls, out: Path, config: Config, weights: Weights) -> OpenedSentences:
        """No data is read: the tokenizer is in the folder, or comes with the encoder."""
        own, exported = out / TOKENIZER, out / MODEL
        if own.exists():
            make = functools.partial(encoder_of, config, text.read_tokenizer(own))
        else:  # what it started from may be gone; the exported model has its shape
            start = f"{text.HUB}{exported}" if exported.is_dir() else config.encoder.name
            make = functools.partial(encoder_of, replace(config, encoder=Choice(start, config.encoder.settings)))
        prefix = "encoder."
        encoder = fitted(make, {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)})
        return OpenedSentences(out, config, encoder.eval())

    @property
    def ids(self) -> torch.Tensor:
        return self.sentences.ids

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know of the data."""
        first = () if self.first is None else (f"the encoder begins with masked words ({self.first.name})",)
        return self.sentences.notes + first + tuple(why for why in self.stsb[1:] if why)

    @property
    def classes(self) -> int:
        return 0

    @property
    def hard_negatives(self) -> bool:
        return len(self.sentences.columns) == 3

    @property
    def views(self) -> int:
        """How many tensors of tokens a batch has, hard negatives among them."""
        columns = len(self.sentences.columns)
        return columns if columns > 1 else self.config.views or method_spec(self.config.method.name).views

    @property
    def small_crops(self) -> int:
        return 0

    def encoder(self) -> text.TextEncoder:
        """The network; new weights or the pretrained ones."""
        if self.first is None:
            return encoder_of(self.config, self.tokenizer)
        return first_run.begun_with(self.first, self.config)

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
        rows = self.sentences.texts(sample(self.sentences, at_most or MONITORED, self.config.seed))
        z = encode([row[0] for row in rows])
        if len(z) < 2 or not healthy(z):
            return {}
        values = {"uniformity": measures.uniformity(z), "effective_rank": measures.effective_rank(z)}
        place, _ = self.stsb
        if place is None:
            return values
        score = dev_score(encode, place)
        if math.isfinite(score):  # a collapsed embedding orders nothing
            values["stsb_dev"] = score
        try:
            there = stsb_geometry(encode, place, "dev")
        except ValueError:  # a sentence without a direction, after a divergence
            return values
        return values | {"stsb_alignment": there.alignment, "stsb_uniformity": there.uniformity}

    def learnt(self, network: Network) -> Learnt | None:
        """Not measured: sentences have no labels."""

    def check(self) -> None:
        """Nothing: STS-B was looked for when the sentences were."""

    def keep(self, folder: Path) -> None:
        """The tokenizer, if it was made of these sentences."""
        if self.tokenizer is not None and not (folder / TOKENIZER).exists():
            files.write_text(folder / TOKENIZER, self.tokenizer.backend_tokenizer.to_str())

    def fingerprint(self) -> str:
        return self.sentences.fingerprint()

    def data(self) -> str:
        return self.fingerprint()

    def export(self, out: Path, trained: nn.Module) -> None:
        """A folder that other libraries load; encoder.safetensors is its weights by another name, with a card."""
        assert isinstance(trained, text.TextEncoder)
        export_text(out / MODEL, trained)
        weights = out / ENCODER
        weights.unlink(missing_ok=True)
        weights.symlink_to(Path(MODEL) / "model.safetensors")
        card = {
            "encoder": self.config.encoder.as_dict(),
            "width": trained.width,
            "pooling": trained.pooling,
            "model": MODEL,
            **provenance(self.config),
        }
        write_card(weights, card)

    def opened(self, out: Path, network: Network) -> OpenedSentences:
        encoder = network.encoder
        assert isinstance(encoder, text.TextEncoder)
        return OpenedSentences(out, self.config, encoder.eval())


def export_text(folder: Path, trained: text.TextEncoder) -> None:
    """A text encoder as a folder that `transformers` and `sentence-transformers` load; whole, or not at all."""
    part = files.beside(folder)
    try:
        trained.save(part)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise files.DiskFull(f"cannot write {folder}: {files.reason(error)}.") from error
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


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


def _tokenizer(given: SentenceModality, folder: Path | None) -> Any:
    """The one that is kept in the run's folder, or one that is made of the sentences."""
    kept = None if folder is None else folder / TOKENIZER
    if kept is not None and kept.exists():
        return text.read_tokenizer(kept)
    if given.first is not None:
        return text.read_tokenizer(first_run.there(given.first) / TOKENIZER)
    return text.train_tokenizer(some_of(given.sentences), given.config.encoder["vocabulary"])


def some_of(sentences: Sentences) -> Iterator[str]:
    """The words a tokenizer is made of."""
    for indices in sample(sentences, TAUGHT, 0).split(1000):
        yield from itertools.chain.from_iterable(sentences.texts(indices))


def encoder_of(config: Config, tokenizer: Any = None) -> text.TextEncoder:
    """The text encoder that a configuration names."""
    name, settings = config.encoder.name, config.encoder.settings
    if not text.is_text_encoder(name):
        raise ValueError(
            f"{config.data} holds sentences, which encoder '{name}' does not read; "
            f"there is: {text.SMALL}, {text.INSTALLED}, {text.HUB}NAME, {text.HUB}PATH."
        )
    if name == text.SMALL:
        return text.small(tokenizer, **{k: v for k, v in settings.items() if k not in ("vocabulary", "masked")})
    return text.pretrained(name, **settings)
